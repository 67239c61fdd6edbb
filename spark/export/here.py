"""Runs the tasks of an export in this process, with pyarrow alone: as many at a time as it may use processors.

Tasks are threads, so none outlives a process that is killed. Arrow compresses, and C reads, without the interpreter's lock.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from threading import Event

from orbitmq.spark.export.manifest import ExportFile
from orbitmq.spark.export.task import Job, run_task
from orbitmq.spark.source.planning import Slice


def tasks_here(job: Job, tasks: Sequence[tuple[Slice, ...]]) -> list[ExportFile]:
    """When one fails, or this thread is interrupted, the others end soon. Raises: as run_task, what failed first."""
    stop = Event()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="export") as pool:
        running = [pool.submit(run_task, job, number, slices, stop.is_set) for number, slices in enumerate(tasks)]
        try:
            done = wait(running, return_when=FIRST_EXCEPTION).done
            _raise_one(done)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    return [file for each in running for file in each.result()]


def _raise_one(done: set[Future[list[ExportFile]]]) -> None:
    for each in done:
        error = each.exception()
        if error is not None:
            raise error
