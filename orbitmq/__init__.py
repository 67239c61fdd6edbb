"""OrbitMQ: a durable message broker for one machine, built for Python.

    with orbitmq.connect() as client, client.producer() as producer:
        receipt = producer.send("orders", b"...")

Names are imported when they are first used, so that the broker's own processes start without the client's modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orbitmq.shm.means import means

__version__ = "0.1.0"

if TYPE_CHECKING:
    from orbitmq import aio, errors
    from orbitmq.client.admin.topic_info import TopicInfo
    from orbitmq.client.broker.broker import Broker
    from orbitmq.client.client import Client, connect
    from orbitmq.client.consumer.consumer import Consumer
    from orbitmq.client.message import Message
    from orbitmq.client.producer.producer import Producer
    from orbitmq.client.receipt import Receipt
    from orbitmq.client.setting_types import BrokerSettings, StoredSettings
    from orbitmq.client.transaction.open_transactions import OpenTransaction
    from orbitmq.client.work.job import Job
    from orbitmq.client.work.worker import Worker
    from orbitmq.tables.dataset import Dataset, dataset

__all__ = [
    "Broker",
    "BrokerSettings",
    "Client",
    "Consumer",
    "Dataset",
    "Job",
    "Message",
    "OpenTransaction",
    "Producer",
    "Receipt",
    "StoredSettings",
    "TopicInfo",
    "Worker",
    "__version__",
    "aio",
    "connect",
    "dataset",
    "errors",
]

_MODULES = ("aio", "errors")
_HOMES = {
    "Broker": "orbitmq.client.broker.broker",
    "BrokerSettings": "orbitmq.client.setting_types",
    "Client": "orbitmq.client.client",
    "connect": "orbitmq.client.client",
    "Consumer": "orbitmq.client.consumer.consumer",
    "Dataset": "orbitmq.tables.dataset",
    "dataset": "orbitmq.tables.dataset",
    "Job": "orbitmq.client.work.job",
    "Message": "orbitmq.client.message",
    "OpenTransaction": "orbitmq.client.transaction.open_transactions",
    "Producer": "orbitmq.client.producer.producer",
    "Receipt": "orbitmq.client.receipt",
    "StoredSettings": "orbitmq.client.setting_types",
    "TopicInfo": "orbitmq.client.admin.topic_info",
    "Worker": "orbitmq.client.work.worker",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        with means(f"load orbitmq.{name}"):
            return import_module(f"orbitmq.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with means(f"load orbitmq.{name}"):
        value = getattr(import_module(home), name)
    globals()[name] = value
    return value
