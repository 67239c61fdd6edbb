"""Reads a whole store and reports everything that is not as it should be. Changes nothing, takes no lock, disturbs no broker.

The CommitLog is the only truth. It is read once, from its first file to its end (native/check/verify.h), and everything else in
the store is compared with it. How much of the rest must be there depends on who held the store last:

    stopped      everything: queues and index hold exactly what the log has
    running      everything below what is both flushed and indexed; what lies behind is in motion
    died         everything below where the next start would begin to index; a torn tail is a note, and no fault
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from orbitmq.errors import StoreFailed, StoreLocked, StoreSettingsError, StoreUnsupported
from orbitmq.native._core import ffi, lib
from orbitmq.store import abort, index_headers, positions, purged, remake
from orbitmq.store.commit_log.log_scan import queue_key
from orbitmq.store.commit_log.mapped_file import NAME_DIGITS
from orbitmq.store.consume_queue import UNIT_SIZE, ConsumeQueue, queues
from orbitmq.store.layout import StoreLayout
from orbitmq.store.lock import is_held
from orbitmq.store.positions import Recorded
from orbitmq.store.purged import Purged
from orbitmq.store.recovery.recover import next_start
from orbitmq.store.reput_commit import ReputCommit
from orbitmq.store.settings.settings import StoreSettings
from orbitmq.store.verify.file_checks import LogSeen, check_always, check_commits, check_slots, check_stop
from orbitmq.store.verify.finding_text import FindingTexts
from orbitmq.store.verify.findings import Finding, Gap, Kind, Lost, QueueSeen, Verdict

STEP_BYTES = 32 << 20
FINDINGS_AT_ONCE = 1024
INDEX_ENTRY_SIZE, INDEX_SLOT_SIZE = 20, 4
NOWHERE = (1 << 64) - 1
TORN = "it lies behind what was on disk for certain, and the next start of a broker cuts it"

Tell = Callable[[Finding], None]
Progress = Callable[[int, int], None]


def verify(
    layout: StoreLayout, settings: StoreSettings, tell: Tell, progress: Progress | None = None, *, locked: bool = False
) -> Verdict:
    """Reads the store at `layout`, whose files have the sizes of `settings`.

    tell: gets each finding as soon as it is known. progress: gets the number of bytes read, and the total, now and then.
        locked: the caller holds the store's lock.
    Raises:
        StoreUnsupported: there is no store.
        StoreLocked: another program's broker holds it.
        StoreFailed: a broker was started on it meanwhile.
        OSError: a folder cannot be read.
    """
    return _Verification(layout, settings, tell, progress or (lambda done, whole: None), locked).run()


@dataclass(slots=True)
class _Verification:
    """One run; the fields below `began` are filled from top to bottom."""

    layout: StoreLayout
    settings: StoreSettings
    tell: Tell
    progress: Progress
    locked: bool
    began: float = field(default_factory=time.monotonic)
    purged: Purged = field(default_factory=Purged)
    recorded: Recorded | None = None
    commit: ReputCommit | None = None
    running: bool = False
    clean: bool = False
    starts: list[int] = field(default_factory=list)
    begin: int = 0
    end: int = 0  # where reading ends
    indexed: int = NOWHERE  # queues and index hold everything below
    index: list[Path] = field(default_factory=list)  # files that can be relied on
    header: tuple[int, ...] = ()  # which counts for the newest of them, because its own does not
    whole_bytes: int = 0
    held_back: list[Finding] = field(default_factory=list)  # while a broker runs, retention may explain them
    gaps: list[tuple[Gap, Finding]] = field(default_factory=list)  # what lies behind them is not known yet
    damaged: list[Gap] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    faults: Counter[Kind] = field(default_factory=Counter)
    notes: int = 0

    def run(self) -> Verdict:
        self._look()
        self._plan()
        plan, names = self._native_plan()
        verify = lib.verify_open(plan)
        if verify == ffi.NULL:
            raise MemoryError
        try:
            state = self._read(verify)
        finally:
            lib.verify_close(verify)
        del names
        if not self.running and self._is_held():
            raise StoreFailed(
                f"cannot verify the store {self.layout.root}: a broker was started on it meanwhile", hint="verify it again"
            )
        return state

    # ---- what is to be read

    def _look(self) -> None:
        """Who held the store last, and what it says about the log's end."""
        layout = self.layout
        if not layout.commitlog.is_dir():
            raise StoreUnsupported(
                f"cannot verify {layout.root}: it is not a store, it has no folder commitlog",
                hint="give the folder that the broker was started with",
                path=str(layout.root),
            )
        self.running = self._is_held()
        self.purged = purged.load(layout)
        self.recorded = positions.load(layout)
        self.commit = ReputCommit.load(layout)
        order = remake.load(layout)
        if order is not None:
            self.recorded = order.lower(self.recorded)
        stopped = not abort.exists(layout) and order is None
        self.clean = not self.running and stopped and (self.recorded is None or self.recorded.clean)
        self._list_log()
        self.begin = self.starts[0] if self.starts else 0
        self.end = self.starts[-1] + self.settings.log_file_size if self.starts else 0

    def _is_held(self) -> bool:
        return not self.locked and is_held(self.layout)

    def _plan(self) -> None:
        """How far the log is read, and what must be in queues and index."""
        self.index = self._list_index()
        if self.running:
            if self.recorded is None or self.recorded.clean or self.commit is None:
                raise StoreLocked(
                    f"cannot verify the store {self.layout.root}: a program that is not this version of OrbitMQ holds it",
                    hint="stop it first",
                    path=str(self.layout.root),
                    holder=None,
                    pid=None,
                )
            self.end = min(self.recorded.flushed, self.commit.position)
            self.indexed = self.end
            self._trust_commit(self.commit)
        elif not self.clean:
            start = next_start(self.layout, self.settings)
            self.indexed = start.reput
            if start.index is None and self.commit is not None:
                self._trust_commit(self.commit)
            else:
                kept = start.index or ()
                self.index = [path for path in self.index if path in kept]
        most = self.settings.index_entries
        entries = sum(min(most, header.next_entry) for header in index_headers.load(self.layout) if header.path in self.index)
        slots = len(self.index) * self.settings.index_slots
        self.whole_bytes = self.end - self.begin + entries * INDEX_ENTRY_SIZE + slots * INDEX_SLOT_SIZE

    def _trust_commit(self, commit: ReputCommit) -> None:
        """The index counts as far as reput has committed it."""
        newest = commit.index_file
        self.index = [path for path in self.index if newest is not None and path.name <= newest]
        if self.index and self.index[-1].name == newest:
            self.header = commit.header

    def _list_log(self) -> None:
        """Finds the log's files, and names those that do not belong."""
        size = self.settings.log_file_size
        found = set()
        with os.scandir(self.layout.commitlog) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                number = entry.name.isascii() and entry.name.isdigit() and len(entry.name) == NAME_DIGITS
                if not number or int(entry.name) % size or not entry.is_file():
                    self._found(Kind.LOG_FILE, entry.path, f"is not one of the log's files of {size:,} bytes")
                    continue
                length = entry.stat().st_size
                if length != size:
                    self._found(Kind.LOG_FILE, entry.path, f"has {length:,} bytes instead of {size:,}", offset=int(entry.name))
                found.add(int(entry.name))
        self.starts = sorted(found)
        for start in range(self.starts[0], self.starts[-1], size) if self.starts else ():
            if start not in found:
                self._found(Kind.LOG_FILE, str(self.layout.log_file(start)), "is missing", offset=start, size=size)

    def _list_index(self) -> list[Path]:
        """The index files of the right size; names the others."""
        layout, size = self.layout, self.settings.index_file_size
        files = []
        for path in sorted(layout.index.iterdir()) if layout.index.is_dir() else ():
            if not (path.name.isdecimal() and len(path.name) == index_headers.NAME_DIGITS):
                self._found(Kind.INDEX_FILE, str(path), "is not an index file")
                continue
            length = path.stat().st_size
            if length == size:
                files.append(path)
            elif length or not self.running:  # the newest is being made at this moment
                self._found(Kind.INDEX_FILE, str(path), f"has {length:,} bytes instead of {size:,}", damage=self.clean)
        return files

    def _native_plan(self) -> tuple[ffi.CData, ffi.CData]:
        """struct verify_plan, and the array that it points to."""
        settings = self.settings
        plan = ffi.new("struct verify_plan *")
        names = ffi.new("uint64_t[]", [int(path.name) for path in self.index])
        plan.store = os.fsencode(self.layout.root)
        plan.log_file_size = settings.log_file_size
        plan.begin = self.begin
        plan.end = max(self.begin, self.end)
        plan.indexed = self.indexed
        plan.settled = self.clean
        plan.floor = self._floor()
        plan.queue_file_units = settings.queue_file_units
        plan.queues = sum(1 for _ in queues(self.layout.root))
        plan.index_slots = settings.index_slots
        plan.index_entries = settings.index_entries
        plan.index_names = names
        plan.index_count = len(self.index)
        if self.header:
            plan.has_header = True
            plan.header = self.header
        return plan, names

    # ---- reading it

    def _read(self, verify: ffi.CData) -> Verdict:
        texts = FindingTexts(self.layout, self.settings, lambda number: _see_queue(verify, number)[0], self.index)
        state = ffi.new("struct verify_state *")

        def take_findings() -> None:
            found = self._take_findings(verify, texts)
            lib.verify_look(verify, state)
            # Damage is reported before what is lost with it.
            self._release_gaps(state.good_end)
            for finding in found:
                self._tell(finding)
            done = state.offset - self.begin + state.index_bytes
            self.progress(done, max(done, self.whole_bytes))

        while _good(lib.verify_step(verify, STEP_BYTES)) == lib.VERIFY_MORE:
            take_findings()
        take_findings()
        self._check_queue_files(verify, take_findings)
        while _good(lib.verify_rest(verify)) == lib.VERIFY_MORE:
            take_findings()
        take_findings()
        self._judge_end(state.good_end)
        seen = dict(_see_queue(verify, number) for number in range(state.queue_count))
        seen |= {key: self._emptied(key, state.good_end) for key, queue in seen.items() if queue.first is None}
        self._check_small_files(LogSeen(state.good_end, state.last_ms, state.rising_from, seen))
        self._release_held_back()
        return Verdict(
            begin=self.begin,
            end=state.good_end,
            records=state.records,
            last_ms=state.last_ms,
            running=self.running,
            queues=seen,
            faults=dict(self.faults),
            notes=self.notes,
            read_bytes=state.log_bytes + state.queue_bytes + state.index_bytes,
            took_s=time.monotonic() - self.began,
            gaps=tuple(self.damaged),
            lost=tuple(self.lost),
        )

    def _take_findings(self, verify: ffi.CData, texts: FindingTexts) -> list[Finding]:
        """Takes everything found so far; keeps the gaps, and returns the rest."""
        page = ffi.new("struct finding[]", FINDINGS_AT_ONCE)
        rest = []
        while count := lib.verify_findings(verify, page, FINDINGS_AT_ONCE):
            for found in page[0:count]:
                finding = texts.tell(found)
                if found.kind in (lib.FINDING_RECORD, lib.FINDING_UNREADABLE):
                    gap = Gap(
                        found.offset, found.offset + found.size, bool(found.count), found.found, found.expected, last=True
                    )
                    self.gaps.append((gap, finding))
                    continue
                if finding.kind in (Kind.QUEUE_MISSING, Kind.QUEUE_UNIT) and self._deleted(finding):
                    continue
                if found.kind == lib.FINDING_LOST:
                    self.lost.append(_lost(finding, found))
                rest.append(finding)
        return rest

    def _deleted(self, finding: Finding) -> bool:
        """True if the units belong to a topic that was deleted, whose files went with the next start."""
        assert finding.topic is not None and finding.queue is not None and finding.first is not None
        end = finding.first + (finding.count or 0)
        return finding.topic in self.purged.deleted or end <= self.purged.ends.get(finding.topic, {}).get(finding.queue, 0)

    def _release_gaps(self, good_end: int) -> None:
        """Reports the gaps that something good follows; the others may lie behind the end of the log."""
        for gap, finding in self.gaps:
            if gap.offset < good_end:
                self.damaged.append(replace(gap, last=False))
                self._tell(finding)
        self.gaps = [(gap, finding) for gap, finding in self.gaps if gap.offset >= good_end]

    def _floor(self) -> int:
        """The log was certainly on disk up to here."""
        recorded = self.recorded
        return self.end if self.running else 0 if recorded is None else max(recorded.flushed, recorded.wrote)

    def _judge_end(self, good_end: int) -> None:
        """Reports what lies behind the last good record, and whether the log should have gone on."""
        floor = self._floor()
        for gap, finding in self.gaps:
            # A kill may leave a torn record there.
            if gap.offset >= floor and not self.clean and not self.running:
                self._tell(replace(finding, kind=Kind.LOG_TAIL, text=f"{finding.text}; {TORN}", damage=False))
            else:
                self.damaged.append(gap)
                self._tell(finding)
        reached = max([good_end, *(gap.end for gap, _ in self.gaps)])
        if reached < floor:
            text = f"the log ends at {reached:,}, and was recorded to be on disk up to {floor:,}"
            path = str(self.layout.log_file(reached - reached % self.settings.log_file_size))
            self._found(Kind.LOG_SHORT, path, text, offset=reached, size=floor - reached)

    def _check_queue_files(self, verify: ffi.CData, take_findings: Callable[[], None]) -> None:
        """Checks names of folders and files, their sizes, and units without a record."""
        if not self.layout.consumequeue.is_dir():
            return
        for topic in sorted(self.layout.consumequeue.iterdir()):
            for folder in sorted(topic.iterdir()) if topic.is_dir() else [topic]:
                if not folder.is_dir() or not folder.name.isdecimal():
                    self._found(Kind.QUEUE_FILE, str(folder), "is not the folder of a queue")
                    continue
                name = os.fsencode(topic.name)
                for first in self._list_queue(folder):
                    units = self.settings.queue_file_units
                    _good(lib.verify_units(verify, name, len(name), int(folder.name), first, units))
                take_findings()

    def _list_queue(self, folder: Path) -> list[int]:
        """First queue offsets of a queue's files; names files that do not belong, and what is missing between them."""
        size = UNIT_SIZE * self.settings.queue_file_units
        firsts = []
        for path in sorted(folder.iterdir()):
            number = path.name.isascii() and path.name.isdigit() and len(path.name) == NAME_DIGITS
            if not number or int(path.name) % size:
                self._found(Kind.QUEUE_FILE, str(path), f"is not one of the queue's files of {size:,} bytes")
                continue
            length = path.stat().st_size
            if length not in (size, 0):  # 0: made by a process that died before it gave it a length; nothing is in it
                self._found(Kind.QUEUE_FILE, str(path), f"has {length:,} bytes instead of {size:,}")
            firsts.append(int(path.name) // UNIT_SIZE)
        for first in range(firsts[0], firsts[-1], self.settings.queue_file_units) if firsts else ():
            if first not in firsts:
                self._found(Kind.QUEUE_FILE, str(folder / f"{first * UNIT_SIZE:020d}"), "is missing")
        return firsts

    def _emptied(self, key: tuple[str, int], log_end: int) -> QueueSeen:
        """A queue of which the log has no record: it continues where its units say, as at the start of a broker."""
        queue = ConsumeQueue(self.layout.root, *key, self.settings.queue_file_units)
        try:
            return QueueSeen(None, queue.extent(self.begin, log_end).max_offset)
        except (StoreSettingsError, OSError):
            return QueueSeen(None, queue.used(log_end))

    def _check_small_files(self, log: LogSeen) -> None:
        found: list[Finding] = []
        if not self.running and not abort.exists(self.layout):
            found += check_slots(self.layout)
        if not self.running:
            found += check_commits(self.layout, clean=self.clean)
        if self.clean:
            found += check_stop(self.layout, log, self.recorded, self.commit, self.index[-1] if self.index else None)
        for finding in [*found, *check_always(self.layout, log, running=self.running)]:
            self._tell(finding)

    # ---- telling

    def _found(self, kind: Kind, path: str, text: str, *, damage: bool = True, **place: int) -> None:
        self._tell(Finding(kind, path, text, damage=damage, **place))  # type: ignore[arg-type]

    def _tell(self, finding: Finding) -> None:
        if self.running:
            self.held_back.append(finding)
        else:
            self._tell_now(finding)

    def _tell_now(self, finding: Finding) -> None:
        if finding.damage:
            self.faults[finding.kind] += 1
        else:
            self.notes += 1
        self.tell(finding)

    def _release_held_back(self) -> None:
        """What a running broker's retention has removed meanwhile is no fault."""
        names = [path.name for path in self.layout.commitlog.iterdir()] if self.held_back else []
        begin = min((int(name) for name in names if name.isdigit()), default=0)
        for finding in self.held_back:
            place = finding.offset
            if not (begin > self.begin and place < begin if place is not None else _went(Path(finding.path))):
                self._tell_now(finding)


def _went(path: Path) -> bool:
    """True for a file that is gone together with all that came before it: that is how retention removes them."""
    if os.path.lexists(path):
        return False
    left = (other.name for other in path.parent.iterdir()) if path.parent.is_dir() else ()
    return all(name > path.name for name in left)


def _good(result: int) -> int:
    if result == lib.VERIFY_FAILED:
        raise MemoryError
    return result


def _lost(finding: Finding, found: ffi.CData) -> Lost:
    assert finding.topic is not None and finding.queue is not None
    span = (found.offset - found.size, found.offset) if found.offset else (None, None)
    return Lost(finding.topic, finding.queue, found.first, found.count, *span)


def _see_queue(verify: ffi.CData, number: int) -> tuple[tuple[str, int], QueueSeen]:
    queue = ffi.new("struct verify_queue *")
    assert lib.verify_see_queue(verify, number, queue)
    return queue_key(queue.name), QueueSeen(queue.first if queue.seen else None, queue.next)
