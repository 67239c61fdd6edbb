"""The export of tables/export with tasks that Spark runs.

They need only the paths of store and staging from the driver, so they can run wherever Spark puts them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING

import orbitmq
from orbitmq import errors
from orbitmq.client.several import Ordered, Several
from orbitmq.shm.frames import error_map, error_raised
from orbitmq.spark.session import local_session, submitted
from orbitmq.tables.export.manifest import ExportFile
from orbitmq.tables.export.plan import Wish
from orbitmq.tables.export.progress import Progress
from orbitmq.tables.export.task import Job, run_task
from orbitmq.tables.export.topics import ExportReport, Tasks, run_export
from orbitmq.tables.planning import Slice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOLD = "OrbitMQ's error as data: "  # Python shows notes below a stack trace, which is what Spark passes on
_OURS = re.compile(re.escape(_TOLD) + r"(\{.*\})")


def export(
    store_or_broker: str | Path,
    out: str | Path,
    topics: Several[str] = (),
    spark: SparkSession | None = None,
    *,
    by: Ordered[str] | None = None,
    columns: Several[str] | None = None,
    full: bool = False,
    allow_gaps: bool = False,
    group: str | None = None,
    progress: Progress | None = None,
) -> ExportReport:
    """As export of tables/export/topics.py, with Spark.

    spark: the session whose tasks read and write; None: this process's if it has one, or spark-submit's, or a local one. A
        session that is made here is stopped.

    Raises: as there. SettingError: no Java. ImportError: no PySpark.
    """
    import orbitmq.client.consumer.arrow  # noqa: F401  says what to install, before anything is made

    wish = Wish.of(topics, by, columns, full=full, allow_gaps=allow_gaps, group=group)

    def run(job: Job, tasks: Tasks) -> list[ExportFile]:
        with _session_for(spark) as session:
            return spark_tasks(session, job, tasks)

    return run_export(store_or_broker, out, wish, run, progress)


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


def _run(job: Job, numbered: tuple[int, tuple[Slice, ...]]) -> list[ExportFile]:
    try:
        return run_task(job, *numbered)
    except errors.OrbitError as error:
        error.add_note(_TOLD + json.dumps(error_map(error), default=str))
        raise


@contextmanager
def _session_for(spark: SparkSession | None) -> Iterator[SparkSession]:
    """The given or active session; otherwise spark-submit's or a local one, which is stopped afterwards."""
    given = spark or _active_session()
    if given is not None:
        yield given
        return
    session = _submitted_session() if submitted() else local_session("orbitmq export")
    try:
        yield session
    finally:
        session.stop()


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
