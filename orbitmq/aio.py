"""OrbitMQ for asyncio: the same names, awaitable.

async with orbitmq.aio.connect() as client:
    producer = await client.producer()
    receipt = await producer.send("orders", b"...")
"""

from __future__ import annotations

from orbitmq.client.aio_client import AsyncClient, connect
from orbitmq.client.aio_consumer import AsyncConsumer
from orbitmq.client.aio_producer import AsyncProducer
from orbitmq.client.aio_worker import AsyncWorker

__all__ = ["AsyncClient", "AsyncConsumer", "AsyncProducer", "AsyncWorker", "connect"]
