"""One task of an export: reads ranges of queues into Parquet files in staging, one file for each folder that its messages go
to.

Whatever its range, a task holds one batch and, in all its open files together, BUFFER bytes
of rows. If there are more, the file that holds the most writes a row group. It keeps OPEN files open. If there are more folders
than that, it closes the file that was not written to for the longest time, and continues that folder in another file.
"""

from __future__ import annotations

import os
import struct
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from orbitmq.tables import slice_reader
from orbitmq.tables.choice import Choice
from orbitmq.tables.columns import COLUMNS
from orbitmq.tables.export.folder import failed
from orbitmq.tables.export.manifest import ExportFile, Range
from orbitmq.tables.export.parquet_file import GROUP_ROWS, ParquetFile
from orbitmq.tables.export.partition import DERIVED, Key, divided, folder
from orbitmq.tables.planning import Slice
from orbitmq.tables.selection import Selection
from orbitmq.tables.valid_text import valid

if TYPE_CHECKING:
    import pyarrow as pa

BUFFER = 64 << 20  # bytes of rows, uncompressed, before they are written
FILE_BYTES = 1 << 30  # a file that has become this long is closed, and another one is begun
OPEN = 64
PROGRESS = struct.Struct("=QQ")  # messages and bytes, at task * size in the file `progress`
_NEEDED = ("partition", "offset", "timestamp")


@dataclass(frozen=True, slots=True)
class Job:
    """What all tasks of a run share. sizes: of the store's files. staging: all machines see it under this path."""

    root: str
    sizes: tuple[int, int]
    staging: str
    run: int
    by: tuple[str, ...]
    columns: tuple[str, ...]
    fail_on_data_loss: bool

    @property
    def kept(self) -> list[str]:
        """The columns in the files; the others are in the names of their folders."""
        return [name for name in self.columns if name not in self.by]

    @property
    def read(self) -> list[str]:
        """The columns that must be read for that."""
        wanted = {*self.columns, *_NEEDED, *(name for name in self.by if name not in DERIVED)} - {"topic"}
        return [name for name in COLUMNS if name in wanted or (name == "topic" and name in self.kept)]


def run_task(job: Job, number: int, slices: Sequence[Slice], stopped: Callable[[], bool] = bool) -> list[ExportFile]:
    """Writes and syncs the files. Each is in staging under the name that it will have in its folder.

    stopped: asked between batches; nobody wants the files any more if it is true, and there will be none.

    Raises: OffsetOutOfRange: retention has removed messages meanwhile, and that is an error. SettingError: a folder's name
        would be too long. ExportFailed: a file cannot be written. CorruptRecord, StoreError.
    """
    task = Task(job, number)
    try:
        for topic, own in groupby(slices, key=lambda each: each.topic):
            if not task.read(topic, list(own), stopped):
                return []
        return task.finish()
    except OSError as error:
        raise failed(f"cannot write to {job.staging}", error) from error
    finally:
        task.close()


@dataclass(slots=True)
class OpenFile:
    """A Parquet file that is being written. offsets: by queue, first, the one after the last, and how many."""

    file: ParquetFile
    topic: str
    key: Key
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_bytes: int = 0
    waiting_rows: int = 0
    rows: int = 0
    offsets: dict[int, list[int]] = field(default_factory=dict)

    def add(self, rows: pa.RecordBatch, kept: Sequence[str]) -> int:
        """Returns how many more bytes are buffered now."""
        import pyarrow.compute as pc

        queues, offsets = pc.run_end_encode(rows.column("partition"), run_end_type="int32"), rows.column("offset")
        borders = [0, *queues.run_ends.to_pylist()]
        for queue, (begin, end) in zip(queues.values.to_pylist(), pairwise(borders), strict=True):
            first, last = offsets[begin].as_py(), offsets[end - 1].as_py() + 1
            entry = self.offsets.setdefault(queue, [first, last, 0])
            entry[0], entry[1], entry[2] = min(entry[0], first), max(entry[1], last), entry[2] + end - begin
        self.rows += rows.num_rows
        part = rows.select(kept)
        self.waiting.append(part)
        self.waiting_bytes += part.nbytes
        self.waiting_rows += part.num_rows
        return int(part.nbytes)

    def write(self) -> int:
        """Writes the buffered rows as a row group. Returns how many bytes are no longer buffered."""
        import pyarrow as pa

        written = self.waiting_bytes
        if self.waiting:
            self.file.write(pa.Table.from_batches(self.waiting))
            self.waiting, self.waiting_bytes, self.waiting_rows = [], 0, 0
        return written


class Task:
    """See the head of this file."""

    def __init__(self, job: Job, number: int) -> None:
        self._job = job
        self._number = number
        self._name = f"part-{job.run:06d}-{number:05d}-{uuid.uuid4().hex[:8]}"  # of this attempt: Spark may make several
        self._open: OrderedDict[tuple[str, Key], OpenFile] = OrderedDict()
        self._done: list[ExportFile] = []
        self._begun = 0
        self._waiting = 0
        self._told = [0, 0]
        self._progress = os.open(Path(job.staging, "progress"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def read(self, topic: str, slices: Sequence[Slice], stopped: Callable[[], bool]) -> bool:
        """False: it was stopped."""
        job = self._job
        chosen = Choice("topics", (topic,))
        wanted = Selection(choice=chosen, columns=tuple(job.read), fail_on_data_loss=job.fail_on_data_loss)
        for batch in map(valid, slice_reader.read_slices(job.root, job.sizes, slices, wanted)):
            for key, rows in divided(batch, topic, job.by):
                self._add(topic, key, rows)
            self._tell(batch)
            if stopped():
                return False
        return True

    def finish(self) -> list[ExportFile]:
        while self._open:
            self._close(next(iter(self._open)))
        return self._done

    def close(self) -> None:
        """Called after an error too."""
        for file in self._open.values():
            file.file.close()
        self._open.clear()
        os.close(self._progress)

    def _add(self, topic: str, key: Key, rows: pa.RecordBatch) -> None:
        place = (topic, key)
        file = self._open.get(place)
        if file is None:
            if len(self._open) >= OPEN:
                self._close(next(iter(self._open)))
            file = self._open[place] = self._begin(topic, key, rows)
        else:
            self._open.move_to_end(place)
        self._waiting += file.add(rows, self._job.kept)
        if file.waiting_rows >= GROUP_ROWS:
            self._waiting -= file.write()
        while self._waiting > BUFFER:
            self._waiting -= max(self._open.values(), key=lambda each: each.waiting_bytes).write()
        if file.file.size >= FILE_BYTES:
            self._close(place)

    def _begin(self, topic: str, key: Key, rows: pa.RecordBatch) -> OpenFile:
        import pyarrow as pa

        folder(self._job.by, key)  # a name that is too long is refused before anything is written
        path = Path(self._job.staging, f"{self._name}-{self._begun:05d}.parquet")
        self._begun += 1
        return OpenFile(ParquetFile(path, pa.schema([rows.schema.field(name) for name in self._job.kept])), topic, key)

    def _close(self, place: tuple[str, Key]) -> None:
        file = self._open[place]
        self._waiting -= file.write()
        offsets = [Range(queue, *entry) for queue, entry in sorted(file.offsets.items())]
        done = file.file.finish(folder(self._job.by, file.key), file.topic, file.rows, offsets)
        del self._open[place]
        self._done.append(done)

    def _tell(self, batch: pa.RecordBatch) -> None:
        self._told[0] += batch.num_rows
        self._told[1] += batch.nbytes
        os.pwrite(self._progress, PROGRESS.pack(*self._told), self._number * PROGRESS.size)
