"""Goal: asyncio programs have the client's names, awaitable, with its errors. Method: the same questions as in
test_connection.py, from an event loop, to a real tree."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import orbitmq
import orbitmq.aio
from orbitmq import errors
from tests.trees import small_broker


def test_client(tmp_path: Path) -> None:
    async def work(name: str) -> None:
        async with orbitmq.aio.connect(name) as client:
            assert client.name == name
            assert await client.create_topic("orders", 2) == orbitmq.TopicInfo("orders", 2, 6)
            assert [topic.name for topic in await client.topics()] == ["orders"]
            assert (await client.status()).state == "running"
            with pytest.raises(errors.TopicNameError):
                await client.create_topic("no/slash")
            async with await client.producer(window=16) as producer:
                receipts = await asyncio.gather(*(producer.send("orders", b"x") for _ in range(200)))
            assert sorted((receipt.queue, receipt.offset) for receipt in receipts) == [
                (queue, offset) for queue in range(2) for offset in range(100)
            ]
        client = await orbitmq.aio.connect(name)
        await client.close()
        with pytest.raises(errors.Closed):
            await client.topics()

    with small_broker(tmp_path) as broker:
        asyncio.run(work(broker.name))


def names(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_same_names() -> None:
    """Nothing is missing except what threads need: to end waits, the connection, and the steps of a send."""
    assert names(orbitmq.Client) - names(orbitmq.aio.AsyncClient) == {"connection", "work_session"}
    steps = {"committed", "forget_check", "make_batch", "post_atomic", "prepare", "prepare_check", "push", "ready", "retire"}
    steps |= {"send_columns", "settled", "wait_settled"}
    assert names(orbitmq.Producer) - names(orbitmq.aio.AsyncProducer) == steps | {"ends"}
    of_threads = {"interrupt", "resume", "prompt"}
    assert names(orbitmq.Consumer) - names(orbitmq.aio.AsyncConsumer) == of_threads


def test_nobody_there() -> None:
    async def work() -> None:
        await orbitmq.aio.connect("nobody-has-this-name")

    with pytest.raises(errors.BrokerNotRunning):
        asyncio.run(work())
