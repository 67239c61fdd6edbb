"""Makes the CommitLog's files good again: their sizes, and what is written in the place of damaged bytes (log_damage.py).

What is overwritten or cut off is first copied to orbitmq/cut/.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file, sparse
from orbitmq.store.commit_log import mapped_file
from orbitmq.store.commit_log.record import Record, check
from orbitmq.store.consume_queue import RECORD_MAX
from orbitmq.store.fill_plan import Stretch
from orbitmq.store.recovery.log_cut import free_name
from orbitmq.store.repair.log_damage import Filling, LogDamage
from orbitmq.store.stand_in import fill
from orbitmq.store.verify.findings import Gap


@dataclass(frozen=True, slots=True)
class LogRepair:
    """The log whose damage was measured."""

    damage: LogDamage

    def make_files_whole(self, *, missing: bool) -> None:
        """Gives every file of the log its size; keeps a copy of what is too much, and of files that do not belong to the log.
        missing: also makes files that are missing between others, all zero."""
        size = self.damage.settings.log_file_size
        starts = []
        for path in sorted(self.damage.layout.commitlog.iterdir()):
            if not is_log_file(path.name, size):
                path.rename(free_name(self.damage.layout, path.name))
                continue
            starts.append(int(path.name))
            length = path.stat().st_size
            if length > size:
                _copy(path.read_bytes()[size:], free_name(self.damage.layout, f"{path.name}-behind"))
            if length != size:
                with path.open("r+b") as file:
                    file.truncate(size)
                    os.posix_fallocate(file.fileno(), 0, size)
                    os.fsync(file.fileno())
                crash_point("repair_log_file_sized")
        if missing:
            starts = self._move_strays(starts)
        last = max([*starts, *(filling.gap.offset for filling in self.damage.fillings)], default=0)
        for start in range(starts[0] if starts else 0, last + 1, size) if missing and (self.damage.fillings or starts) else ():
            if start not in starts:
                mapped_file.allocate(self.damage.layout, start, size)
        atomic_file.sync_folder(self.damage.layout.cut)
        atomic_file.sync_folder(self.damage.layout.commitlog)

    def _move_strays(self, starts: list[int]) -> list[int]:
        """Files behind the end of the log that do not follow it are set aside, because making all files up to them could fill
        the disk."""
        end = max([self.damage.verdict.end, self.damage.floor, *(filling.end for filling in self.damage.fillings)])
        kept: list[int] = []
        for start in starts:
            if start <= end or (kept and start == kept[-1] + self.damage.settings.log_file_size):
                kept.append(start)
            else:
                path = self.damage.layout.log_file(start)
                path.rename(free_name(self.damage.layout, path.name))
        return kept

    def plan(self, filling: Filling) -> Stretch:
        """What is to be written into a gap."""
        gap = filling.gap
        messages = tuple(filling.messages)
        return Stretch(gap.offset, filling.end, max(gap.end, filling.end), filling.to_file_end, self._store_ms(gap), messages)

    def fill(self, stretch: Stretch) -> None:
        """Writes it, and keeps what was there. Doing it again changes nothing."""
        start = stretch.offset - stretch.offset % self.damage.settings.log_file_size
        at = stretch.offset - start
        with self.damage.layout.log_file(start).open("r+b", buffering=0) as file:
            self._keep(file.fileno(), at, stretch)
            crash_point("repair_log_kept")
            if stretch.size > 0:
                for piece in fill(
                    stretch.messages, stretch.size, stretch.offset, stretch.store_ms, to_file_end=stretch.to_file_end
                ):
                    os.pwrite(file.fileno(), piece, at)
                    crash_point("repair_log_written")
                    at += len(piece)
            os.fdatasync(file.fileno())
        crash_point("repair_log_filled")

    def rewrite(self, offset: int, record: bytes) -> None:
        """Overwrites a record with another whole record of the same size."""
        start = offset - offset % self.damage.settings.log_file_size
        with self.damage.layout.log_file(start).open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), record, offset - start)
            os.fdatasync(file.fileno())

    def read(self, offset: int) -> bytes:
        """The whole record at a place that is known to be good."""
        start = offset - offset % self.damage.settings.log_file_size
        with self.damage.layout.log_file(start).open("rb") as file:
            file.seek(offset - start)
            size = int.from_bytes(file.read(4), "big")
            file.seek(offset - start)
            return file.read(size)

    def _keep(self, descriptor: int, at: int, stretch: Stretch) -> None:
        copied = None
        end = at + stretch.keep_end - stretch.offset
        try:
            for place, chunk in sparse.nonzero_chunks(descriptor, at, end):
                if copied is None:
                    copied = free_name(self.damage.layout, f"{stretch.offset:020d}-damaged").open("xb", buffering=0)
                copied.seek(place - at)
                copied.write(chunk)
        except OSError as error:
            if error.errno != errno.EIO:  # what cannot be read from the disk cannot be kept
                raise
        if copied is None:
            return
        with copied:
            os.fsync(copied.fileno())
        atomic_file.sync_folder(self.damage.layout.cut)

    def _store_ms(self, gap: Gap) -> int:
        """Timestamps must not decrease: the time of the record before, else of the first good record after it."""
        if gap.before_ms:
            return gap.before_ms
        for filling in self.damage.fillings:
            if filling.gap.offset < gap.offset or filling.gap.last:
                continue
            following = self._good(filling.end)
            if following is not None:
                return following.store_ms
        return self.damage.verdict.last_ms or 1

    def _good(self, offset: int) -> Record | None:
        start = offset - offset % self.damage.settings.log_file_size
        try:
            with self.damage.layout.log_file(start).open("rb") as file:
                file.seek(offset - start)
                size = int.from_bytes(file.read(4), "big")
                file.seek(offset - start)
                found = check(file.read(min(size, RECORD_MAX)), physical_offset=offset)
        except OSError:
            return None
        return found if isinstance(found, Record) else None


def is_log_file(name: str, size: int) -> bool:
    """True if a name is that of a file of the log."""
    return name.isascii() and name.isdigit() and len(name) == mapped_file.NAME_DIGITS and int(name) % size == 0


def _copy(content: bytes, path: Path) -> None:
    with path.open("xb", buffering=0) as file:
        file.write(content)
        os.fsync(file.fileno())
