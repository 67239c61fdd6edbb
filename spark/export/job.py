"""Makes Spark run the tasks of an export, and reports their progress.

The tasks need only the paths of store and staging from the driver, so they can run wherever Spark puts them. The progress of
each is in the file `progress` in staging, because Spark reports whole tasks only.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING

import orbitmq
from orbitmq import errors
from orbitmq.shm.frames import error_map, error_raised
from orbitmq.spark.export.manifest import ExportFile
from orbitmq.spark.export.task import PROGRESS, Job, run_task
from orbitmq.spark.session import local_session
from orbitmq.spark.source.planning import Slice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tasks = Sequence[tuple[Slice, ...]]
# Called with messages done, messages in all, and bytes done, from another thread.
Progress = Callable[[int, int, int], None]
LOOK_S = 0.2  # between two looks at the progress of the tasks
_TOLD = "OrbitMQ's error as data: "  # Python shows notes below a stack trace, which is what Spark passes on
_OURS = re.compile(re.escape(_TOLD) + r"(\{.*\})")


def submitted() -> bool:
    """True if spark-submit has started this process: its master and settings are then the caller's."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def has_session() -> bool:
    """True if this process has a session, or spark-submit started it."""
    return submitted() or _active_session() is not None


@contextmanager
def session_for(spark: SparkSession | None) -> Iterator[SparkSession]:
    """The given or active session; otherwise spark-submit's or a local one, which is stopped afterwards.

    Raises: SettingError: no Java. ImportError: no PySpark.
    """
    given = spark or _active_session()
    if given is not None:
        yield given
        return
    session = _submitted_session() if submitted() else local_session("orbitmq export")
    try:
        yield session
    finally:
        session.stop()


def spark_tasks(session: SparkSession, job: Job, tasks: Tasks) -> list[ExportFile]:
    """Raises: as run_task, wherever the task ran."""
    numbered = session.sparkContext.parallelize(list(enumerate(tasks)), len(tasks))
    with _interruptions() as interrupted:
        try:
            return [file for files in numbered.map(partial(_run, job)).collect() for file in files]
        except Exception as error:  # of py4j's or of PySpark's
            if interrupted.is_set():
                raise KeyboardInterrupt from None
            told = _told_by_task(str(error))
            if told is None:
                raise
            raise told from None


@contextmanager
def _interruptions() -> Iterator[Event]:
    """Set when Ctrl-C came: py4j 0.10.9 with PySpark 4.0 turns the interruption into an error of its own, which says nothing
    about it."""
    came = Event()
    if current_thread() is not main_thread():
        yield came
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        came.set()
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def watched(staging: str | Path, total: int, progress: Progress | None) -> Iterator[None]:
    """Reports the progress of the running tasks, and once more at the end."""
    if progress is None:
        yield
        return
    over = Event()

    def watch() -> None:
        while not over.wait(LOOK_S):
            tell()

    def tell() -> None:
        try:
            content = Path(staging, "progress").read_bytes()
        except FileNotFoundError:
            return
        each = [PROGRESS.unpack_from(content, at) for at in range(0, len(content) - PROGRESS.size + 1, PROGRESS.size)]
        progress(min(total, sum(rows for rows, _ in each)), total, sum(size for _, size in each))

    thread = Thread(target=watch, name="export progress", daemon=True)
    thread.start()
    try:
        yield
        tell()
    finally:
        over.set()
        thread.join()


def _run(job: Job, numbered: tuple[int, tuple[Slice, ...]]) -> list[ExportFile]:
    try:
        return run_task(job, *numbered)
    except errors.OrbitError as error:
        error.add_note(_TOLD + json.dumps(error_map(error), default=str))
        raise


def _active_session() -> SparkSession | None:
    """The session of this process, if it has made one. Spark keeps the active session by thread, and this may be another
    thread."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is None:
        return None
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _submitted_session() -> SparkSession:
    from pyspark.sql import SparkSession

    # If the package is not installed, it is in a checkout, which executors see under the same path.
    root = str(Path(orbitmq.__file__).resolve().parent.parent)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    python_path = os.pathsep.join(dict.fromkeys([*paths, root]))
    builder = SparkSession.builder.appName("orbitmq export").config("spark.executorEnv.PYTHONPATH", python_path)
    return builder.getOrCreate()


def _told_by_task(text: str) -> errors.OrbitError | None:
    """An error of a task's arrives as text, between two stack traces. None: it is not one of ours."""
    found = _OURS.search(text)
    return error_raised(json.loads(found[1])) if found else None
