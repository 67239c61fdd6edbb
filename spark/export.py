"""Topics of a store, running or stopped, into Parquet:

    <out>/topic=<name>/part-*.parquet      the columns of spark/columns.py but topic, which readers take from the folder's name

Each topic is a write of its own: Spark would sort every message by topic before it could put them into folders itself.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from orbitmq.errors import SettingError, UnknownTopic
from orbitmq.spark import extents
from orbitmq.spark.columns import COLUMNS
from orbitmq.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Called with tasks done and tasks in all, from another thread.
Progress = Callable[[int, int], None]
LOOK_S = 0.2  # between two looks at how far Spark is
# What Spark escapes in the name of a partition's folder, out of what a topic's name may hold.
_ESCAPED = re.compile(r"[%=/:#?*\"'\\{}\[\]^]")


@dataclass(frozen=True, slots=True)
class ExportReport:
    """One topic's export. rows: messages in the files of the folder `path`; size: bytes of these."""

    topic: str
    rows: int
    size: int
    path: Path
    seconds: float


def export_topic(
    store_or_broker: str | Path,
    topic: str,
    out: str | Path,
    spark: SparkSession | None = None,
    *,
    overwrite: bool = False,
    columns: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> ExportReport:
    """Writes what the topic holds now to <out>/topic=<topic>.

    Args:
        store_or_broker: folder of a store, or name of a running broker.
        spark: None: a local session, stopped afterwards.
        columns: of spark/columns.py; None: all.

    Raises: UnknownTopic, BrokerNotRunning; SettingError: no store there, no Java, or the folder exists already.
    """
    snapshot = extents.of(store_or_broker)
    folder = topic_folder(out, topic)
    _check(snapshot, topic, folder, overwrite)
    names = [name for name in columns or COLUMNS if name != "topic"]
    session = spark or local_session("orbitmq export")
    try:
        from orbitmq.spark.source import FORMAT, register

        register(session)
        begin = time.perf_counter()
        source = {"broker": snapshot.broker} if snapshot.broker else {"path": str(snapshot.root)}
        frame = session.read.format(FORMAT).options(**source, subscribe=topic, columns=",".join(names)).load()
        with _told(session, progress):
            frame.write.mode("overwrite").parquet(str(folder))
        seconds = time.perf_counter() - begin
    finally:
        if spark is None:
            session.stop()
    return ExportReport(topic, *_counted(folder), folder, seconds)


def check_export(store_or_broker: str | Path, topics: Sequence[str], out: str | Path, *, overwrite: bool = False) -> None:
    """Raises what export_topic would raise at once, for who wants to know before Spark starts."""
    snapshot = extents.of(store_or_broker)
    for topic in topics:
        _check(snapshot, topic, topic_folder(out, topic), overwrite)


def topics_with_messages(store_or_broker: str | Path) -> list[str]:
    """Names of the topics that hold a message, sorted. Raises: as export_topic."""
    topics = extents.of(store_or_broker).topics
    return sorted(name for name, queues in topics.items() if any(begin < end for begin, end in queues.values()))


def topic_folder(out: str | Path, topic: str) -> Path:
    """Where the topic's files go; named as Spark names the folder of a partition, so that it reads the name back."""
    name = _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", topic)
    return Path(out).expanduser().resolve() / f"topic={name}"


def _check(snapshot: extents.Snapshot, topic: str, folder: Path, overwrite: bool) -> None:
    if topic not in snapshot.topics:
        known = sorted(snapshot.topics)
        raise UnknownTopic(
            f"cannot export topic {topic!r}: {snapshot.root} has no such topic",
            hint=f"it has {', '.join(known) or 'none'}",
            topic=topic,
            topics=known,
        )
    if folder.exists() and not overwrite:
        raise SettingError(
            f"cannot export topic {topic!r} to {folder}: it exists",
            hint="choose another folder, or overwrite it",
            name="out",
            value=str(folder),
        )


def _counted(folder: Path) -> tuple[int, int]:
    """Rows and bytes of the Parquet files, as their footers tell."""
    import pyarrow.parquet as pq

    files = sorted(folder.glob("*.parquet"))
    return sum(pq.read_metadata(path).num_rows for path in files), sum(path.stat().st_size for path in files)


@contextmanager
def _told(session: SparkSession, progress: Progress | None) -> Iterator[None]:
    """Tells of the tasks of the jobs that run meanwhile."""
    if progress is None:
        yield
        return
    tracker = session.sparkContext.statusTracker()
    over = Event()
    done: dict[int, tuple[int, int]] = {}

    def look() -> None:
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None:
                done[stage] = (info.numCompletedTasks, info.numTasks)
        if done:
            progress(sum(each[0] for each in done.values()), sum(each[1] for each in done.values()))

    def watch() -> None:
        while not over.wait(LOOK_S):
            look()

    thread = Thread(target=watch, name="export progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
