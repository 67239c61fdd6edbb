"""Goal: atomic batches from an event loop. Method: a small tree; what they store is tested in test_atomic_batch.py."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import orbitmq.aio
from orbitmq import errors
from tests.trees import indexed, small_broker


def test_many_tasks_send_batches(tmp_path: Path) -> None:
    """Method: more messages than the window holds, so that the tasks wait for room. Some batches are
    refused, and one block fails."""

    async def one(producer: orbitmq.aio.AsyncProducer, number: int) -> int:
        try:
            async with producer.batch(timeout=60) as batch:
                batch.send("a", b"%d" % number)
                batch.send("b", b"%d" % number, delay=0.01 if number % 5 == 0 else None)
                if number % 3 == 0:
                    batch.send("zz", b"")
                if number == 1:
                    raise ZeroDivisionError
        except (errors.UnknownTopic, ZeroDivisionError):
            return 0
        assert [receipt.topic for receipt in batch.receipts] == ["a", "b"]
        return 1

    async def work(name: str) -> int:
        async with orbitmq.aio.connect(name) as client, await client.producer(window=16) as producer:
            async with producer.batch() as empty:
                pass
            assert list(empty.receipts) == []
            return sum(await asyncio.gather(*(one(producer, number) for number in range(100))))

    with small_broker(tmp_path) as broker:
        broker.create_topic("a", queues=2)
        broker.create_topic("b", queues=2)
        stored = asyncio.run(work(broker.name))
        assert stored == sum(1 for number in range(100) if number % 3 and number != 1)
        indexed(broker)
        queues = [queue for topic in broker.status().topics if topic.name == "a" for queue in topic.queues]
        assert sum(queue.max_offset for queue in queues) == stored


def test_full_is_raised_at_once(tmp_path: Path) -> None:
    async def work(name: str) -> None:
        async with orbitmq.aio.connect(name) as client, await client.producer(window=16) as producer:
            with pytest.raises(errors.MessageTooLarge):
                async with producer.batch() as batch:
                    for _ in range(17):
                        batch.send("a", b"")

    with small_broker(tmp_path) as broker:
        broker.create_topic("a", queues=1)
        asyncio.run(work(broker.name))
