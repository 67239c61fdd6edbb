"""The sink's folders: tasks put rows there that nobody has sent yet, and commits record there what they did.

    <store>/orbitmq/spark/queries/<hash of the query>/state.json    sink/state.py
                          staged/<owner>/<job>/<name>-<random>.arrow
                                     rows of one task, an Arrow stream; elsewhere with the option stagingLocation

An owner is a driver: the boot of its machine, the number of its JVM and its start time, so that any process can see whether it
is alive. What a dead driver has staged is useless, unless a query's state names it: no other process will send it. A commit
holds a shared lock on the folder spark/; a clean-up needs the exclusive one, because the Python process of a commit can outlive
the JVM that started it. Locks are taken in the store only, which is never on a network.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from orbitmq.errors import OrbitError
from orbitmq.errors.remedy import hint
from orbitmq.shm import runtime
from orbitmq.shm.process_stat import process_stat
from orbitmq.spark.sink import columns as sink_columns
from orbitmq.spark.sink.columns import STAGED, Shape
from orbitmq.store import atomic_file, positions
from orbitmq.store.file_system import disk_error


@dataclass(frozen=True, slots=True)
class StagedRows:
    """What one task has written. topics: for each topic, rows and the largest queue asked for, -1 for none; largest: bytes of
    the largest record. Without rows there is no file."""

    path: str
    rows: int
    topics: dict[str, tuple[int, int]]
    largest: int


@dataclass(frozen=True, slots=True)
class Staging:
    """The folders of one sink. home: in the store, or with servers the option stagingLocation. elsewhere: for what is staged;
    None: that is in home too. shared: several machines may use home, so drivers of another boot may live."""

    home: Path
    elsewhere: Path | None = None
    shared: bool = False

    def owner_lives(self, name: str) -> bool:
        return owner_lives(name) or (self.shared and not name.startswith(_boot()))

    @property
    def staged(self) -> Path:
        return self.home / "staged" if self.elsewhere is None else self.elsewhere

    @property
    def queries(self) -> Path:
        return self.home / "queries"

    def query_folders(self) -> list[Path]:
        return _entries(self.queries)

    def job(self, name: str) -> Path:
        """Made, durably, for the driver above this process."""
        folder = self.staged / owner() / name
        atomic_file.make_folder(folder)
        return folder

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """While it is held, nobody removes what this process's driver has staged."""
        atomic_file.make_folder(self.home)
        with _opened(self.home) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield

    def clear(self, needed: Callable[[], set[str]]) -> None:
        """Removes what dead drivers have staged, except the files `needed`, which is asked when nobody can add to them."""
        dead = [folder for folder in _entries(self.staged) if not self.owner_lives(folder.name)]
        if not dead:
            return
        with contextlib.suppress(BlockingIOError), _opened(self.home) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            wanted = needed()
            for folder in dead:
                for job in _entries(folder):
                    remove(path for path in _entries(job) if str(path) not in wanted)
                    with contextlib.suppress(OSError):  # something in it is needed
                        job.rmdir()
                with contextlib.suppress(OSError):
                    folder.rmdir()


def stage(batches: Iterable[pa.RecordBatch], shape: Shape, job: Path, name: str) -> StagedRows:
    """Writes a task's rows durably under a name that no other attempt has. Holds one batch at a time.

    Raises: as Shape.messages; StoreFull, StoreFailed, also if the job has ended and its folder is gone.
    """
    path = job / f"{name}-{uuid.uuid4().hex[:12]}.arrow"
    rows, largest = 0, 0
    topics: dict[str, tuple[int, int]] = {}
    writer = file = None
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            messages = shape.messages(batch)
            if writer is None:
                file = path.open("xb")
                writer = pa.ipc.new_stream(file, STAGED)
            writer.write_batch(messages)
            rows += messages.num_rows
            largest = max(largest, sink_columns.largest(messages))
            _count(topics, messages)
        if writer is not None and file is not None:
            writer.close()
            file.flush()
            os.fsync(file.fileno())
            file.close()
            atomic_file.sync_folder(job)  # an intent that survives a crash of the machine needs the name too
    except BaseException as error:
        if file is not None:
            with contextlib.suppress(OSError):  # what could not be written before
                file.close()
            remove([path])
        if isinstance(error, OSError) and not isinstance(error, OrbitError):
            elsewhere = hint("use another {stagingLocation of spark}").assuring("running the query again is safe")
            raise disk_error(error, job, largest, f"the rows of a task to {path}", elsewhere) from error
        raise
    return StagedRows(str(path) if rows else "", rows, topics, largest)


def read(path: str) -> Iterator[pa.RecordBatch]:
    """The batches of a staged file, mapped and not copied. Raises: FileNotFoundError, pa.ArrowInvalid."""
    with pa.memory_map(path) as file, pa.ipc.open_stream(file) as stream:
        yield from stream


def remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def owner_lives(name: str) -> bool:
    """True if the driver of this name runs; a driver of another boot does not."""
    boot, _, process = name.partition("-")
    pid, _, ticks = process.partition("-")
    if not pid.isdecimal() or not ticks.isdecimal():
        return True  # this program did not make the name, so it must not remove it
    return boot == _boot() and runtime.start_ticks(int(pid)) == int(ticks)


def owner() -> str:
    """The nearest Java process above this one, which started it; if there is none, this process."""
    while True:
        pid = _java_above(os.getpid())
        if pid is None:
            continue  # a process above has just ended, and what it started has another parent now
        pid = pid or os.getpid()
        return f"{_boot()}-{pid}-{runtime.start_ticks(pid) or 0}"


def _java_above(pid: int) -> int | None:
    """0: there is none. None: one of the processes above ended meanwhile."""
    while pid > 1:
        stat = process_stat(pid)
        if stat is None:
            return None
        if stat.command == "java":
            return pid
        pid = stat.parent
    return 0


def _boot() -> str:
    return positions.boot_id().hex()[:12]


def _count(topics: dict[str, tuple[int, int]], messages: pa.RecordBatch) -> None:
    found: Any = pa.Table.from_batches([messages.select(["topic", "queue"])]).group_by("topic")
    for row in found.aggregate([("queue", "count"), ("queue", "max")]).to_pylist():
        rows, queue = topics.get(row["topic"], (0, -1))
        topics[row["topic"]] = (rows + row["queue_count"], max(queue, row["queue_max"]))


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
