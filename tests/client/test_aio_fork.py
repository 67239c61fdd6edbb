"""Goal: objects of asyncio programs work in a forked child, or say why they do not, whatever the parent's threads and tasks
were doing at the moment of the fork. Method: a real tree, and children that run an event loop of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import orbitmq
import orbitmq.aio
from orbitmq.errors import UsageError
from tests.client.test_connection import in_child
from tests.trees import indexed, small_broker
from tests.waiting import WATCHDOG_S, until_in_loop

pytestmark = pytest.mark.timeout(4 * WATCHDOG_S)


def in_watched_child(work: Callable[[], object]) -> int:
    """As in_child; a signal ends a child that hangs."""

    def watched() -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(WATCHDOG_S))
        try:
            work()
        except BaseException:
            traceback.print_exc()
            raise

    return in_child(watched)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("orders", 1)
        with broker.producer() as producer:
            producer.send_batch("orders", [b"%d" % number for number in range(10)])
        indexed(broker)
        yield broker


Held = tuple[orbitmq.aio.AsyncClient, orbitmq.aio.AsyncConsumer, orbitmq.aio.AsyncProducer]


async def hold(name: str) -> Held:
    """A client, a consumer and a producer, each of which has been used."""
    client = await orbitmq.aio.connect(name)
    consumer = await client.consumer(None, ["orders"])
    producer = await client.producer()
    assert len(await consumer.poll_bodies(3, WATCHDOG_S)) == 3
    await producer.send("orders", b"before")
    return client, consumer, producer


async def use(held: Held) -> list[bytes]:
    """Uses all of them; returns what the consumer reads."""
    client, consumer, producer = held
    got: list[bytes] = []
    await client.create_topic("letters", 1)
    sent = await producer.send("orders", b"after", durability="flushed")
    while (await consumer.position())["orders", 0] <= sent.offset:  # another process may have sent the same body
        got += await consumer.poll_bodies(100, WATCHDOG_S)
    assert (await consumer.position())["orders", 0] == sent.offset + 1
    await consumer.seek("orders", 0, sent.offset)
    assert await consumer.poll_bodies(1, WATCHDOG_S) == [b"after"]
    await producer.close()
    await consumer.close()
    await client.close()
    return got


def test_a_child_goes_on_with_what_its_parent_made(broker: orbitmq.Broker) -> None:
    """The child continues where its parent was; and so does the parent."""
    held = asyncio.run(hold(broker.name))

    def child() -> None:
        assert asyncio.run(use(held)) == [*(b"%d" % number for number in range(3, 10)), b"before", b"after"]

    assert in_watched_child(child) == 0
    assert asyncio.run(use(held))[-1] == b"after"


def test_a_fork_while_a_cancelled_poll_is_waited_out(broker: orbitmq.Broker) -> None:
    """The thread that has the consumer does not exist in the child, nor does the interruption that is to end its wait."""
    held = asyncio.run(hold(broker.name))
    _, consumer, _ = held

    async def leave() -> None:
        while b"before" not in await consumer.poll_bodies(100, WATCHDOG_S):
            pass  # reput is not at the end of the log yet
        task = asyncio.create_task(consumer.poll())
        await until_in_loop(consumer._consumer._turns.locked, "the thread's wait")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    assert consumer._worker.left is not None
    assert in_watched_child(lambda: asyncio.run(use(held))) == 0
    assert asyncio.run(use(held))[-1] == b"after"


def refused(work: Callable[[], Awaitable[Any]]) -> None:
    """Called in a coroutine of the parent's, which no event loop runs in the child."""
    with pytest.raises(UsageError, match="no asyncio event loop runs here"):
        work().__await__().send(None)


def test_a_fork_within_a_task(broker: orbitmq.Broker) -> None:
    """The child is in the middle of a coroutine without an event loop: each call raises an error that says so, and works in a
    loop of the child's own."""

    async def main() -> int:
        held = await hold(broker.name)
        client, consumer, producer = held
        reading = asyncio.create_task(drained(consumer))
        await asyncio.sleep(0)

        def child() -> None:
            calls: list[Callable[[], Awaitable[Any]]] = [
                client.topics,
                lambda: client.consumer(None, ["orders"]),
                consumer.poll,
                consumer.wait,
                consumer.position,
                consumer.commit,
                consumer.settle,
                lambda: producer.send("orders", b"refused"),
                lambda: producer.send_batch("orders", [b"refused"]),
                producer.flush,
            ]
            for call in calls:
                refused(call)
            assert b"refused" not in asyncio.run(use(held))

        code = in_watched_child(child)
        reading.cancel()
        return code

    async def drained(consumer: orbitmq.aio.AsyncConsumer) -> None:
        while True:
            await consumer.poll_bodies(100)

    assert asyncio.run(main()) == 0


def test_a_fork_within_a_callback(broker: orbitmq.Broker) -> None:
    """The callback belongs to the parent; the child's consumer may read."""
    codes: list[int] = []

    async def main() -> None:
        async with orbitmq.aio.connect(broker.name) as client:
            parent = os.getpid()

            def fork(consumer: orbitmq.aio.AsyncConsumer, queues: object) -> None:
                if os.getpid() == parent and not codes:
                    codes.append(in_watched_child(lambda: asyncio.run(read(consumer))))

            async with await client.consumer("g", ["orders"], on_assigned=fork) as consumer:  # type: ignore[arg-type]
                assert await consumer.poll(WATCHDOG_S) is not None

    async def read(consumer: orbitmq.aio.AsyncConsumer) -> None:
        """As another member of the group."""
        assert not await consumer.poll_bodies(1, 0.001)  # its parent has the only queue
        await consumer.close()

    asyncio.run(main())
    assert codes == [0]
