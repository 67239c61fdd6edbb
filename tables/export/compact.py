"""Makes few large files of the many small ones that runs leave, with the same rows.

It is a run of its own, whose manifest names the files that it removes. Readers of a folder see the old files or the new ones
(export/swap.py), and the sum of the manifests has each row once. It needs neither the store nor Spark.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from orbitmq.client.several import Several, not_one_text
from orbitmq.errors import ExportDamaged, SettingError, UnknownTopic
from orbitmq.errors.remedy import hint
from orbitmq.tables.choice import topics_there
from orbitmq.tables.export import swap
from orbitmq.tables.export.folder import ExportFolder, failed
from orbitmq.tables.export.here import run_here
from orbitmq.tables.export.manifest import PENDING, ExportFile, Range, Run
from orbitmq.tables.export.parquet_file import GROUP_ROWS, ParquetFile
from orbitmq.tables.export.progress import Progress, watched
from orbitmq.tables.export.state import State
from orbitmq.tables.export.task import BUFFER, PROGRESS

if TYPE_CHECKING:
    import pyarrow as pa

SMALL = 128 << 20  # bytes; shorter files are merged
LARGE = 256 << 20  # a file that would become longer is followed by another one
AT_ONCE = 4 << 30  # about as many bytes are written, and need room on the disk, before the old files go


@dataclass(frozen=True, slots=True)
class CompactReport:
    """before, after: files that were merged, and the ones that they became. runs: the manifests that say so."""

    path: Path
    runs: tuple[int, ...]
    before: tuple[ExportFile, ...]
    after: tuple[ExportFile, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Merge:
    """Files of one topic in one folder, which become one."""

    folder: str
    topic: str
    files: tuple[ExportFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def offsets(self) -> list[Range]:
        """By queue, from the first of the files' offsets to the last."""
        parts = sorted((part for file in self.files for part in file.offsets), key=lambda part: part.queue)
        found = ((queue, list(own)) for queue, own in groupby(parts, key=lambda part: part.queue))
        return [
            Range(queue, min(part.begin for part in own), max(part.end for part in own), sum(part.rows for part in own))
            for queue, own in found
        ]


def compact(out: str | Path, topics: Several[str] = (), *, progress: Progress | None = None) -> CompactReport:
    """Merges the small files in each folder of an export; all others stay. Needs pyarrow alone.

    Args:
        out: folder of the export, which no other one is writing to.
        topics: none: all.
        progress: called with rows done, rows in all, and bytes done, from another thread.

    Raises: SettingError: no export is there. UnknownTopic: it has none of that name. ExportBusy, ExportDamaged, ExportFailed.
        ImportError: no pyarrow.
    """
    import orbitmq.client.consumer.arrow  # noqa: F401  says what to install, before anything is made

    not_one_text(topics, "compact files of topics", "topics")
    begun = time.perf_counter()
    folder = ExportFolder(out)
    if folder.state().run is None:
        raise SettingError(
            f"cannot compact {folder.root}: no export has written there",
            hint="give the folder of an export",
            name="out",
            value=str(folder.root),
        )
    folder.lock()
    try:
        state, _ = folder.settle()
        for topic in topics:
            if topic not in state.ends:
                raise UnknownTopic(
                    f"cannot compact topic {topic!r}: {folder.root} has no files of this topic",
                    hint=f"it has {topics_there(state.ends)}",
                    topic=topic,
                    topics=sorted(state.ends),
                )
        found = [each for each in merges(state.files, set(topics) or set(state.ends)) if _flat(folder.root / each.folder)]
        total, done = sum(each.rows for each in found), _Done(progress)
        runs: list[Run] = []
        for portion in portions(found):
            runs.append(_run(folder, state, portion, done, total))
            state.add(runs[-1].completed())
        before = tuple(file for each in found for file in each.files)
        after = tuple(file for run in runs for file in run.files)
        return CompactReport(folder.root, tuple(run.number for run in runs), before, after, time.perf_counter() - begun)
    finally:
        folder.unlock()


def merges(files: Sequence[ExportFile], topics: set[str]) -> list[Merge]:
    """What to merge, by folder. Files keep the order of their runs."""
    small: dict[tuple[str, str], list[ExportFile]] = {}
    for file in files:
        if file.topic in topics and file.size < SMALL:
            small.setdefault((str(Path(file.path).parent), file.topic), []).append(file)
    found = []
    for (folder, topic), own in sorted(small.items()):
        part: list[ExportFile] = []
        size = 0
        for file in own:
            if size + file.size > LARGE:
                found.append(Merge(folder, topic, tuple(part)))
                part, size = [], 0
            part.append(file)
            size += file.size
        found.append(Merge(folder, topic, tuple(part)))
    return [each for each in found if len(each.files) > 1]


def portions(found: Sequence[Merge]) -> Iterator[list[Merge]]:
    """What one run does: whole folders, until they have AT_ONCE bytes."""
    portion: list[Merge] = []
    for _, own in groupby(found, key=lambda each: each.folder):
        portion += own
        if sum(each.size for each in portion) >= AT_ONCE:
            yield portion
            portion = []
    if portion:
        yield portion


def _flat(folder: Path) -> bool:
    """False: somebody has made folders in it, which cannot be linked."""
    return not any(each.is_dir() for each in folder.iterdir())


class _Done:
    """Adds up the progress of several runs."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._rows = self._size = 0

    def of(self, total: int) -> Progress | None:
        """For one run; total: rows of all."""
        progress, rows, size = self._progress, self._rows, self._size
        if progress is None:
            return None
        return lambda done, _, written: progress(rows + done, total, size + written)

    def add(self, portion: Sequence[Merge]) -> None:
        self._rows += sum(each.rows for each in portion)
        self._size += sum(each.size for each in portion)


def _run(folder: ExportFolder, state: State, portion: Sequence[Merge], done: _Done, total: int) -> Run:
    last = state.run
    assert last is not None
    number = last.number + 1
    name = f"{number:06d}-{uuid.uuid4().hex[:8]}"
    began = datetime.now(UTC).isoformat(timespec="milliseconds")
    staging = folder.stage(name)
    try:
        places = swap.places(staging, [each.folder for each in portion])
        for place in places.values():
            place.mkdir()
        gone = [file.path for each in portion for file in each.files]

        def work(task: int, stopped: Callable[[], bool]) -> ExportFile | None:
            each = portion[task]
            path = places[each.folder] / f"part-{number:06d}-{task:05d}-{uuid.uuid4().hex[:8]}-00000.parquet"
            return merged(folder.root, each, path, staging / "progress", task, stopped)

        with watched(staging, sum(each.rows for each in portion), done.of(total)):
            files = [file for file in run_here(len(portion), work) if file is not None]
        done.add(portion)
        _check_same(portion, [places[each.folder] / Path(file.path).name for each, file in zip(portion, files, strict=True)])
        for visible, place in places.items():
            swap.prepare(folder.root / visible, place, [Path(path).name for path in gone if str(Path(path).parent) == visible])
        made = Run(
            number, PENDING, began, last.store, last.by, last.columns, (), name, {}, (), tuple(files), tuple(gone)
        )
        folder.commit(made, state)
        return made
    except OSError as error:
        folder.abandon(number, name)
        raise failed(f"cannot compact {folder.root}", error) from error
    except BaseException:
        folder.abandon(number, name)
        raise


def merged(
    root: Path, merge: Merge, path: Path, progress: Path, task: int, stopped: Callable[[], bool] = bool
) -> ExportFile | None:
    """Writes and syncs the file. Holds BUFFER bytes, and a row group of what it reads. None: it was stopped.

    Raises: ExportDamaged: a file is not what its manifest says; has .path. OSError: it cannot be written.
    """
    import pyarrow as pa

    target: ParquetFile | None = None
    waiting: list[pa.Table] = []
    held = [0, 0]  # rows and bytes that wait
    rows = size = 0
    at = os.open(progress, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        for file in merge.files:
            for part in _row_groups(root, file):
                if target is None:
                    target, schema = ParquetFile(path, part.schema), part.schema
                if waiting and (held[0] + part.num_rows > GROUP_ROWS or held[1] + part.nbytes > BUFFER):
                    target.write(pa.concat_tables(waiting))
                    waiting, held = [], [0, 0]
                waiting.append(_like(schema, part, root, file))
                held = [held[0] + part.num_rows, held[1] + part.nbytes]
                rows, size = rows + part.num_rows, size + part.nbytes
                os.pwrite(at, PROGRESS.pack(rows, size), task * PROGRESS.size)
                if stopped():
                    return None
        assert target is not None, "each file has rows"
        target.write(pa.concat_tables(waiting))
        return target.finish(merge.folder, merge.topic, rows, merge.offsets)
    finally:
        os.close(at)
        if target is not None:
            target.close()


def _row_groups(root: Path, file: ExportFile) -> Iterator[pa.Table]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = root / file.path
    try:
        with pq.ParquetFile(path) as source:
            if source.metadata.num_rows != file.rows:
                raise _damaged(path, f"it has {source.metadata.num_rows:,} rows, and its manifest says {file.rows:,}")
            for number in range(source.num_row_groups):
                yield source.read_row_group(number).replace_schema_metadata(None)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, str(error)) from None


def _like(schema: pa.Schema, part: pa.Table, root: Path, file: ExportFile) -> pa.Table:
    """Another version may have written a column with another type."""
    import pyarrow as pa

    try:
        return part if part.schema.equals(schema) else part.select(schema.names).cast(schema)
    except (pa.ArrowException, KeyError) as error:
        raise _damaged(root / file.path, f"its columns differ from those of older files: {error}") from None


def _damaged(path: Path, why: str) -> ExportDamaged:
    return ExportDamaged(
        f"cannot compact {path}: {why}",
        hint=hint("nothing was changed; bring it back from a copy || export again with {full=True}"),
        path=str(path),
    )


def _check_same(portion: Sequence[Merge], written: Sequence[Path]) -> None:
    """The last look before files are removed: what was written has as many rows, by its own footer."""
    import pyarrow.parquet as pq

    for each, path in zip(portion, written, strict=True):
        found = pq.read_metadata(path).num_rows
        if found != each.rows:
            text = f"cannot compact {each.folder}: the merged file has {found:,} rows, and the others had {each.rows:,}"
            raise ExportDamaged(text, hint=hint("nothing was changed; export again with {full=True}"))
