"""The worker for asyncio: the same names, awaitable.

A thread of the worker's waits for messages, and leaves them where any task finds them. So a task that is cancelled while it
waits has taken nothing. Settling needs no thread, because it does not wait for the broker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar

from orbitmq.client.aio.aside import Worker as Thread
from orbitmq.client.aio.aside import aside, aside_or_here
from orbitmq.client.argument import seconds_or_none
from orbitmq.client.parameters import Unknown, refuse_unknown, spelled
from orbitmq.client.unclosed import Shown, words_of
from orbitmq.client.work.hand import Handler, check_handler, failed
from orbitmq.client.work.job import Job
from orbitmq.client.work.tasks import is_async
from orbitmq.client.work.worker import Inside, Worker
from orbitmq.errors import OrbitError
from orbitmq.native._types import AsyncLoop

SLICE_S = 1.0  # longest wait of the thread: its loop may end first

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


@spelled
class AsyncWorker(Shown):
    """Made by `AsyncClient.worker()`, over a Worker that nobody else uses. Tasks may share it."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._inside = Inside(worker)
        self._asking = asyncio.Lock()
        try:
            self._thread = Thread("orbitmq-worker", "make a worker")
        except BaseException:
            worker.close()
            raise

    # ---- taking jobs

    def __aiter__(self) -> AsyncIterator[Job]:
        """See Worker.__iter__. A job whose task is cancelled in the loop's body comes again at once."""
        body = self._inside.body()

        async def next_job() -> Job:
            body.settle()
            job = body.got(await self._some(1, self._worker.settings.idle))
            if not job:
                raise StopAsyncIteration
            return job[0]

        return AsyncLoop(next_job, body.left)

    def batches(self, most: int = 1000) -> AsyncIterator[list[Job]]:
        """See Worker.batches."""
        self._inside.check_most(most)
        body = self._inside.body()

        async def next_jobs() -> list[Job]:
            body.settle()
            jobs = body.got(await self._some(most, self._worker.settings.idle))
            if not jobs:
                raise StopAsyncIteration
            return jobs

        return AsyncLoop(next_jobs, body.left)

    async def take(self, most: int = 1, timeout: float | None = None, **unknown: Unknown) -> list[Job]:
        """See Worker.take."""
        if unknown:
            refuse_unknown(self.take, unknown)
        self._inside.check_most(most)
        return await self._some(most, seconds_or_none(timeout, "take jobs"))

    # ---- handlers

    async def run(
        self, handler: Handler | Callable[[Job], Awaitable[object]], *, executor: str | None = None, jobs: int | None = None
    ) -> int:
        """See Worker.run. A coroutine function is called in `concurrency` tasks of this event loop, and its task is cancelled
        after `timeout`. Another function is called in threads or processes."""
        check_handler(handler)
        if executor == "processes" or not is_async(handler):
            plain: Any = handler
            with self._inside.signals:
                try:
                    return await aside(lambda: self._worker.run(plain, executor=executor, jobs=jobs), "run a worker")
                except asyncio.CancelledError:
                    self._worker.stop()
                    raise
        with self._inside.signals:
            counter = iter(range(1 << 62) if jobs is None else range(jobs))
            concurrency = self._worker.settings.concurrency
            self._inside.at_once(concurrency)
            try:
                async with asyncio.TaskGroup() as group:
                    hands = [group.create_task(self._handle(handler, counter)) for _ in range(concurrency)]
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None
            finally:
                self._inside.rest()
            return sum(hand.result() for hand in hands)

    async def _handle(self, handler: Callable[[Job], Any], counter: Any) -> int:
        """One of the tasks that work at the same time. Returns how many jobs it worked on."""
        done = 0
        idle, timeout = self._worker.settings.idle, self._worker.settings.timeout
        while not self._worker.stopped and next(counter, None) is not None:
            found = await self._some(1, idle)
            if not found:
                break
            (job,) = found
            done += 1
            try:
                async with asyncio.timeout(timeout):
                    await handler(job)
            except Exception as error:
                failed(job, error)
            except BaseException as error:
                job.fail(error)
                raise
            else:
                job.done()
        return done

    # ---- the end

    def stop(self) -> None:
        """See Worker.stop."""
        self._worker.stop()

    @property
    def stopped(self) -> bool:
        """See Worker.stopped."""
        return self._worker.stopped

    async def flush(self, timeout: float | None = None) -> None:
        """See Worker.flush."""
        await aside(lambda: self._worker.flush(timeout), "wait until jobs are settled")

    async def close(self, timeout: float | None = 5.0) -> None:
        """See Worker.close."""
        try:
            await aside_or_here(lambda: self._worker.close(timeout), "close a worker")
        finally:
            self._thread.close()

    @property
    def closed(self) -> bool:
        """See Worker.closed."""
        return self._worker.closed

    async def __aenter__(self) -> Self:
        self._inside.signals.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._inside.signals.__exit__(kind, error, traceback)
        try:
            if error is None:
                await self.close()
                return
            with suppress(OrbitError):
                await aside_or_here(lambda: self._inside.end(error), "close a worker")
        finally:
            self._thread.close()

    def _words(self) -> str:
        return words_of(self._worker)

    # ---- behind them

    async def _some(self, most: int, idle: float | None) -> list[Job]:
        """As Worker.take."""
        deadline = None if idle is None else time.monotonic() + idle
        while True:
            found = self._inside.begin(most)
            if found or self._worker.stopped:
                return found
            async with self._asking:
                if self._inside.waiting():
                    continue
                left = SLICE_S if deadline is None else min(SLICE_S, max(0.0, deadline - time.monotonic()))
                if self._thread.left is not None:
                    await self._thread.settled()
                ready = partial(self._inside.ready, most, left)
                more = await self._thread.do(ready, self._inside.interrupt, "wait for jobs")
            if not more and deadline is not None and time.monotonic() >= deadline:
                return []


class Opening:
    """What `AsyncClient.worker` returns: `await` it, or use it in `async with`."""

    def __init__(self, make: Callable[[], Worker], doing: str) -> None:
        self._make = make
        self._doing = doing
        self._made: AsyncWorker | None = None

    def __await__(self) -> Generator[Any, None, AsyncWorker]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncWorker:
        self._made = await self._open()
        return await self._made.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._made is not None:
            await self._made.__aexit__(kind, error, traceback)

    async def _open(self) -> AsyncWorker:
        return AsyncWorker(await aside(self._make, self._doing))


@spelled
class AsyncWork(Generic[_Parameters, _Result]):
    """What the decorator `@client.work(...)` of an AsyncClient makes of a function: it can be called as before, and has
    `run`."""

    def __init__(self, function: Callable[_Parameters, _Result], open_worker: Callable[[], Opening]) -> None:
        check_handler(function)
        self._function = function
        self._open_worker = open_worker
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "work")

    def __call__(self, *arguments: _Parameters.args, **keywords: _Parameters.kwargs) -> _Result:
        return self._function(*arguments, **keywords)

    async def run(self, *, jobs: int | None = None) -> int:
        """Makes a worker and awaits its `run` with the function. See Worker.run."""
        function: Any = self._function
        async with self._open_worker() as worker:
            return await worker.run(function, jobs=jobs)


class AsyncDecorator:
    """What `AsyncClient.work` returns."""

    def __init__(self, open_worker: Callable[[], Opening]) -> None:
        self._open_worker = open_worker

    def __call__(self, function: Callable[_Parameters, _Result]) -> AsyncWork[_Parameters, _Result]:
        return AsyncWork(function, self._open_worker)
