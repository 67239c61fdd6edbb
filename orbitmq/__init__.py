"""OrbitMQ: a durable message broker for one machine, built for Python.

    with orbitmq.connect() as client:
        receipt = client.producer().send("orders", b"...")

Names are imported when they are first used, so that the broker's own processes start without the client's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from orbitmq.client.broker import Broker
    from orbitmq.client.client import Client, connect
    from orbitmq.client.topic_info import TopicInfo

__all__ = ["Broker", "Client", "TopicInfo", "__version__", "connect"]

_HOMES = {
    "Broker": "orbitmq.client.broker",
    "Client": "orbitmq.client.client",
    "connect": "orbitmq.client.client",
    "TopicInfo": "orbitmq.client.topic_info",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
