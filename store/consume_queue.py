"""One ConsumeQueue on disk, from Python: for recovery, retention, tools and tests. Hot paths stay in C.

A queue is a folder of files of `file_units` 20-byte units, drawn in docs/formats/consumequeue.md. Units are numbered by their
queue offset; each names a record of the CommitLog by its physical offset. A caller that changes a queue must hold the store,
with no reput running on it.
"""

from __future__ import annotations

import bisect
import errno
import mmap
import os
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from orbitmq.errors import OffsetOutOfRange, StoreSettingsError
from orbitmq.errors.remedy import hint
from orbitmq.native._core import ffi, lib
from orbitmq.store import atomic_file

UNIT_SIZE = 20
BLANK_SIZE = 0x7FFFFFFF  # size in a unit before the first message of a queue's first file
LOG_END = (1 << 63) - 1
RECORD_MAX = 64 << 20  # as native/format/log_walk.h
SCAN_FILES = 3  # the files before a queue's third-last one are believed, as RocketMQ does

_UNIT = struct.Struct(">QIq")


class Unit(NamedTuple):
    """One unit. tags_code: Java hash of the tag, sign-extended; 0 without a tag."""

    physical_offset: int
    size: int
    tags_code: int

    @property
    def blank(self) -> bool:
        """True for a filler before the queue's first message."""
        return self.size == BLANK_SIZE and self.physical_offset == 0


class Extent(NamedTuple):
    """What a queue holds: units [min_offset, max_offset), and the end of the newest unit's record (0: no unit)."""

    min_offset: int
    max_offset: int
    physical_end: int


def queues(store: Path) -> Iterator[tuple[str, int]]:
    """(topic, queue id) of every queue with a folder under <store>/consumequeue, sorted."""
    for topic in sorted(_folders(f"{store}/consumequeue")):
        for number in sorted(int(name) for name in _folders(f"{store}/consumequeue/{topic}") if name.isdecimal()):
            yield topic, number


def _folders(root: str) -> list[str]:
    return [entry.name for entry in _entries(root) if entry.is_dir()]


def _entries(root: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(root) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


class ConsumeQueue:
    """The files of one queue.

    Args:
        store: root of the store. file_units: units of one file, the broker's setting.
    Raises (every method): StoreSettingsError: a file whose length is not 20 * file_units; OSError.
    """

    def __init__(self, store: Path, topic: str, queue_id: int, file_units: int) -> None:
        self._folder = f"{store}/consumequeue/{topic}/{queue_id}"  # a string, because planning makes ten thousand of them
        self.file_units = file_units

    @property
    def folder(self) -> Path:
        return Path(self._folder)

    def files(self) -> list[int]:
        """First queue offset of each file, ascending."""
        return sorted(int(entry.name) // UNIT_SIZE for entry in _entries(self._folder) if entry.name.isdecimal())

    def path(self, first: int) -> Path:
        """The file whose first unit is `first`."""
        return Path(f"{self._folder}/{first * UNIT_SIZE:020d}")

    def units(self, begin: int, end: int) -> list[Unit]:
        """Units of the queue offsets [begin, end), as they are in the files, published or not.

        Raises: OffsetOutOfRange: no file holds one of them.
        """
        found: list[Unit] = []
        while begin < end:
            first = begin - begin % self.file_units
            last = min(end, first + self.file_units)
            try:
                with self._mapped(first) as memory:
                    part = memory[(begin - first) * UNIT_SIZE : (last - first) * UNIT_SIZE]
            except FileNotFoundError:
                raise self._missing(begin) from None
            found.extend(Unit(*fields) for fields in _UNIT.iter_unpack(part))
            begin = last
        return found

    def bytes_of(self, begin: int, end: int) -> bytes:
        """The units from `begin` on as they stand in its file, up to `end` or the file's end. Raises as peek()."""
        first = begin - begin % self.file_units
        last = min(end, first + self.file_units)
        try:
            descriptor = os.open(self.path(first), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise self._missing(begin) from None
        try:
            content = os.pread(descriptor, (last - begin) * UNIT_SIZE, (begin - first) * UNIT_SIZE)
        finally:
            os.close(descriptor)
        if len(content) < UNIT_SIZE:
            raise self._missing(begin)
        return content

    def unit(self, offset: int) -> Unit:
        """The unit of one queue offset. Raises as units()."""
        return self.units(offset, offset + 1)[0]

    def extent(self, log_min: int = 0, log_end: int = LOG_END, *, whole: bool = False) -> Extent:
        """What the queue holds of the log [log_min, log_end), bytes.

        Scans from the third-last file on (from the first one if `whole`) up to the first unit that was not written, lies beyond
        log_end, or begins before its predecessor's end. A queue without any unit ends where its files begin.
        """
        firsts = self._chain()
        if not firsts:
            return Extent(0, 0, 0)
        if len(firsts) == 1:
            return self._extent_of_one(firsts[0], log_min, log_end)
        maximum, end = self._maximum(firsts if whole else firsts[-SCAN_FILES:], log_end)
        if not whole and end == 0 and len(firsts) > SCAN_FILES:
            maximum, end = self._maximum(firsts, log_end)
        return Extent(self._minimum(firsts, maximum, log_min), maximum, end)

    def used(self, log_end: int) -> int:
        """How far the queue's offsets were used for records that end by `log_end`, as far as its files tell, which may be
        damaged: after the last unit that can be valid, or at the beginning of a file without one. Accepts files of any
        length."""
        firsts = [first for first in self.files() if first % self.file_units == 0 and self.path(first).is_file()]
        for first in reversed(firsts):
            content = self.path(first).read_bytes()[: self.file_units * UNIT_SIZE]
            silent = True
            for index in range(len(content.rstrip(b"\0")) // UNIT_SIZE, -1, -1):
                if len(content) < (index + 1) * UNIT_SIZE:
                    continue
                unit = Unit(*_UNIT.unpack_from(content, index * UNIT_SIZE))
                if unit.blank or (0 < unit.size <= RECORD_MAX and unit.physical_offset + unit.size <= log_end):
                    return first + index + 1
                silent = silent and unit.size == 0
            if silent:
                return first
        return firsts[0] if firsts else 0

    def truncate(self, log_end: int, log_min: int = 0) -> Extent:
        """Removes every unit whose record ends beyond `log_end` and all that follow it. Returns what remains.

        The rest of the last file is zeroed, later files are removed, and all of it is synced; otherwise a stale unit would come
        back. Files go newest first, so that a crash in between leaves a queue without a hole. The oldest file stays even if
        nothing in it does, because its beginning says that earlier offsets were used.
        """
        extent = self.extent(log_min, log_end, whole=True)
        firsts = self.files()
        for first in reversed(firsts):
            if first >= extent.max_offset and first != firsts[0]:
                self.path(first).unlink()
            elif first + self.file_units > extent.max_offset:
                self._zero_from(first, extent.max_offset - first)
        if self.folder.is_dir():
            atomic_file.sync_folder(self.folder)
        return extent

    def search(self, begin: int, end: int, older: Callable[[Unit], bool]) -> int:
        """The first queue offset of [begin, end) whose unit is not `older`; `end` if all are. No older unit may follow one that
        is not. Raises as peek()."""
        if begin < end and not older(self.peek(begin)):
            return begin  # the usual case
        return begin + bisect.bisect_left(range(begin, end), True, key=lambda offset: not older(self.peek(offset)))

    def remove(self, but: int | None = None) -> None:
        """Removes all files, newest first, and durably. but: the file that holds this offset stays."""
        for first in reversed(self.files()):
            if but is None or not first <= but < first + self.file_units:
                self.path(first).unlink()
        if self.folder.is_dir():
            atomic_file.sync_folder(self.folder)

    def write_used(self, offset: int) -> None:
        """Makes the file which says that all offsets before `offset` were used, and which holds nothing else. Durable except
        for its name; the other files stay."""
        first = offset - offset % self.file_units
        temporary = self.folder / "begin.tmp"
        with temporary.open("wb") as file:
            file.write(_UNIT.pack(0, BLANK_SIZE, 0) * (offset - first))
            file.truncate(self.file_units * UNIT_SIZE)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self.path(first))

    def peek(self, offset: int) -> Unit:
        """One unit, read without mapping its file. Raises: OffsetOutOfRange: no file holds it."""
        return Unit(*_UNIT.unpack(self.bytes_of(offset, offset + 1)))

    def expired(self, log_min: int) -> list[Path]:
        """Files in which every unit lies before log_min, oldest first; never the newest, which says where the queue
        continues."""
        paths = []
        for first in self.files()[:-1]:
            last = self.peek(first + self.file_units - 1)
            if last.size <= 0 or last.physical_offset >= log_min:
                break
            paths.append(self.path(first))
        return paths

    def _missing(self, offset: int) -> OffsetOutOfRange:
        return OffsetOutOfRange(f"cannot read queue offset {offset} of {self._folder}, no file holds it", offset=offset)

    def _chain(self) -> list[int]:
        """The files that follow each other without a gap, from the oldest on."""
        firsts = self.files()
        for i in range(1, len(firsts)):
            if firsts[i] != firsts[i - 1] + self.file_units:
                return firsts[:i]
        return firsts

    def _extent_of_one(self, first: int, log_min: int, log_end: int) -> Extent:
        """Most queues are one file, which is mapped once."""
        end = ffi.new("uint64_t *", 0)
        with self._mapped(first) as memory:
            units = ffi.from_buffer(memory)
            good = lib.consume_queue_good(units, self.file_units, 0, log_end, end)
            index = lib.consume_queue_first(units, good, log_min)
            ffi.release(units)
        return Extent(first + index, first + good, int(end[0]))

    def _maximum(self, firsts: list[int], log_end: int) -> tuple[int, int]:
        end = ffi.new("uint64_t *", 0)
        for first in firsts:
            with self._mapped(first) as memory:
                good = lib.consume_queue_good(ffi.from_buffer(memory), self.file_units, end[0], log_end, end)
            if good < self.file_units:
                return first + good, int(end[0])
        return firsts[-1] + self.file_units, int(end[0])

    def _minimum(self, firsts: list[int], maximum: int, log_min: int) -> int:
        for first in firsts:
            if first >= maximum:
                break
            units = min(self.file_units, maximum - first)
            with self._mapped(first) as memory:
                index: int = lib.consume_queue_first(ffi.from_buffer(memory), units, log_min)
            if index < units:
                return first + index
        return maximum

    def _zero_from(self, first: int, index: int) -> None:
        """Turns the units from index on into a hole; the length stays."""
        path = self.path(first)
        for again in (True, False):
            with path.open("r+b") as file:
                file.truncate(index * UNIT_SIZE)
                file.truncate(self.file_units * UNIT_SIZE)
                try:
                    os.fsync(file.fileno())
                except OSError:  # perhaps of an earlier write, which the kernel reports to a new descriptor
                    if not again:
                        raise
                else:
                    return

    @contextmanager
    def _mapped(self, first: int) -> Iterator[mmap.mmap]:
        path = f"{self._folder}/{first * UNIT_SIZE:020d}"
        size = self.file_units * UNIT_SIZE
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):  # it could be opened, but not mapped
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            found = status.st_size
            if found == 0:  # made by a process that died before it gave it a length: nothing is in it
                memory = mmap.mmap(-1, size)
            elif found != size:
                raise StoreSettingsError(
                    f"cannot read {path}: it has {found} bytes and must have {size}",
                    hint=hint("open the store with the {queue_file_units of broker} that it was made with"),
                    path=path,
                    size=found,
                    expected=size,
                )
            else:
                memory = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        with memory:
            yield memory
