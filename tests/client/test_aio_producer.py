"""Goal: tasks can await what threads can wait for, with the same answers, while the event loop continues.

Method: as in test_producer.py. A stalled handler makes the receipts come through the waiting thread, and not through the first
looks.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.aio.producer import AsyncProducer
from orbitmq.errors import Closed, Full, PerhapsStored, TimedOut, UnknownTopic
from tests.client.awaitable import awaitable_producer, run_watched
from tests.client.thread_broker import ThreadBroker


def run(root: Path, work: Callable[[ThreadBroker], Awaitable[None]]) -> None:
    with ThreadBroker(root) as broker:
        broker.topic("orders")
        run_watched(work(broker))


def test_the_same_names(tmp_path: Path) -> None:
    async def work(broker: ThreadBroker) -> None:
        async with awaitable_producer(broker) as producer:
            assert (await producer.send("orders", "a", tags="t", keys=["k"])).queue == 0
            pending = await producer.send_async("orders", b"b", queue=3)
            assert (await pending).queue == 3
            assert (await pending).queue == 3
            await producer.send_oneway("orders", b"c")
            receipts = await producer.send_batch("orders", [b"d"] * 20_000, keys=["k"] * 20_000)
            assert len(receipts) == 20_000
            batch = await producer.send_batch_async("orders", [b"e"] * 3, properties={"a": "b"})
            assert len(await producer.send_batch("orders", [b"e"] * 2, properties=[{"a": "b"}, None])) == 2
            await producer.flush()
            assert batch.done() and producer.in_flight == 0 and producer.failed == 0
            assert (await producer.send("orders", b"f", durability="flushed")).durability == "flushed"
            with pytest.raises(UnknownTopic):
                await producer.send("nothing", b"")
        assert producer.closed
        with pytest.raises(Closed):
            await producer.send("orders", b"")
        assert len(broker.log()) == 20_009

    run(tmp_path, work)


def test_many_tasks(tmp_path: Path) -> None:
    """More tasks than the window has room for; both durabilities, so that both waiting threads work."""

    async def work(broker: ThreadBroker) -> None:
        async with awaitable_producer(broker, window=256) as producer:
            durabilities = ("appended", "flushed")
            receipts = await asyncio.gather(
                *(producer.send("orders", b"%d" % i, durability=durabilities[i % 50 == 0]) for i in range(2000))
            )
            assert len({receipt.physical_offset for receipt in receipts}) == 2000
            assert all(receipt.durability == "flushed" for receipt in receipts[::50])
        assert len(broker.log()) == 2000

    run(tmp_path, work)


def test_the_loop_goes_on_while_a_receipt_is_awaited(tmp_path: Path) -> None:
    async def work(broker: ThreadBroker) -> None:
        async with awaitable_producer(broker, window=4) as producer:
            broker.stall_now()
            tasks = [asyncio.create_task(producer.send("orders", b"%d" % i)) for i in range(10)]
            tasks[2].cancel()
            turns = 0
            while producer.in_flight < 4 or turns < 100:
                await asyncio.sleep(0)
                turns += 1
            with pytest.raises(TimedOut):
                await producer.send("orders", b"", timeout=0.01)
            with pytest.raises(TimedOut) as short:
                await producer.send_batch("orders", [b""] * 3, timeout=0.01)
            assert short.value.sent == 0
            broker.resume()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert [isinstance(result, asyncio.CancelledError) for result in done] == [i == 2 for i in range(10)]

    run(tmp_path, work)


def test_full_is_an_answer(tmp_path: Path) -> None:
    async def work(broker: ThreadBroker) -> None:
        async with awaitable_producer(broker, window=4, on_full="error") as producer:
            broker.stall_now()
            pendings = [await producer.send_async("orders", b"") for _ in range(4)]
            with pytest.raises(Full):
                await producer.send_async("orders", b"")
            with pytest.raises(Full):
                await producer.send_batch("orders", [b""])
            broker.resume()
            for pending in pendings:
                await pending

    run(tmp_path, work)


def test_death(tmp_path: Path) -> None:
    async def work(broker: ThreadBroker) -> None:
        producer = awaitable_producer(broker)
        broker.stall_now()
        tasks = [asyncio.create_task(producer.send("orders", b"")) for _ in range(5)]
        while producer.in_flight < 5:
            await asyncio.sleep(0)
        broker.kill()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, PerhapsStored) for result in results)

    run(tmp_path, work)


def test_loops_in_several_threads_share_a_producer(tmp_path: Path) -> None:
    async def work(producer: AsyncProducer) -> int:
        return len(await asyncio.gather(*(producer.send("orders", b"x") for _ in range(500))))

    with ThreadBroker(tmp_path) as broker:
        broker.topic("orders")
        producer = awaitable_producer(broker, window=64)
        answers: list[Any] = []
        threads = [threading.Thread(target=lambda: answers.append(asyncio.run(work(producer)))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [500] * 3
        asyncio.run(producer.close())
        assert len(broker.log()) == 1500
