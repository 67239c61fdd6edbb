"""Exports topics of a store, running or stopped, to Parquet, one run at a time: each run adds what has come since the last one.

    <out>/topic=<name>/day=<store day, UTC>/part-*.parquet

docs/export.md says what a run promises, export/folder.py how it keeps the promise.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from orbitmq.client.several import Ordered, Several
from orbitmq.tables import extents, planning
from orbitmq.tables.export.account import unread
from orbitmq.tables.export.folder import ExportFolder
from orbitmq.tables.export.here import tasks_here
from orbitmq.tables.export.manifest import PENDING, ExportFile, Gap, Run
from orbitmq.tables.export.plan import Plan, Wish, plan, reached
from orbitmq.tables.export.progress import Progress, watched
from orbitmq.tables.export.state import State
from orbitmq.tables.export.task import Job
from orbitmq.tables.group_report import report
from orbitmq.tables.planning import Slice

TASK_ROWS = 1 << 18  # most messages of one task, and so of one file
Tasks = Sequence[tuple[Slice, ...]]
Runner = Callable[[Job, Tasks], list[ExportFile]]


@dataclass(frozen=True, slots=True)
class ExportReport:
    """One run. run: its number; None: there was nothing new. files: that it added. settled: messages of an earlier run that was
    killed, which this one put in their places."""

    path: Path
    run: int | None
    files: tuple[ExportFile, ...]
    gaps: tuple[Gap, ...]
    settled: int
    seconds: float

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.size for file in self.files)


def export(
    store_or_broker: str | Path,
    out: str | Path,
    topics: Several[str] = (),
    *,
    by: Ordered[str] | None = None,
    columns: Several[str] | None = None,
    full: bool = False,
    allow_gaps: bool = False,
    group: str | None = None,
    progress: Progress | None = None,
) -> ExportReport:
    """Adds to `out` what the topics got since the last run; the first run adds everything.

    Args:
        store_or_broker: folder of a store, or name of a running broker.
        topics: none: all.
        by: columns of which the folders are made; None: topic and day, or as before.
        columns: of tables/columns.py; None: all, or as before.
        full: begin again: the topics' earlier files are removed when the new ones come.
        allow_gaps: continue if retention has removed messages that were not exported.
        group: show how far the export is as the offsets of this group, which has no members, if a broker runs on the store.
            What is exported depends on the folder alone.

    Raises: UnknownTopic, BrokerNotRunning, SettingError, GroupNameError; OffsetOutOfRange: retention was faster; ExportBusy,
        ExportDiffers, ExportDamaged, ExportFailed; CorruptRecord, StoreError. ImportError: no pyarrow.
    """
    import orbitmq.client.consumer.arrow  # noqa: F401  says what to install, before anything is made

    wish = Wish.of(topics, by, columns, full=full, allow_gaps=allow_gaps, group=group)
    return run_export(store_or_broker, out, wish, tasks_here, progress)


def run_export(
    store_or_broker: str | Path, out: str | Path, wish: Wish, runner: Runner, progress: Progress | None = None
) -> ExportReport:
    """As export. runner: makes the tasks run, wherever that is."""
    begun = time.perf_counter()
    folder = ExportFolder(out)
    snapshot = extents.of(store_or_broker)  # before anything is made, so that a store that does not exist leaves no folder
    folder.check_apart(snapshot.root)
    folder.lock()
    try:
        state, settled = folder.settle()
        wanted = plan(folder, state, snapshot, wish)
        if wanted.nothing:
            _show(state, snapshot, wish)
            return ExportReport(folder.root, None, (), (), settled, time.perf_counter() - begun)
        made = _run(folder, state, snapshot, wish, wanted, runner, progress)
        state.add(made)
        _show(state, snapshot, wish)
        return ExportReport(folder.root, made.number, made.files, made.gaps, settled, time.perf_counter() - begun)
    finally:
        folder.unlock()


def _show(state: State, snapshot: extents.Snapshot, wish: Wish) -> None:
    if wish.group is not None:
        report(snapshot, wish.group, reached(state, snapshot))


def _run(
    folder: ExportFolder,
    state: State,
    snapshot: extents.Snapshot,
    wish: Wish,
    wanted: Plan,
    runner: Runner,
    progress: Progress | None,
) -> Run:
    number = state.run.number + 1 if state.run else 1
    name = f"{number:06d}-{uuid.uuid4().hex[:8]}"
    began = datetime.now(UTC).isoformat(timespec="milliseconds")
    sizes = (snapshot.log_file_size, snapshot.queue_file_units)
    staging = folder.stage(name)
    try:
        job = Job(
            str(snapshot.root), sizes, str(staging), number, wanted.by, wanted.columns, fail_on_data_loss=not wish.allow_gaps
        )
        tasks = planning.partitions(list(wanted.slices), most_records=TASK_ROWS)
        with watched(staging, wanted.messages, progress):
            files = runner(job, tasks) if tasks else []
        gaps = (*wanted.gaps, *unread(snapshot, wanted.slices, files, allow_gaps=wish.allow_gaps))
        store = str(snapshot.root)
        made = Run(
            number, PENDING, began, store, wanted.by, wanted.columns, wanted.replaces, name, wanted.ends, gaps, tuple(files)
        )
        folder.commit(made, state)
        return made
    except BaseException:
        folder.abandon(number, name)
        raise
