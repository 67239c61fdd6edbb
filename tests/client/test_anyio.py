"""Goal: under anyio, which repeats a cancellation until the task has left its scope (trio's semantics), consumers and producers
end when they are told, lose nothing, and continue afterwards.
Method: anyio over asyncio's event loop, as orbitmq.aio supports it; trio's own loop is refused by name. pytest's watchdog ends
a loop that spins."""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import orbitmq
from orbitmq.errors import UsageError
from tests.client.awaitable import awaitable_consumer, awaitable_producer
from tests.client.composed_broker import ComposedBroker
from tests.client.thread_broker import ThreadBroker
from tests.trees import small_broker
from tests.waiting import WATCHDOG_S


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    return anyio.run(work, backend="asyncio")


# ---- consumers


def test_a_poll_with_a_limit(composed: ComposedBroker) -> None:
    """Goal: `move_on_after` around every kind of wait ends it, and the next poll returns what has come."""

    async def work() -> None:
        consumer = awaitable_consumer(composed, "g")
        for number, wait in enumerate([consumer.poll, consumer.poll_batch, consumer.poll_bodies, consumer.wait]):
            with anyio.move_on_after(0.05) as scope:
                await wait()
            assert scope.cancelled_caught
            assert await consumer.poll(0.001) is None
            composed.send(b"%d" % number)
            with anyio.fail_after(30):
                assert await consumer.poll_bodies(10) == [b"%d" % number]
        await consumer.commit()
        assert await consumer.committed() == {("t", 0): 4}
        await consumer.close()

    run(work)


def test_limits_within_limits(composed: ComposedBroker) -> None:
    """Goal: only the cancelled scope is left; its neighbours poll on."""

    async def work() -> list[bytes]:
        consumer = awaitable_consumer(composed)
        with anyio.fail_after(30):
            with anyio.move_on_after(0.02) as outer:
                with anyio.move_on_after(30) as inner:
                    await consumer.poll()
            assert outer.cancelled_caught and not inner.cancelled_caught
            with pytest.raises(TimeoutError):
                with anyio.fail_after(0.02):
                    await consumer.poll(30)
            composed.send(b"x")
            return await consumer.poll_bodies(10)

    assert run(work) == [b"x"]


def test_a_shielded_poll_is_left_alone(composed: ComposedBroker) -> None:
    """Goal: in a shielded scope of a cancelled one, polls and commits work, because clean-up needs them."""

    async def work() -> list[bytes]:
        consumer = awaitable_consumer(composed, "g")
        got: list[bytes] = []
        with anyio.CancelScope() as scope:
            scope.cancel()
            try:
                await consumer.poll()
            finally:
                with anyio.CancelScope(shield=True):
                    composed.send(b"x")
                    got += await consumer.poll_bodies(10, 30)
                    await consumer.commit()
                    assert await consumer.committed() == {("t", 0): 1}
                    await consumer.close()
        assert scope.cancelled_caught
        return got

    assert run(work) == [b"x"]


def test_a_task_group_that_fails(composed: ComposedBroker) -> None:
    """Goal: a failing neighbour ends the polls of its group, and consumers are closed although their tasks are cancelled."""
    composed.add_topic("u", 1)
    opened: dict[str, anyio.Event] = {}

    async def consume(topic: str) -> None:
        async with awaitable_consumer(composed, topics=[topic]) as consumer:
            opened[topic].set()
            async for _ in consumer:
                pass

    async def work() -> None:
        opened.update({topic: anyio.Event() for topic in "tu"})
        with pytest.raises(ExceptionGroup) as caught:
            async with anyio.create_task_group() as group:
                for topic, event in opened.items():
                    group.start_soon(consume, topic)
                    await event.wait()
                raise LookupError
        assert caught.group_contains(LookupError)

    run(work)
    assert sorted(composed.closed) == [0, 1]


def test_no_cancellation_loses_a_message(composed: ComposedBroker) -> None:
    """Goal: with messages coming while polls are cancelled, each is delivered once. Method: limits at random, of
    microseconds."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    messages = 300

    async def work() -> list[bytes]:
        consumer = awaitable_consumer(composed, batch=5)
        got: list[bytes] = []

        async def produce() -> None:
            for number in range(messages):
                composed.send(b"%d" % number)
                if dice.random() < 0.5:
                    await anyio.sleep(dice.random() * 0.002)

        async with anyio.create_task_group() as group:
            group.start_soon(produce)
            while len(got) < messages:
                with anyio.move_on_after(dice.random() * 0.002):
                    got += map(bytes, await consumer.poll_batch(3))
        await consumer.close()
        return got

    assert run(work) == [b"%d" % number for number in range(messages)]


# ---- producers


def test_a_send_with_a_limit(broker: ThreadBroker) -> None:
    """Goal: sends that wait, for a receipt or for room, end when cancelled. The producer continues, and each message whose send
    was cancelled after it had left is in the log once."""

    async def work() -> None:
        producer = awaitable_producer(broker, window=4)
        broker.stall_now()
        for number in range(6):  # four find room
            with anyio.move_on_after(0.02) as scope:
                await producer.send("orders", b"%d" % number)
            assert scope.cancelled_caught
        with anyio.move_on_after(0.02) as scope:
            await producer.send_batch("orders", [b"batch"] * 3)
        assert scope.cancelled_caught and producer.in_flight == 4
        broker.resume()
        with anyio.fail_after(30):
            await producer.flush()
            await producer.send("orders", b"after")
            await producer.close()

    run(work)
    assert sorted(bytes(record.body) for record in broker.log()) == [b"0", b"1", b"2", b"3", b"after"]


def test_a_receipt_can_be_awaited_again(broker: ThreadBroker) -> None:
    """Goal: the Pending of a cancelled wait gets its receipt later."""

    async def work() -> None:
        producer = awaitable_producer(broker)
        broker.stall_now()
        pending = await producer.send_async("orders", b"x", durability="flushed")
        for _ in range(3):
            with anyio.move_on_after(0.01) as scope:
                await pending
            assert scope.cancelled_caught
        broker.resume()
        with anyio.fail_after(30):
            assert (await pending).durability == "flushed"
            await producer.close()

    run(work)


def test_closing_within_a_cancelled_scope(broker: ThreadBroker) -> None:
    """Goal: a producer in a cancelled scope gives its session back, without waiting for what is in flight."""

    async def work() -> None:
        broker.stall_now()
        with anyio.CancelScope() as scope:
            async with awaitable_producer(broker, timeout=math.inf) as producer:
                await producer.send_oneway("orders", b"x")
                scope.cancel()
        assert scope.cancel_called
        broker.resume()

    run(work)
    assert broker.session_state(0) != 1


# ---- both of a real broker


def test_whatever_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    """Goal: connecting, making producers and consumers, polling, sending and closing may be cancelled at any moment, and in the
    end no session is left, and the group goes on. Method: a real broker, limits at random."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)

    async def one(limit: float) -> None:
        with anyio.move_on_after(limit):
            async with orbitmq.aio.connect("cancelled") as client:
                producer = await client.producer(window=64)
                consumer = await client.consumer("g", ["t"])
                await producer.send("t", b"x")
                while await consumer.poll(30) is not None:
                    await consumer.commit()

    async def work() -> None:
        for _ in range(40):
            await one(dice.random() * 0.1)

    with small_broker(tmp_path / "store", name="cancelled") as broker:
        broker.create_topic("t", queues=2)
        run(work)
        while broker.status().sessions:  # the last ones are being closed by threads
            pass
        with broker.consumer("g", ["t"]) as consumer, broker.producer() as producer:
            producer.send("t", b"the last")
            came: list[bytes] = []
            while b"the last" not in came:
                more = consumer.poll_bodies(10_000, WATCHDOG_S)
                assert more, f"{len(came)} messages came"
                came += more


@pytest.mark.parametrize("named", [True, False])
def test_trio(named: bool) -> None:
    """Goal: trio's own event loop is refused with an error of OrbitMQ's, not of asyncio's."""

    async def work() -> None:
        if named:
            await orbitmq.aio.connect("nowhere")
        else:
            async with orbitmq.aio.connect("nowhere"):
                pass

    with pytest.raises(UsageError, match="no asyncio event loop runs here"):
        anyio.run(work, backend="trio")
