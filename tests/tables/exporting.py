"""Exports without Spark, and what readers find. The tasks run in this process, or in a process of their own that is killed on
its way:

    python -m tests.tables.exporting STORE OUT POINT PASSAGE [full|checkpoint|compact|move]
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow.dataset as ds

from orbitmq.shm import crash_point
from orbitmq.store import atomic_file
from orbitmq.tables.export import run_log
from orbitmq.tables.export.compact import compact
from orbitmq.tables.export.folder import ExportFolder
from orbitmq.tables.export.here import tasks_here
from orbitmq.tables.export.manifest import PENDING
from orbitmq.tables.export.plan import Wish
from orbitmq.tables.export.topics import ExportReport, run_export
from tests.tables.stored_topics import StoredTopics

ROOT = Path(__file__).resolve().parents[2]
HIVE = ds.partitioning(flavor="hive")
# topic, queue, offset, body
Place = tuple[str, int, int, bytes]


def days_of_messages(folder: Path) -> StoredTopics:
    """A store of two topics with two queues each, and 300 messages in ten-minute steps."""
    stored = StoredTopics(folder)
    for topic in "ab":
        stored.add(topic, 2)
    add(stored, 300)
    return stored


def add(stored: StoredTopics, count: int) -> None:
    for _ in range(count):
        number = len(stored.rows)
        stored.send("ab"[number % 2], b"%d" % number * 9, store_ms=1_700_000_000_000 + number * 600_000)


def export_here(store: Path, out: Path, *topics: str, **wish: Any) -> ExportReport:
    return run_export(store, out, Wish.of(topics, **wish), tasks_here)


def seen(out: Path) -> list[Place]:
    """The rows that Arrow sees; all files must be whole."""
    if not out.is_dir():
        return []
    return rows_of(ds.dataset(out, format="parquet", partitioning=HIVE))


def named(out: Path) -> list[Place]:
    """The rows of the files that the manifests name. While a run that merges files is not complete, each folder has either its
    new files or those that they replace, as docs/export.md says."""
    state = ExportFolder(out).state()
    assert state.run is not None
    names = {file.path for file in state.files}
    if state.run.state == PENDING and state.run.removes:
        changed = {Path(path).parent for path in state.run.removes}
        names = {name for name in names if (out / name).exists() or Path(name).parent not in changed}
        names |= {name for name in state.run.removes if (out / name).exists()}
    files = [str(out / name) for name in sorted(names)]
    return rows_of(ds.dataset(files, format="parquet", partitioning=HIVE, partition_base_dir=str(out))) if files else []


def rows_of(dataset: ds.Dataset) -> list[Place]:
    if not dataset.files:
        return []
    found = dataset.to_table(columns=["topic", "partition", "offset", "value"]).to_pylist()
    return sorted((str(row["topic"]), row["partition"], row["offset"], row["value"]) for row in found)


def others_see(out: Path) -> set[int]:
    """How many rows DuckDB and Polars find, read as docs/export.md says."""
    page = (ROOT / "docs" / "export.md").read_text()
    [files] = {str(out / each) for each in re.findall(r"parquet/(\S*\*\.parquet)", page)}
    found = f"read_parquet('{files}', hive_partitioning = true)"
    count, days = duckdb.sql(f"select count(*), count(day) from {found}").fetchall()[0]
    frame = polars.scan_parquet(files, hive_partitioning=True)
    return {count, days, *frame.select(polars.len(), polars.col("day", "topic").count().name.suffix("s")).collect().row(0)}


class Plan:
    """Replaces the native side of crash points: kills this process at the last of so many passages of one of them."""

    def __init__(self, point: str, passage: int, kill: Callable[[], None]) -> None:
        self._point = point.encode()
        self._left = passage
        self._kill = kill

    def crash_point_pass(self, name: bytes) -> None:
        self._left -= name == self._point
        if not self._left:
            self._kill()


def main(store: str, out: str, point: str, passage: str, how: str = "") -> None:
    crash_point.BUILT = True
    crash_point.lib = Plan(point, int(passage), lambda: os.kill(os.getpid(), signal.SIGKILL))
    if how == "checkpoint":  # at each run
        run_log.EVERY = 1
    if how == "move":  # on a file system where folders cannot change places
        atomic_file.exchange = cannot_exchange
    if how in ("compact", "move"):
        compact(out)
    else:
        export_here(Path(store), Path(out), full=how == "full")


def cannot_exchange(one: Path, other: Path) -> None:
    raise OSError(errno.EINVAL, "no exchange here")


def main_process() -> None:
    main(*sys.argv[1:])


if __name__ == "__main__":
    main_process()
