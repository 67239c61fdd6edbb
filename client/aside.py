"""Work that an asyncio program leaves to a thread: questions to the broker, and waits in C.

A task that is cancelled meanwhile goes at once, without waiting for the thread: on its way out a second cancellation could come
at any moment (anyio repeats them until the task has left its scope), and what was still to be undone would stay as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from orbitmq.client.absence import given_up
from orbitmq.client.bell import Bell
from orbitmq.errors import NoMeans, UsageError
from orbitmq.shm.means import means

_Result = TypeVar("_Result")


async def aside(work: Callable[[], _Result], doing: str) -> _Result:
    """What `work` gives, run in a thread of the event loop's. A cancelled task leaves it to the thread; nobody gets the result.

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
        # The executor has kept it, and would do it as soon as it has a thread.
        wanted = False
        raise
    except BaseException:
        bell.ring()  # no thread is to go on waiting for a broker: a program that ends waits for its threads
        raise


async def aside_or_here(work: Callable[[], object], doing: str) -> None:
    """The same for what must be done: also when the task is cancelled before the thread has begun; and where there is no
    thread, here, while the event loop waits."""
    loop = running_loop(doing)
    wanted = True

    def run() -> None:
        if wanted:
            work()

    try:
        with means(doing):
            done = loop.run_in_executor(None, run)
    except (NoMeans, RuntimeError):  # the latter from a loop that is about to close
        wanted = False
        work()
    else:
        await asyncio.shield(done)


def running_loop(doing: str) -> asyncio.AbstractEventLoop:
    """The event loop that runs here. Raises: UsageError: none, or not one of asyncio's."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise UsageError(
            f"could not {doing}: no asyncio event loop runs here",
            hint="use asyncio.run(), or anyio.run() with backend='asyncio'; in a trio program, orbitmq.connect() in threads",
        ) from None


class Worker:
    """A thread that does one piece of work after the other. What a cancelled task has left to it is done to its end; whoever
    uses the same things next calls `settled` first. For one task at a time. A forked child calls `forked` before all else, and
    has a thread of its own then."""

    def __init__(self, name: str, doing: str) -> None:
        """Raises: NoMeans: there is no thread."""
        self._name = name
        self.forked()
        self._start(doing)

    def forked(self) -> None:
        """The parent's thread is not here, and what was left to it is the parent's."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        self._started = False
        self.left: Future[Any] | None = None  # by a cancelled task, until `settled` has returned

    def _start(self, doing: str) -> None:
        with means(doing):
            # Before there is work: one without a thread keeps what it was given, to do it whenever there is one.
            self._thread.submit(int)
        self._started = True

    async def do(self, work: Callable[[], _Result], leave: Callable[[], None], doing: str) -> _Result:
        """What `work` gives. A task that is cancelled, or whose loop goes, calls `leave` when the work has begun, to end it.

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
        """Waits until what cancelled tasks have left is done."""
        while (job := self.left) is not None:
            await _ended(job)
            if self.left is job:
                self.left = None

    def close(self) -> None:
        """Lets the thread end after what it has begun."""
        self._thread.shutdown(wait=False)


async def _ended(job: Future[Any]) -> None:
    """Waits for the end of the work, and leaves the work alone when the task is cancelled."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def tell(_: Future[Any]) -> None:
        with suppress(RuntimeError):  # the loop was closed; nobody waits there any more
            loop.call_soon_threadsafe(_finish, ended)

    job.add_done_callback(tell)
    await ended


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
