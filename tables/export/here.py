"""Runs the tasks of an export in this process, with pyarrow alone: as many at a time as it may use processors.

Tasks are threads, so none outlives a process that is killed. Arrow compresses, and C reads, without the interpreter's lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, ThreadPoolExecutor, wait
from threading import Event
from typing import TypeVar

from orbitmq.tables.export.manifest import ExportFile
from orbitmq.tables.export.task import Job, run_task
from orbitmq.tables.planning import Slice

T = TypeVar("T")


def tasks_here(job: Job, tasks: Sequence[tuple[Slice, ...]]) -> list[ExportFile]:
    """Raises: as run_task."""
    done = run_here(len(tasks), lambda number, stopped: run_task(job, number, tasks[number], stopped))
    return [file for files in done for file in files]


def run_here(count: int, task: Callable[[int, Callable[[], bool]], T]) -> list[T]:
    """task: called with its number, and with what it asks from time to time: true if nobody wants its result any more.

    When one fails, or this thread is interrupted, the others end soon. Raises: what failed first.
    """
    stop = Event()

    def one(number: int) -> T:
        if stop.is_set():
            raise CancelledError
        try:
            return task(number, stop.is_set)
        except BaseException:
            stop.set()  # here, because the thread that waits may be slow to see it, and others would begin meanwhile
            raise

    with ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="export") as pool:
        running = [pool.submit(one, number) for number in range(count)]
        try:
            done = wait(running, return_when=FIRST_EXCEPTION).done
            _raise_one(done)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    return [each.result() for each in running]


def _raise_one(done: set[Future[T]]) -> None:
    for each in done:
        error = each.exception()
        if error is not None and not isinstance(error, CancelledError):
            raise error
