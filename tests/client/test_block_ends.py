"""Goal: an error, Ctrl-C or a cancellation that ends a `with` block of a producer leaves the block, even if what is on its way
has no verdict in time. Method: a broker whose writer is stopped."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import TimedOut
from tests.trees import actors, small_broker


@pytest.fixture
def stalled(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 1)
        writer = actors(broker)["writer"].pid
        os.kill(writer, signal.SIGSTOP)
        try:
            yield broker
        finally:
            os.kill(writer, signal.SIGCONT)


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt])
def test_what_ends_the_block_is_the_news(stalled: orbitmq.Broker, kind: type[BaseException]) -> None:
    with pytest.raises(kind), stalled.producer(timeout=0.2) as producer:
        producer.send_async("t", b"x")
        raise kind
    assert producer.closed
    with pytest.raises(TimedOut), stalled.producer(timeout=0.2) as producer:
        producer.send_async("t", b"x")
    assert producer.closed


def test_a_cancelled_task(stalled: orbitmq.Broker) -> None:
    """Otherwise a cancellation would be lost: the task would end with TimedOut."""

    async def program() -> None:
        sent = asyncio.Event()

        async def work() -> None:
            async with orbitmq.aio.connect(stalled.name) as client, await client.producer(timeout=0.2) as producer:
                await producer.send_async("t", b"x")
                sent.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await sent.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(program())
