"""OrbitMQ for asyncio: the same names, awaitable.

async with orbitmq.aio.connect() as client:
    producer = await client.producer()
    receipt = await producer.send("orders", b"...")
"""

from __future__ import annotations

from orbitmq.client.aio.client import AsyncClient, connect
from orbitmq.client.aio.consumer import AsyncConsumer
from orbitmq.client.aio.producer import AsyncProducer
from orbitmq.client.aio.worker import AsyncWorker

__all__ = ["AsyncClient", "AsyncConsumer", "AsyncProducer", "AsyncWorker", "connect"]
