"""Damaged bytes of the CommitLog: which lost message belongs to which of them, and what is written in their place.

What is overwritten or cut off is kept under orbitmq/cut/ first. Each gap is made good by itself, so a repair that is killed on
the way has left fewer of them to the next.
"""

from __future__ import annotations

import bisect
import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orbitmq.errors import StoreSettings
from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file, mapped_file, sparse
from orbitmq.store.consume_queue import ConsumeQueue, Unit
from orbitmq.store.findings import Gap, Lost, Verdict
from orbitmq.store.layout import StoreLayout
from orbitmq.store.log_cut import free_name
from orbitmq.store.record import Record, parse
from orbitmq.store.settings import StoreSettings as Settings
from orbitmq.store.stand_in import LEAST_FILLER, LostMessage, fill, room_for

RECORD_MAX = 64 << 20  # as native/log_walk.h
MARKER_SIZE = 8
UNITS_AT_ONCE = 4096


@dataclass(slots=True)
class Filling:
    """One gap and what is to stand in it. end: behind the gap's own where the log was recorded to go on; the rest of the last
    gap is what recovery cuts. marker: only the blank marker at the end of a file is damaged."""

    gap: Gap
    end: int
    to_file_end: bool
    marker: bool = False
    messages: list[LostMessage] = field(default_factory=list)

    @property
    def size(self) -> int:
        return self.end - self.gap.offset

    @property
    def room(self) -> int:
        return self.size - room_for(self.messages, to_file_end=self.to_file_end)

    @property
    def fits(self) -> bool:
        return self.size == 0 or (self.room >= 0 and (bool(self.messages) or self.to_file_end or self.size >= LEAST_FILLER))


@dataclass(slots=True)
class LogDamage:
    """The gaps of one log, by their order, with the messages that were lost in them."""

    layout: StoreLayout
    settings: Settings
    verdict: Verdict
    floor: int  # the log was recorded to reach so far
    lost: list[Lost]
    fillings: list[Filling] = field(default_factory=list)
    homeless: int = 0  # lost messages for which there is no room

    @classmethod
    def measure(
        cls, layout: StoreLayout, settings: Settings, verdict: Verdict, floor: int, beyond: Sequence[Lost]
    ) -> LogDamage:
        """Reads what the queues know of the damaged bytes; changes nothing. beyond: messages of which only units are left,
        behind the end of the log."""
        made = cls(layout, settings, verdict, floor, [*verdict.lost, *beyond])
        made.fillings = [made._filling(gap) for gap in verdict.gaps]
        made._add_missing_end()
        made._assign()
        for filling in made.fillings:
            filling.marker = made._is_marker(filling)
        return made

    @property
    def messages(self) -> int:
        """How many are lost in these bytes already."""
        return sum(lost.count for lost in self.lost)

    @property
    def serious(self) -> list[Filling]:
        """Those with which something may be lost."""
        return [filling for filling in self.fillings if not filling.marker]

    def _filling(self, gap: Gap) -> Filling:
        file_end = gap.offset - gap.offset % self.settings.log_file_size + self.settings.log_file_size
        if not gap.last:
            return Filling(gap, gap.end, gap.end == file_end)
        return self._to_floor(gap)

    def _to_floor(self, gap: Gap) -> Filling:
        """The last gap ends where the log was recorded to end, or behind the least that can be written: nothing follows it."""
        file_end = gap.offset - gap.offset % self.settings.log_file_size + self.settings.log_file_size
        end = min(max(self.floor, gap.offset), file_end)
        if gap.offset < end < gap.offset + LEAST_FILLER:
            end = gap.offset + LEAST_FILLER
        return Filling(gap, file_end if end + MARKER_SIZE > file_end else end, end + MARKER_SIZE > file_end)

    def _add_missing_end(self) -> None:
        """The log ends before a recorded position: what is missing is one more gap for each file."""
        reached = max([self.verdict.end, *(filling.end for filling in self.fillings)])
        size = self.settings.log_file_size
        while reached < self.floor:
            file_end = reached - reached % size + size
            gap = Gap(reached, min(file_end, self.floor), False, self.verdict.records, self.verdict.last_ms, last=True)
            self.fillings.append(self._to_floor(gap))
            reached = self.fillings[-1].end

    # ---- whose bytes they were

    def _assign(self) -> None:
        claims = self._claims()
        self.lost += self._lost_at_the_end(claims)
        places = [filling.gap.offset for filling in self.fillings]
        for each in self.lost:
            least = 0  # of one queue's messages none goes before an earlier one
            for number, unit in self._units(each):
                message = LostMessage(each.topic, each.queue, number)
                known = claims.get((each.topic, each.queue, number))
                if known is None and unit is not None and not unit.blank and unit.size > 0:
                    at = bisect.bisect_right(places, unit.physical_offset) - 1
                    known = at if at >= 0 and unit.physical_offset < self.fillings[at].gap.end else None
                home = self._home(message, each, max(least, known or 0))
                if home is None:
                    self.homeless += 1
                    continue
                least = home
                self.fillings[home].messages.append(message)

    def _home(self, message: LostMessage, lost: Lost, least: int) -> int | None:
        """The first gap from `least` on that may have held the message and has room."""
        for number in range(least, len(self.fillings)):
            filling = self.fillings[number]
            if lost.end is not None and filling.gap.offset >= lost.end:
                return None
            if lost.begin is not None and filling.gap.end <= lost.begin:
                continue
            # The last gap may be filled beyond what was recorded: nothing follows it.
            if filling.gap.last and filling.room < message.least:
                size = self.settings.log_file_size
                file_end = filling.gap.offset - filling.gap.offset % size + size
                if not filling.to_file_end and file_end - filling.end >= message.least + MARKER_SIZE:
                    filling.end += max(0, message.least - filling.room)
            if filling.room >= message.least:
                return number
        return None

    def _claims(self) -> dict[tuple[str, int, int], int]:
        """What the gaps that look like one record say they are: (topic, queue, queue offset) -> number of the gap."""
        claims = {}
        for number, filling in enumerate(self.fillings):
            record = self._read(filling.gap.offset) if filling.gap.shaped else None
            if record is not None and record.sys_flag & 0xC in (0, 8):
                claims[record.topic, record.queue_id, record.queue_offset] = number
        return claims

    def _lost_at_the_end(self, claims: dict[tuple[str, int, int], int]) -> Iterator[Lost]:
        """Messages that a queue ended with: no later one shows that they are missing, and its units may be gone as well."""
        reach = {key: seen.next for key, seen in self.verdict.queues.items()}
        for lost in self.lost:
            reach[lost.topic, lost.queue] = max(reach.get((lost.topic, lost.queue), 0), lost.first + lost.count)
        for (topic, queue, offset), _ in sorted(claims.items(), key=lambda claim: claim[1]):
            if reach.get((topic, queue)) == offset:
                reach[topic, queue] = offset + 1
                yield Lost(topic, queue, offset, 1, None, None)

    def _units(self, lost: Lost) -> Iterator[tuple[int, Unit | None]]:
        """The queue offsets of lost messages, each with its unit; None where it cannot be read."""
        queue = ConsumeQueue(self.layout.root, lost.topic, lost.queue, self.settings.queue_file_units)
        at, end = lost.first, lost.first + lost.count
        while at < end:
            last = min(end, at + UNITS_AT_ONCE, at - at % queue.file_units + queue.file_units)
            try:
                units: Iterable[Unit | None] = queue.units(at, last)
            except (StoreSettings, OSError, ValueError):
                units = [None] * (last - at)
            yield from zip(range(at, last), units, strict=True)
            at = last

    def _is_marker(self, filling: Filling) -> bool:
        """Nothing but the eight bytes at which a file's records end was damaged."""
        if filling.messages or not filling.to_file_end or filling.gap.last or filling.gap.shaped:
            return False
        start = filling.gap.offset - filling.gap.offset % self.settings.log_file_size
        try:
            with self.layout.log_file(start).open("rb", buffering=0) as file:
                at = filling.gap.offset - start + MARKER_SIZE
                # A file that holds nothing at all, or cannot be read, was no marker.
                return at > MARKER_SIZE and sparse.last_nonzero(file.fileno(), at) == at
        except OSError:
            return False

    def _read(self, offset: int) -> Record | None:
        start = offset - offset % self.settings.log_file_size
        try:
            with self.layout.log_file(start).open("rb") as file:
                file.seek(offset - start)
                found = parse(file.read(RECORD_MAX))
        except OSError:
            return None
        return found if isinstance(found, Record) else None

    # ---- making them good

    def make_files_whole(self, *, missing: bool) -> None:
        """Gives every file of the log its size; what is too much, and what is no file of the log's, is kept. missing: makes
        files that are missing between others as well, all zero."""
        size = self.settings.log_file_size
        starts = []
        for path in sorted(self.layout.commitlog.iterdir()):
            if not is_log_file(path.name, size):
                path.rename(free_name(self.layout, path.name))
                continue
            starts.append(int(path.name))
            length = path.stat().st_size
            if length > size:
                _copy(path.read_bytes()[size:], free_name(self.layout, f"{path.name}-behind"))
            if length != size:
                with path.open("r+b") as file:
                    file.truncate(size)
                    os.posix_fallocate(file.fileno(), 0, size)
                    os.fsync(file.fileno())
                crash_point("repair_log_file_sized")
        last = max([*starts, *(filling.gap.offset for filling in self.fillings)], default=0)
        for start in range(starts[0] if starts else 0, last + 1, size) if missing and (self.fillings or starts) else ():
            if start not in starts:
                mapped_file.allocate(self.layout, start, size)
        atomic_file.sync_folder(self.layout.cut)
        atomic_file.sync_folder(self.layout.commitlog)

    def fill(self, filling: Filling) -> None:
        """Writes what is to stand in a gap; what was there is kept."""
        size = self.settings.log_file_size
        gap = filling.gap
        start = gap.offset - gap.offset % size
        at = gap.offset - start
        with self.layout.log_file(start).open("r+b", buffering=0) as file:
            self._keep(file.fileno(), at, gap)
            crash_point("repair_log_kept")
            if filling.size > 0:
                store_ms = self._store_ms(gap)
                pieces = fill(filling.messages, filling.size, gap.offset, store_ms, to_file_end=filling.to_file_end)
                for piece in pieces:
                    os.pwrite(file.fileno(), piece, at)
                    crash_point("repair_log_written")
                    at += len(piece)
            os.fdatasync(file.fileno())
        crash_point("repair_log_filled")

    def rewrite(self, offset: int, record: bytes) -> None:
        """Writes a whole record in the place of another of its size."""
        start = offset - offset % self.settings.log_file_size
        with self.layout.log_file(start).open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), record, offset - start)
            os.fdatasync(file.fileno())

    def read(self, offset: int) -> bytes:
        """The whole record at a place, which is known to be good."""
        start = offset - offset % self.settings.log_file_size
        with self.layout.log_file(start).open("rb") as file:
            file.seek(offset - start)
            size = int.from_bytes(file.read(4), "big")
            file.seek(offset - start)
            return file.read(size)

    def _keep(self, descriptor: int, at: int, gap: Gap) -> None:
        copied = None
        end = at + gap.end - gap.offset
        try:
            for place, chunk in sparse.nonzero_chunks(descriptor, at, end):
                if copied is None:
                    copied = free_name(self.layout, f"{gap.offset:020d}-damaged").open("xb", buffering=0)
                copied.seek(place - at)
                copied.write(chunk)
        except OSError as error:
            if error.errno != errno.EIO:  # what the disk does not give cannot be kept
                raise
        if copied is None:
            return
        with copied:
            os.fsync(copied.fileno())
        atomic_file.sync_folder(self.layout.cut)

    def _store_ms(self, gap: Gap) -> int:
        """Timestamps must not decrease: that of the record before, else of the one behind."""
        if gap.before_ms:
            return gap.before_ms
        following = self._read(gap.end)
        return following.store_ms if following is not None else self.verdict.last_ms or 1


def is_log_file(name: str, size: int) -> bool:
    """Whether a name is that of a file of the log."""
    return name.isascii() and name.isdigit() and len(name) == mapped_file.NAME_DIGITS and int(name) % size == 0


def _copy(content: bytes, path: Path) -> None:
    with path.open("xb", buffering=0) as file:
        file.write(content)
        os.fsync(file.fileno())
