"""Work that an asyncio program leaves to a thread: questions to the broker, and waits in C.

A task that is cancelled meanwhile ends at once, without waiting for the thread. If it waited on its way out, a second
cancellation could come at any moment (anyio repeats them until the task has left its scope) and stop what was still to be
undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from orbitmq.client.connection.absence import given_up
from orbitmq.client.connection.bell import Bell
from orbitmq.errors import NoMeans, UsageError
from orbitmq.shm.means import means

_Result = TypeVar("_Result")


async def aside(work: Callable[[], _Result], doing: str) -> _Result:
    """Runs `work` in a thread of the event loop's, and returns its result. If the task is cancelled, the thread finishes the
    work and nobody gets the result.

    Raises: NoMeans: there is no thread, and `work` will not run. UsageError: no asyncio event loop runs here.
    """
    loop = running_loop(doing)
    wanted = True
    bell = Bell()

    def run() -> list[_Result]:
        token = given_up.set(bell)
        try:
            return [work()] if wanted else []
        finally:
            given_up.reset(token)

    try:
        with means(doing):
            (result,) = await loop.run_in_executor(None, run)
            return result
    except NoMeans:
        # The executor has kept the work, and would do it as soon as it has a thread.
        wanted = False
        raise
    except BaseException:
        bell.ring()  # no thread may keep waiting for a broker, because a program that ends waits for its threads
        raise


async def aside_or_here(work: Callable[[], object], doing: str) -> None:
    """Like `aside`, for work that must be done: it is done even if the task is cancelled before the thread has begun. If there
    is no thread, it is done here, while the event loop waits."""
    loop = running_loop(doing)
    wanted = True

    def run() -> None:
        if wanted:
            work()

    try:
        with means(doing):
            done = loop.run_in_executor(None, run)
    except (NoMeans, RuntimeError):  # RuntimeError: the loop is about to close
        wanted = False
        work()
    else:
        await asyncio.shield(done)


def running_loop(doing: str) -> asyncio.AbstractEventLoop:
    """The event loop that runs here. Raises: UsageError: there is none, or it is not asyncio's."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise UsageError(
            f"could not {doing}: no asyncio event loop runs here",
            hint="use asyncio.run(), or anyio.run() with backend='asyncio'; in a trio program, orbitmq.connect() in threads",
        ) from None


class Worker:
    """A thread that does one piece of work after the other. It finishes work that a cancelled task has left to it; the next
    user of the same objects first calls `settled`. For one task at a time. A forked child calls `forked` before anything else,
    and then has a thread of its own."""

    def __init__(self, name: str, doing: str) -> None:
        """Raises: NoMeans: there is no thread."""
        self._name = name
        self.forked()
        self._start(doing)

    def forked(self) -> None:
        """The child does not have the parent's thread, and the work left to that thread is the parent's."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        self._started = False
        self.left: Future[Any] | None = None  # set by a cancelled task, until `settled` has returned

    def _start(self, doing: str) -> None:
        with means(doing):
            # The thread is started before there is work: an executor without a thread would keep the work and do it at some
            # later time.
            self._thread.submit(int)
        self._started = True

    async def do(self, work: Callable[[], _Result], leave: Callable[[], None], doing: str) -> _Result:
        """Returns what `work` gives. If the task is cancelled, or its loop ends, after the work has begun, `leave` is called to
        end the work.

        Raises: NoMeans: there is no thread. UsageError: no asyncio event loop runs here.
        """
        running_loop(doing)
        if not self._started:
            self._start(doing)
        job = self._thread.submit(work)
        try:
            await _ended(job)
        except BaseException:
            if not job.cancel():
                self.left = job
                leave()
            raise
        return job.result()

    async def settled(self) -> None:
        """Waits until the work that cancelled tasks have left is done."""
        while (job := self.left) is not None:
            await _ended(job)
            if self.left is job:
                self.left = None

    def close(self) -> None:
        """Lets the thread end once it has finished what it began."""
        self._thread.shutdown(wait=False)


async def _ended(job: Future[Any]) -> None:
    """Waits for the end of the work. If the task is cancelled, the work continues."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def tell(_: Future[Any]) -> None:
        with suppress(RuntimeError):  # the loop was closed; nobody waits in it any more
            loop.call_soon_threadsafe(_finish, ended)

    job.add_done_callback(tell)
    await ended


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
