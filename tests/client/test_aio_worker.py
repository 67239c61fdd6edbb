"""Goal: orbitmq.aio's worker settles jobs as the other one does, and a cancellation loses nothing. Method: workers over a model
of the broker's queue."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from orbitmq.client.aio.worker import AsyncWorker
from orbitmq.client.work.job import Job
from orbitmq.errors import JobLost
from tests.client import work_handlers
from tests.client.awaitable import run_watched
from tests.client.work_model import WorkModel
from tests.waiting import WATCHDOG_S


@pytest.fixture
def model() -> WorkModel:
    return WorkModel()


def test_a_loop(model: WorkModel) -> None:
    model.send(b"a", b"b", b"c")

    async def work() -> list[Any]:
        seen = []
        async with AsyncWorker(model.worker(idle=0)) as worker:
            async for job in worker:
                seen.append((job.body, list(model.done)))
        assert worker.closed
        return seen

    assert run_watched(work()) == [(b"a", []), (b"b", [b"a"]), (b"c", [b"a", b"b"])]
    assert model.done == [b"a", b"b", b"c"]


def test_an_exception_nacks(model: WorkModel) -> None:
    model.send(b"a", b"b")

    async def work() -> None:
        async with AsyncWorker(model.worker(idle=0)) as worker:
            with pytest.raises(ValueError):
                async for job in worker:
                    if job.body == b"b":
                        raise ValueError("no such card")
            assert model.entry(b"b").reasons[0][0] == "ValueError: no such card"

    run_watched(work())
    assert model.done == [b"a"]


def test_a_cancelled_body_comes_again_at_once(model: WorkModel) -> None:
    model.send(b"a")

    async def body(worker: AsyncWorker) -> None:
        async for _ in worker:
            asyncio.current_task().cancel()  # type: ignore[union-attr]
            await asyncio.Event().wait()

    async def work() -> None:
        async with AsyncWorker(model.worker(idle=0)) as worker:
            with pytest.raises(asyncio.CancelledError):
                await asyncio.create_task(body(worker))
            assert [(job.body, job.delivery) async for job in worker] == [(b"a", 2)]

    run_watched(work())
    assert model.done == [b"a"]


def test_a_cancelled_wait_takes_nothing(model: WorkModel) -> None:
    async def work() -> None:
        async with AsyncWorker(model.worker()) as worker:
            for n in range(5):
                waits = asyncio.create_task(worker.take())
                while not model.sessions[0].asked[n:]:
                    await asyncio.sleep(0)
                waits.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waits
                body = b"%d" % n
                model.send(body)
                with (await worker.take())[0] as job:
                    assert (job.body, job.delivery) == (body, 1)

    run_watched(work())
    assert len(model.done) == 5


def test_batches_and_jobs(model: WorkModel) -> None:
    model.send(*(b"%d" % n for n in range(12)))

    async def work() -> None:
        async with AsyncWorker(model.worker(idle=0, visibility=0.05, extend=False)) as worker:
            async for jobs in worker.batches(5):
                assert 1 <= len(jobs) <= 5
            assert len(model.done) == 12
            model.send(b"slow")
            (job,) = await worker.take(1, 5)
            (again,) = await worker.take(1, 5)
            assert again.delivery >= 2
            job.ack()
            again.ack()
            with pytest.raises(JobLost):
                await worker.flush()

    run_watched(work())


def test_tasks(model: WorkModel) -> None:
    """As many at the same time as was asked for; each outcome as in threads."""
    model.send(*(b"%d" % n for n in range(8)), b"bad")
    together = asyncio.Barrier(4)

    async def handle(job: Job) -> None:
        if job.body == b"bad":
            raise ValueError("x")
        await together.wait()

    async def work() -> int:
        async with AsyncWorker(model.worker(concurrency=4, idle=0.2)) as worker:
            return await worker.run(handle)

    assert run_watched(work()) == 9
    assert len(model.done) == 8 and model.entry(b"bad").reasons[0][0] == "ValueError: x"


def test_a_task_that_takes_too_long_is_cancelled(model: WorkModel) -> None:
    model.send(b"a", b"b")
    cancelled = []

    async def handle(job: Job) -> None:
        if job.body == b"a":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(job.body)
                raise

    async def work() -> int:
        async with AsyncWorker(model.worker(idle=0, timeout=1.0)) as worker:
            return await worker.run(handle)

    assert run_watched(work()) == 2
    assert cancelled == [b"a"] and model.done == [b"b"] and "Time" in model.entry(b"a").reasons[0][0]


def test_a_cancelled_run(model: WorkModel) -> None:
    model.send(b"a", b"b")
    begun = asyncio.Event()

    async def handle(_: Job) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def work() -> None:
        async with AsyncWorker(model.worker()) as worker:
            running = asyncio.create_task(worker.run(handle))
            await begun.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    run_watched(work())
    assert not model.done and sum(each.deliveries for each in model.entries) == 1
    assert model.entry(b"a").reasons[0][0] == "CancelledError"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_gracefully(model: WorkModel, number: signal.Signals) -> None:
    model.send(*(b"%d" % n for n in range(40)))
    begun = 0

    async def work() -> int:
        async with AsyncWorker(model.worker(concurrency=2)) as worker:

            async def handle(_: Job) -> None:
                nonlocal begun
                begun += 1
                if begun == 2:
                    os.kill(os.getpid(), number)
                while not worker.stopped:
                    await asyncio.sleep(0)

            return await worker.run(handle)

    assert asyncio.run(asyncio.wait_for(work(), WATCHDOG_S)) == 2
    assert len(model.done) == 2 and sum(each.deliveries for each in model.entries) == 2


def test_other_handlers(model: WorkModel) -> None:
    """In an event loop, a plain function runs in threads or processes; without one, a coroutine function gets a loop."""
    model.send(b"a")

    async def work(executor: str, handler: Any) -> int:
        async with AsyncWorker(model.worker(idle=0)) as worker:
            return await worker.run(handler, executor=executor)

    assert run_watched(work("threads", lambda _: None)) == 1
    model.send(b"b")
    assert run_watched(work("processes", work_handlers.nack_in_a_process)) == 1
    assert model.done == [b"a"] and model.entry(b"b").reasons == [("later", "")]

    async def handle(_: Job) -> None:
        await asyncio.sleep(0)

    model.send(b"c")
    with model.worker(idle=0) as worker:
        assert worker.run(handle) == 1
        model.send(b"d")
        assert worker.run(work_handlers.slept, executor="processes") == 1
    assert model.done == [b"a", b"c", b"d"]


def test_a_task_beside_threads_is_given_up(model: WorkModel) -> None:
    model.send(b"a", b"b")

    async def handle(job: Job) -> None:
        if job.body == b"a":
            await asyncio.Event().wait()

    with model.worker(idle=0, timeout=1.0) as worker:
        assert worker.run(handle) == 2
    assert model.done == [b"b"] and model.entry(b"a").reasons[0][0].startswith("TimedOut")
