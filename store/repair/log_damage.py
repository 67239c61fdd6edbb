"""Damaged bytes of the CommitLog: which lost message belongs to which of them."""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from orbitmq.errors import OffsetOutOfRange, StoreSettingsError
from orbitmq.shm.topic_table import QueueKey
from orbitmq.store import sparse
from orbitmq.store.commit_log.record import BLANK_MAGIC, Record, parse
from orbitmq.store.consume_queue import RECORD_MAX, ConsumeQueue, Unit
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings.settings import StoreSettings
from orbitmq.store.stand_in import BLANK, LEAST_FILLER, LostMessage, room_for
from orbitmq.store.verify.findings import Gap, Lost, Verdict

MARKER_SIZE = 8
UNITS_AT_ONCE = 4096
NOWHERE = 1 << 64
LOST_MAX = 1 << 20  # messages missing at one place; a larger number is a wrong number


@dataclass(slots=True)
class Filling:
    """One gap and what is to be written into it. end: beyond the gap's own end if the log was recorded to continue; the rest of
    the last gap is what recovery cuts. marker: only the blank marker at the end of a file is damaged. needed: least number of
    bytes that stand-ins for the messages take."""

    gap: Gap
    end: int
    to_file_end: bool
    marker: bool = False
    messages: list[LostMessage] = field(default_factory=list)
    needed: int = 0

    @property
    def size(self) -> int:
        return self.end - self.gap.offset

    @property
    def room(self) -> int:
        return self.size - self.needed - room_for((), to_file_end=self.to_file_end)

    @property
    def fits(self) -> bool:
        return self.size == 0 or (self.room >= 0 and (bool(self.messages) or self.to_file_end or self.size >= LEAST_FILLER))

    def add(self, message: LostMessage) -> None:
        self.messages.append(message)
        self.needed += message.least


@dataclass(slots=True)
class LogDamage:
    """The gaps of one log in their order, with the messages that were lost in them."""

    layout: StoreLayout
    settings: StoreSettings
    verdict: Verdict
    floor: int  # the log was recorded to reach this far
    lost: list[Lost]
    fillings: list[Filling] = field(default_factory=list)
    homeless: int = 0  # lost messages for which there is no room

    @classmethod
    def measure(
        cls, layout: StoreLayout, settings: StoreSettings, verdict: Verdict, floor: int, beyond: Sequence[Lost]
    ) -> LogDamage:
        """Reads what the queues know about the damaged bytes. Changes nothing. beyond: messages of which only units are left,
        behind the end of the log."""
        made = cls(layout, settings, verdict, floor, [*verdict.lost, *beyond])
        for number, gap in enumerate(verdict.gaps, 1):
            made.fillings.append(made._filling(gap, verdict.gaps[number] if number < len(verdict.gaps) else None))
        made._add_missing_end()
        made._assign()
        for filling in made.fillings:
            filling.marker = made._is_marker(filling)
        return made

    @property
    def messages(self) -> int:
        """How many messages are known to be lost in these bytes already."""
        return sum(lost.count for lost in self.lost)

    @property
    def serious(self) -> list[Filling]:
        """The gaps in which something may be lost."""
        return [filling for filling in self.fillings if not filling.marker]

    def _file_end(self, offset: int) -> int:
        return offset - offset % self.settings.log_file_size + self.settings.log_file_size

    def _filling(self, gap: Gap, following: Gap | None) -> Filling:
        file_end = self._file_end(gap.offset)
        if not gap.last:
            return Filling(gap, gap.end, gap.end == file_end)
        if following is None:
            return self._to_floor(gap)
        end = min(following.offset, file_end)
        return Filling(gap, end, end == file_end)

    def _to_floor(self, gap: Gap) -> Filling:
        """The last gap ends where the log was recorded to end, or after the smallest record that can be written: nothing
        follows it."""
        file_end = self._file_end(gap.offset)
        end = min(max(self.floor, gap.offset), file_end)
        if gap.offset < end < gap.offset + LEAST_FILLER:
            end = gap.offset + LEAST_FILLER
        return Filling(gap, file_end if end + MARKER_SIZE > file_end else end, end + MARKER_SIZE > file_end)

    def _add_missing_end(self) -> None:
        """The log ends before a recorded position: what is missing is one more gap for each file."""
        reached = max([self.verdict.end, *(filling.end for filling in self.fillings)])
        while reached < self.floor:
            end = min(self._file_end(reached), self.floor)
            gap = Gap(reached, end, False, self.verdict.records, self.verdict.last_ms, last=True)
            self.fillings.append(self._to_floor(gap))
            reached = self.fillings[-1].end

    # ---- whose bytes they were

    def _assign(self) -> None:
        claims = self._claims()
        self.lost += self._lost_at_the_end(claims)
        self._drop_tail()
        self._close_holes()
        by_queue: dict[QueueKey, list[Lost]] = {}
        for each in sorted(self.lost, key=lambda lost: (lost.topic, lost.queue, lost.first)):
            by_queue.setdefault((each.topic, each.queue), []).append(each)
        open_ends = [self._place_known(key, lost, claims) for key, lost in by_queue.items()]
        # Messages that are known to have been in a gap go first, so that there is room for them.
        for unknown in open_ends:
            least = 0
            for message, low, high in unknown:
                least = max(least, low)
                while least <= high and self._room(self.fillings[least]) < message.least:
                    least += 1
                if least > high:
                    self.homeless += 1
                    least = low
                    continue
                self._widen(self.fillings[least], message.least)
                self.fillings[least].add(message)
        for filling in self.fillings:
            filling.messages.sort(key=lambda message: (message.topic, message.queue, message.queue_offset))

    def _place_known(
        self, key: QueueKey, lost: Sequence[Lost], claims: dict[tuple[str, int, int], int]
    ) -> list[tuple[LostMessage, int, int]]:
        """Places the messages of one queue whose gap is known. Returns the others, each with the first and the last gap in
        which it may have been."""
        rest: list[tuple[LostMessage, int, int]] = []
        least, waiting = 0, 0  # no message of a queue may precede an earlier one; so many of `rest` know no last gap

        def close(last: int) -> None:
            nonlocal waiting
            for at in range(len(rest) - waiting, len(rest)):
                message, low, high = rest[at]
                rest[at] = message, low, min(high, last)
            waiting = 0

        for each in lost:
            low, high = self._span(each)
            least = max(least, low)
            for number, unit in self._units(each):
                message = LostMessage(*key, number)
                known = claims.get((*key, number))
                if known is None:
                    known = self._gap_of(unit)
                if known is None or not least <= known <= high or self._room(self.fillings[known]) < message.least:
                    rest.append((message, least, high))
                    waiting += 1
                    continue
                least = known
                close(known)
                self._widen(self.fillings[known], message.least)
                self.fillings[known].add(message)
            if each.end is not None:
                close(high)
        return rest

    def _gap_of(self, unit: Unit | None) -> int | None:
        """Number of the gap that a unit points into."""
        if unit is None or unit.blank or unit.size <= 0:
            return None
        at = bisect.bisect_right(self.fillings, unit.physical_offset, key=lambda filling: filling.gap.offset) - 1
        return at if at >= 0 and unit.physical_offset < self.fillings[at].end else None

    def _span(self, lost: Lost) -> tuple[int, int]:
        """The first and the last gap in which these messages may have been: between the queue's neighbours that are known."""
        queue = ConsumeQueue(self.layout.root, lost.topic, lost.queue, self.settings.queue_file_units)
        begin, end = lost.begin, lost.end
        if begin is None:
            begin = self._unit_place(queue, lost.first - 1)
        if end is None:
            end = self._unit_place(queue, lost.first + lost.count)
        low = 0
        if begin is not None:
            low = bisect.bisect_right(self.fillings, begin, key=lambda filling: filling.end)
        high = len(self.fillings) - 1
        if end is not None:
            high = bisect.bisect_left(self.fillings, end, key=lambda filling: filling.gap.offset) - 1
        return low, high

    def _unit_place(self, queue: ConsumeQueue, number: int) -> int | None:
        """Where a unit says that its record is, if a good record may be there."""
        seen = self.verdict.queues.get((queue.folder.parent.name, int(queue.folder.name)))
        if seen is None or seen.first is None or not seen.first <= number < seen.next:
            return None
        try:
            unit = queue.peek(number)
        except (OffsetOutOfRange, OSError):
            return None
        inside = 0 < unit.size <= RECORD_MAX and self.verdict.begin <= unit.physical_offset < self.verdict.end
        return unit.physical_offset if inside and self._gap_of(unit) is None else None

    def _room(self, filling: Filling) -> int:
        """Bytes that are left for stand-ins. The last gap may be filled beyond what was recorded: nothing follows it."""
        if filling is not self.fillings[-1] or not filling.gap.last or filling.to_file_end:
            return filling.room
        return self._file_end(filling.gap.offset) - filling.end - MARKER_SIZE + filling.room

    def _widen(self, filling: Filling, least: int) -> None:
        filling.end += max(0, least - filling.room)

    def _claims(self) -> dict[tuple[str, int, int], int]:
        """What the gaps that look like one record say they are: (topic, queue, queue offset) -> number of the gap."""
        claims = {}
        for number, filling in enumerate(self.fillings):
            record = self._read(filling.gap.offset, filling.gap.end) if filling.gap.shaped else None
            if record is not None and record.sys_flag & 0xC in (0, 8):
                claims[record.topic, record.queue_id, record.queue_offset] = number
        return claims

    def _lost_at_the_end(self, claims: dict[tuple[str, int, int], int]) -> Iterator[Lost]:
        """The last messages of a queue: no later message shows that they are missing, and their units may be gone as well."""
        reach = {key: seen.next for key, seen in self.verdict.queues.items()}
        for lost in self.lost:
            reach[lost.topic, lost.queue] = max(reach.get((lost.topic, lost.queue), 0), lost.first + lost.count)
        for (topic, queue, offset), _ in sorted(claims.items(), key=lambda claim: claim[1]):
            if reach.get((topic, queue)) == offset:
                reach[topic, queue] = offset + 1
                yield Lost(topic, queue, offset, 1, None, None)

    def _drop_tail(self) -> None:
        """Messages behind what was certainly on disk are not given up here: recovery cuts them, as after any death."""
        if not self.fillings:
            return
        end = self.fillings[-1].end
        kept = []
        for each in self.lost:
            known = each.count
            if each.end is None:
                units = [unit for _, unit in self._units(each)]
                while known and (unit := units[known - 1]) is not None and unit.size > 0 and unit.physical_offset >= end:
                    known -= 1
            if known:
                kept.append(replace(each, count=known))
        self.lost = kept

    def _close_holes(self) -> None:
        """Messages of which nothing is left, but which lie between lost ones and the next good one, are lost too: without them
        the queue would have a hole, in which consumers get stuck. Units behind the queue's end are wrong themselves if the
        damaged bytes could not have held all messages before them."""
        spans: dict[QueueKey, list[tuple[int, int]]] = {}
        for lost in self.lost:
            spans.setdefault((lost.topic, lost.queue), []).append((lost.first, lost.first + lost.count))
        space = sum(max(0, self._room(filling)) for filling in self.fillings)
        ends: dict[QueueKey, int] = {}
        missing = []
        for key, found in spans.items():
            seen = self.verdict.queues.get(key)
            if seen is not None and (seen.first is not None or seen.next <= min(found)[0]):
                found.append((seen.next if seen.first is None else seen.first, seen.next))
            most = space // LostMessage(*key, 0).least
            reached = None
            for first, end in sorted(found):
                if reached is not None and reached < first:
                    if first - reached > most and seen is not None and reached >= seen.next:
                        ends[key] = reached
                        break
                    if first - reached > LOST_MAX:
                        self.homeless += first - reached
                    else:
                        missing.append(Lost(*key, reached, first - reached, None, None))
                reached = end if reached is None else max(reached, end)
        kept = [lost for lost in self.lost if lost.first < ends.get((lost.topic, lost.queue), NOWHERE)]
        self.lost = kept + missing

    def _units(self, lost: Lost) -> Iterator[tuple[int, Unit | None]]:
        """The queue offsets of lost messages, each with its unit; None if the unit cannot be read."""
        queue = ConsumeQueue(self.layout.root, lost.topic, lost.queue, self.settings.queue_file_units)
        at, end = lost.first, lost.first + lost.count
        while at < end:
            last = min(end, at + UNITS_AT_ONCE, at - at % queue.file_units + queue.file_units)
            try:
                units: Iterable[Unit | None] = queue.units(at, last)
            except (StoreSettingsError, OSError, ValueError):
                units = [self._peek(queue, number) for number in range(at, last)]
            yield from zip(range(at, last), units, strict=True)
            at = last

    def _peek(self, queue: ConsumeQueue, number: int) -> Unit | None:
        """A unit of a file that may have another length."""
        try:
            return queue.peek(number)
        except (OffsetOutOfRange, OSError):
            return None

    def _is_marker(self, filling: Filling) -> bool:
        """True if nothing but the eight bytes at the end of a file's records was damaged: half of them is right, or there is no
        room for a record."""
        if filling.messages or not filling.to_file_end or filling.gap.last or filling.gap.shaped:
            return False
        start = filling.gap.offset - filling.gap.offset % self.settings.log_file_size
        try:
            with self.layout.log_file(start).open("rb", buffering=0) as file:
                at = filling.gap.offset - start + MARKER_SIZE
                found = os.pread(file.fileno(), MARKER_SIZE, filling.gap.offset - start)
                right = BLANK.pack(filling.size, BLANK_MAGIC)
                like = found[:4] == right[:4] or found[4:] == right[4:] or filling.size < LEAST_FILLER
                # A file that holds nothing at all, or cannot be read, has no marker.
                return like and at > MARKER_SIZE and sparse.last_nonzero(file.fileno(), at) == at
        except OSError:
            return False

    def _read(self, offset: int, end: int) -> Record | None:
        start = offset - offset % self.settings.log_file_size
        try:
            with self.layout.log_file(start).open("rb") as file:
                file.seek(offset - start)
                found = parse(file.read(min(end - offset, RECORD_MAX)))
        except OSError:
            return None
        return found if isinstance(found, Record) else None
