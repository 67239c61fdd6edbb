"""Goal: the asyncio consumer waits without blocking the loop and loses nothing to a cancellation. Method: a composed broker
in the same process, moved by other tasks."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.errors import BrokerStopped, Closed
from tests.client.awaitable import awaitable_consumer
from tests.client.composed_broker import ComposedBroker


def test_a_task_waits_while_others_work(composed: ComposedBroker) -> None:
    async def run() -> list[bytes]:
        async with awaitable_consumer(composed, "g") as consumer:
            assert await consumer.poll(0) is None
            waiting = asyncio.create_task(consumer.poll_bodies(10))
            await asyncio.sleep(0)
            composed.send(b"a")
            bodies = await asyncio.wait_for(waiting, 30)
            await consumer.commit()
            assert await consumer.committed() == {("t", 0): 1}
            return bodies

    assert asyncio.run(run()) == [b"a"]


def test_a_cancelled_poll_takes_nothing(composed: ComposedBroker) -> None:
    async def run() -> list[bytes]:
        consumer = awaitable_consumer(composed)
        got = []
        for number in range(20):
            waiting = asyncio.create_task(consumer.poll())
            for _ in range(number % 4):
                await asyncio.sleep(0)
            composed.send(b"%d" % number)
            waiting.cancel()
            try:
                message = await waiting
            except asyncio.CancelledError:
                message = await asyncio.wait_for(consumer.poll(), 30)
            assert message is not None
            got.append(bytes(message))
        await consumer.close()
        return got

    assert asyncio.run(run()) == [b"%d" % number for number in range(20)]


def test_iteration_ends_with_close(composed: ComposedBroker) -> None:
    async def run() -> list[bytes]:
        consumer = awaitable_consumer(composed)

        arrived = asyncio.Event()
        bodies = []

        async def collect() -> list[bytes]:
            async for message in consumer:
                bodies.append(bytes(message))
                arrived.set()
            return bodies

        task = asyncio.create_task(collect())
        composed.send(b"x")
        await asyncio.wait_for(arrived.wait(), 30)
        await consumer.close()
        with pytest.raises(Closed):
            await consumer.poll()
        return await asyncio.wait_for(task, 30)

    assert asyncio.run(run()) == [b"x"]


def test_the_broker_stops_while_a_task_waits(composed: ComposedBroker) -> None:
    async def run() -> None:
        consumer = awaitable_consumer(composed)
        task = asyncio.create_task(consumer.poll())
        await asyncio.sleep(0)
        composed.stop()
        with pytest.raises(BrokerStopped):
            await asyncio.wait_for(task, 30)
        await consumer.close()

    asyncio.run(run())
