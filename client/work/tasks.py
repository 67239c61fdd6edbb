"""Calls coroutine functions for a worker's threads: each call is a task of one event loop, which has a thread of its own."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any

from orbitmq.client.work.hand import failed
from orbitmq.client.work.job import Job
from orbitmq.shm.means import means


def is_async(handler: object) -> bool:
    """True for coroutine functions, also decorated ones, and for objects that are called like one."""
    seen = (handler, getattr(handler, "__call__", None), getattr(handler, "__wrapped__", None))  # noqa: B004
    return any(map(inspect.iscoroutinefunction, seen))


class LoopThread:
    """An event loop in a thread, for a `with` statement."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="orbitmq-job-loop", daemon=True)

    def __enter__(self) -> asyncio.AbstractEventLoop:
        with means("start a thread for an event loop"):
            self._thread.start()
        return self.loop

    def __exit__(self, *error: object) -> None:
        """Tasks that still run are cancelled."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _run(self) -> None:
        self.loop.run_forever()
        self.loop.run_until_complete(_cancel(asyncio.all_tasks(self.loop)))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


async def _cancel(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class TaskHand:
    """A Hand; its thread waits while the task works."""

    def __init__(self, handler: Callable[[Job], Coroutine[Any, Any, object]], loop: asyncio.AbstractEventLoop) -> None:
        self._handler = handler
        self._loop = loop
        self._task: Future[BaseException | None] | None = None

    def do(self, job: Job) -> None:
        self._task = asyncio.run_coroutine_threadsafe(self._raised(job), self._loop)
        try:
            error = self._task.result()
        except CancelledError as given_up:  # or the run has ended
            job.fail(asyncio.CancelledError(*given_up.args))
            return
        if error is None:
            job.done()
        else:
            failed(job, error)

    async def _raised(self, job: Job) -> BaseException | None:
        """What the handler raised. A task that itself raises SystemExit or KeyboardInterrupt ends the loop of all others."""
        try:
            await self._handler(job)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            return error
        return None

    def give_up(self) -> bool:
        if self._task is not None:
            self._task.cancel()
        return True

    def close(self) -> None:
        pass
