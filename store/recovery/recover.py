"""Opens a store: finds out how its last life ended and where its log ends, and makes everything else agree with that.

The order matters, because recovery may itself be killed at any point and then starts again:

    1  the log is scanned                   nothing is changed
    2  `abort` is made                      from here on the store does not look cleanly stopped
    3  the log is written again and synced  what was not flushed: its last sync may have failed
    4  what lies behind its end is cut      kept first, then zeroed and synced
    5  the checkpoint is lowered to what exists
    6  queues and index lose what points past the end
    7  the place from which times rise is recorded, and the log's end as flushed
    8  what groups have committed is taken in (commits.py), and offsets past the end of their queues are lowered

Each step depends only on what is on disk, so doing it again changes nothing. If the log is damaged below the recorded flushed
position, the other steps are left out and the store opens for reading only. docs/recovery.md has the details.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from orbitmq.errors import CorruptRecord, StoreError
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import QueueKey
from orbitmq.store import abort, atomic_file, commits, index_headers, positions, remake, rising
from orbitmq.store.checkpoint import Checkpoint
from orbitmq.store.commit_log import mapped_file
from orbitmq.store.commit_log.log_scan import LogScan, scan_log
from orbitmq.store.commit_log.record import Fault, Record, parse
from orbitmq.store.consume_queue import Extent
from orbitmq.store.index_headers import IndexHeader
from orbitmq.store.layout import StoreLayout
from orbitmq.store.note import Note
from orbitmq.store.positions import Positions, Recorded
from orbitmq.store.recovery import kept_config, log_rewrite, lone_commit
from orbitmq.store.recovery import queues as queue_recovery
from orbitmq.store.recovery.fallbacks import fallbacks
from orbitmq.store.recovery.log_cut import cut_after, find_tail, set_aside
from orbitmq.store.recovery.report import Cut, Damage, NextStart, QueueState, RecoveryReport
from orbitmq.store.recovery.table import PLANS, Anchor, Ending, Mark, Plan, ending
from orbitmq.store.reput_commit import ReputCommit
from orbitmq.store.settings.settings import StoreSettings
from orbitmq.store.unsynced import Doubt, Unsynced
from orbitmq.store.unsynced import load as load_doubt
from orbitmq.store.work import files as work_files

Progress = Callable[[str], None]


def recover(layout: StoreLayout, settings: StoreSettings, progress: Progress, *, read_only: bool = False) -> RecoveryReport:
    """Makes the store ready to be opened. The caller holds its lock and has called layout.open.

    progress: gets a line now and then if this takes long. read_only: look, and change nothing but the positions of groups.
        Nothing is indexed then either, so messages that no queue has yet cannot be read.
    Raises:
        CorruptRecord: a log file is missing; has .offset.
        StoreSettings: files of another size, or foreign ones.
        StoreFailed, OSError: something cannot be read, or written.
    """
    # The notes are taken before anything is written, because the replacement of a damaged file will soon have its name.
    return _Recovery(layout, settings, progress, read_only, notes=fallbacks(layout)).run()


def next_start(layout: StoreLayout, settings: StoreSettings) -> NextStart:
    """For what the queues and index of a store without a broker can be relied on. Reads signs only, and changes nothing.
    Nothing can be relied on if files of the store are not what they should be."""
    recovery = _Recovery(layout, settings, lambda line: None, read_only=True)
    try:
        how = recovery._look()
    except StoreError:
        how = Ending.EMPTY
    if how is Ending.EMPTY:
        return NextStart(recovery.begin, ())
    plan = PLANS[how]
    if plan.trust_index:
        return NextStart(recovery._oldest(plan.reput, recovery.index), None)
    doubtful = recovery._doubtful_index()
    whole = [header for header in recovery.index if header not in doubtful]
    return NextStart(recovery._oldest(plan.reput, whole), tuple(header.path for header in whole))


@dataclass(slots=True)
class _Recovery:
    """One run; the fields below `read_only` are filled from top to bottom."""

    layout: StoreLayout
    settings: StoreSettings
    progress: Progress
    read_only: bool
    began: float = field(default_factory=time.monotonic)
    starts: list[int] = field(default_factory=list)
    recorded: Recorded | None = None
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    reput: ReputCommit | None = None
    order: remake.Order | None = None
    doubt: Doubt = field(default_factory=Doubt)
    unsynced: Unsynced | None = None
    queues: dict[QueueKey, Extent] = field(default_factory=dict)
    index: list[IndexHeader] = field(default_factory=list)
    rising_from: int = 0
    notes: tuple[Note, ...] = ()
    damage: Damage | None = None
    cuts: list[Cut] = field(default_factory=list)
    indexed: bool = False  # it is read-only because it is damaged, and not because somebody asked for that

    @property
    def file_size(self) -> int:
        return self.settings.log_file_size

    @property
    def begin(self) -> int:
        return self.starts[0] if self.starts else 0

    @property
    def allocated(self) -> int:
        return self.starts[-1] + self.file_size if self.starts else 0

    def run(self) -> RecoveryReport:
        try:
            return self._run()
        finally:
            if self.unsynced is not None:
                self.unsynced.close()

    def _run(self) -> RecoveryReport:
        how = self._look()
        if how is Ending.EMPTY:
            return self._open_empty()
        plan = PLANS[how]
        whole_index, reput, scan = self._read(plan)
        if self._refutes_checkpoint(scan):
            self.checkpoint = Checkpoint()
            whole_index, reput, scan = self._read(plan)
        floor = self.recorded.flushed if self.recorded else 0
        if scan.end < floor:
            return self._open_damaged(how, scan, reput)
        if not self.read_only:
            abort.create(self.layout)
            self.unsynced = Unsynced(self.layout)
            if self.order is not None:
                Checkpoint().store(self.layout)
        crash_point("recovery_began")
        scan = self._write_again(how, scan)
        crash_point("recovery_written_again")
        self._cut(scan)
        crash_point("recovery_cut")
        # An index that reaches past the end would return messages that no longer exist, and later wrong ones.
        beyond = [header for header in whole_index if not header.empty and header.end_offset >= scan.end]
        beyond_reput = self.reput is not None and self.reput.indexed > scan.end
        lost = self._lost_index()
        if beyond or beyond_reput or lost is not None:
            # If a file is gone, another program made the later ones, and may have left records out.
            kept = [header for header in whole_index if header not in beyond and (lost is None or header.path.name < lost)]
            whole_index = [] if beyond_reput else kept
            reput = min(reput, self._anchor(Anchor.INDEX, whole_index))
        self._lower_checkpoint(whole_index, reput)
        crash_point("recovery_checkpoint_lowered")
        removed = [header for header in self.index if header not in whole_index]
        keep_commit = how in (Ending.STOPPED, Ending.KILLED) and not removed and lost is None
        self._remove_index(removed, keep_commit=keep_commit)
        crash_point("recovery_index_removed")
        if self.order is not None and not self.read_only:
            units = self.settings.queue_file_units
            self.queues |= remake.take_units(self.layout, units, self.order, scan.next_offsets.keys())
        self._cut_queues(scan, reput, how)
        crash_point("recovery_queues_cut")
        store_ms = self._last_store_ms(scan)
        self._settle_rising(scan)
        self._record(scan.end, store_ms)
        crash_point("recovery_recorded")
        if self.order is not None and not self.read_only:
            remake.done(self.layout)
        return self._report(how, scan, min(reput, scan.end), store_ms, removed)

    def _read(self, plan: Plan) -> tuple[list[IndexHeader], int, LogScan]:
        """The index files that can be believed, the place where indexing begins, and the scanned log."""
        # Index files that are not believed count as gone when the anchors are computed.
        doubtful = [] if plan.trust_index else self._doubtful_index()
        whole_index = [header for header in self.index if header not in doubtful]
        # Keys may have to be indexed again from far back. That needs no scan, because the queues' ends do not depend on it.
        queued = tuple(anchor for anchor in plan.reput if anchor is not Anchor.INDEX)
        scan = self._scan(self._oldest(plan.scan + queued, whole_index))
        return whole_index, self._oldest(plan.reput, whole_index), scan

    def _refutes_checkpoint(self, scan: LogScan) -> bool:
        """True if the checkpoint claims that records were on disk which are later than any that exist: it is damaged, or
        another log's. No record below the recorded flushed position is later than the time recorded with it."""
        newest = max(scan.last_ms, self.recorded.store_ms if self.recorded else 0)
        return 0 < newest < self.checkpoint.physic_ms

    def _look(self) -> Ending:
        """Reads every sign, and changes nothing."""
        layout = self.layout
        if not self.read_only:
            mapped_file.clear_leftovers(layout)
        self.starts = mapped_file.list_starts(layout, self.file_size)
        self.recorded = positions.load(layout)
        self.doubt = load_doubt(layout)
        self.checkpoint = Checkpoint.load(layout)
        self.reput = ReputCommit.load(layout)
        self.index = index_headers.load(layout)
        self.queues = queue_recovery.measure(layout, self.settings.queue_file_units, self.begin)
        mark = Mark.NONE
        if self.recorded is not None:
            # A clean mark beside an `abort` of OrbitMQ's: that life ended before the mark turned dirty, or after it turned
            # clean.
            begun = abort.boot(layout) if self.recorded.clean else self.recorded.boot
            same = begun == positions.boot_id()
            mark = Mark.CLEAN if begun is None else Mark.SAME_BOOT if same else Mark.OTHER_BOOT
        self.order = remake.load(layout)
        if self.order is not None and self.starts:
            self.recorded = self.order.lower(self.recorded)
            self.checkpoint, self.reput = Checkpoint(), None
            return Ending.POWER_CUT
        signs = (abort.exists(layout), mark, self.reput is not None)
        return ending(signs, bool(self.starts), unsynced=self.doubt.queues)

    def _oldest(self, anchors: tuple[Anchor, ...], index: list[IndexHeader]) -> int:
        return min(self._anchor(anchor, index) for anchor in anchors)

    def _anchor(self, anchor: Anchor, index: list[IndexHeader]) -> int:
        """The physical offset of an anchor, limited to the log that exists. If reput's commit is not known, the other anchors
        decide; any other unknown anchor is the beginning."""
        known: dict[Anchor, Callable[[], int]] = {
            Anchor.BEGIN: lambda: self.begin,
            Anchor.THIRD_LAST: lambda: self.starts[-3:][0],
            Anchor.CHECKPOINT: self._checkpoint_file,
            Anchor.FLUSHED: lambda: self.recorded.flushed if self.recorded else self.begin,
            Anchor.WROTE: lambda: self.recorded.wrote if self.recorded else self.begin,
            Anchor.REPUT: lambda: self.allocated if self.reput is None else self.reput.position,
            Anchor.QUEUES: lambda: max((queue.physical_end for queue in self.queues.values()), default=self.begin),
            Anchor.INDEX: lambda: self._behind_index(index),
        }
        return min(max(known[anchor](), self.begin), self.allocated)

    def _checkpoint_file(self) -> int:
        """Start of the newest file whose first record was stored before everything that may not be on disk."""
        for start in reversed(self.starts) if self.checkpoint.threshold_ms else ():
            first = self._record_at(start)
            if first is not None and 0 < first.store_ms <= self.checkpoint.threshold_ms:
                return start
        return self.begin

    def _behind_index(self, index: list[IndexHeader]) -> int:
        """The end of the last record that the newest of these files indexes."""
        if not index or not self.begin <= index[-1].end_offset < self.allocated:
            return self.begin
        last = self._record_at(index[-1].end_offset)
        return self.begin if last is None else last.physical_offset + last.size

    def _record_at(self, offset: int) -> Record | None:
        start = offset - offset % self.file_size
        with self.layout.log_file(start).open("rb") as file:
            file.seek(offset - start)
            found = parse(file.read(self.settings.message_max + (64 << 10)))
        return found if isinstance(found, Record) and found.physical_offset == offset else None

    def _doubtful_index(self) -> list[IndexHeader]:
        """Index files that may be torn. The newest always may, whatever its header says, unless it is full: slots that were
        written after the last sync can name entries that the header does not count.

        If one file may be torn, all later ones are removed too, and keys are indexed again from the end of those that stay. If
        several files end in the same millisecond, the checkpoint means the first. Retention may have removed that one, so
        a file that begins in that millisecond may be a later one."""
        for number, header in enumerate(self.index):
            newest = header is self.index[-1] and header.next_entry < self.settings.index_entries
            vouched = header.end_ms <= self.checkpoint.index_ms and header.begin_ms < self.checkpoint.index_ms
            if header.empty or newest or not vouched:
                return self.index[number:]
        return []

    def _lower_checkpoint(self, whole_index: list[IndexHeader], reput: int) -> None:
        """Withdraws, durably, claims about queues and index files that are not there. They are made anew, and until they are
        synced a power cut must not find them vouched for."""
        index_ms = max((header.end_ms for header in whole_index), default=0)
        lowered = self.checkpoint._replace(
            # Queues may have been synced ahead of a log that is lost. Only the lower of the two times counts anyway.
            logics_ms=min(self.checkpoint.logics_ms, self.checkpoint.physic_ms),
            index_ms=min(self.checkpoint.index_ms, index_ms),
        )
        # Queues in doubt are cut at `reput`, and nothing else says how far back that is if this start is killed meanwhile.
        queued = reput if self.doubt.queues else self._anchor(Anchor.QUEUES, [])
        if queued < self._checkpoint_file():
            lowered = lowered._replace(logics_ms=0)
        if not self.read_only and lowered != Checkpoint.load(self.layout):
            lowered.store(self.layout)

    def _lost_index(self) -> str | None:
        """Name of the index file that reput wrote last, if it is missing. Retention never removes the newest one."""
        name = self.reput.index_file if self.reput is not None else None
        return name if name is not None and all(header.path.name != name for header in self.index) else None

    def _scan(self, start: int) -> LogScan:
        """Scans from `start`. If nothing good is there, scans again from the beginning of its file, because an anchor may be
        wrong.
        """
        shown = time.monotonic()

        def show(offset: int) -> None:
            nonlocal shown
            if time.monotonic() - shown > 0.5:
                shown = time.monotonic()
                self.progress(f"read the log up to {offset:,} of at most {self.allocated:,} bytes")

        found = scan_log(self.layout, self.file_size, start, show)
        floor = self.recorded.flushed if self.recorded else 0
        suspect = found.fault.damage or found.end < floor
        if ((suspect and found.records == 0) or found.headless) and start % self.file_size:
            start -= start % self.file_size  # an atomic batch lies in one file
            found = scan_log(self.layout, self.file_size, start, show)
        if found.end < floor <= found.fault_at:  # a repair has cut the log there: what was flushed before the cut is kept
            found = scan_log(self.layout, self.file_size, start, show, parts=True)
        return lone_commit.without(found, self._record_at)

    def _cut(self, scan: LogScan) -> None:
        why = f"the record there {scan.fault.text}" if scan.fault.damage else "something lies behind the end of the log"
        if scan.end < scan.fault_at:
            why = f"an atomic batch or a commit begins there of which the end is missing; at {scan.fault_at} the log ends"
        if self.read_only:
            size = find_tail(self.layout, self.file_size, self.starts, scan.end)
            self.cuts = [Cut(scan.end, size, f"{why}; the store is open for reading only", None)] if size else []
            return
        # What a repair was told to give up may be more than a crash can leave.
        ordered = self.order is not None and self.order.cut is not None
        keep_max = self.file_size if ordered else None
        unsynced, zeroed, cutting = self.unsynced, self.doubt.tail, False
        assert unsynced is not None

        def zeroing(end: int) -> None:
            nonlocal cutting
            cutting = True
            unsynced.raise_tail(max(end, zeroed))

        self.starts, self.cuts = cut_after(self.layout, self.file_size, self.starts, scan.end, why, keep_max, zeroing)
        if zeroed > scan.end:
            log_rewrite.zero_again(self.layout, self.file_size, self.starts, scan.end, zeroed)
        if cutting or zeroed:
            unsynced.lower_tail()

    def _remove_index(self, removed: list[IndexHeader], *, keep_commit: bool) -> None:
        if self.read_only:
            return
        for header in removed:
            header.path.unlink()
        if removed:
            atomic_file.sync_folder(self.layout.index)
        # reput rolls the index back to its commit. If the index is not the one that it knew, there is nothing to roll back.
        if not keep_commit and self.layout.reput.exists():
            self.layout.reput.unlink()
            atomic_file.sync_folder(self.layout.own)

    def _cut_queues(self, scan: LogScan, reput: int, how: Ending) -> None:
        if self.read_only:
            return
        unsynced, raised = self.unsynced, self.doubt.queues
        assert unsynced is not None

        def cutting() -> None:
            nonlocal raised
            if not raised:
                unsynced.raise_queues()
            raised = True

        units = self.settings.queue_file_units
        holes = not PLANS[how].trust_index
        if holes:
            logged, whole = scan.next_offsets.keys(), scan.start == 0
            self.queues |= queue_recovery.drop_headless(self.layout, units, self.queues, logged, reput, cutting, whole=whole)
        # What a failed sync may have left out is not made anew in its place: ext4 would not mark the blocks as written. However
        # the last life ended: the machine may have kept its memory even where that is not certain.
        again = raised
        bounds = self.begin, min(reput, scan.end) if again else scan.end
        self.queues |= queue_recovery.cut(self.layout, units, self.queues, *bounds, cutting, holes=holes, again=again)
        # reput writes again whatever else is in doubt, and its commit says how far it has come.
        if raised:
            unsynced.lower_queues()

    def _last_store_ms(self, scan: LogScan) -> int:
        return max(scan.last_ms, self.recorded.store_ms if self.recorded else 0)

    def _settle_rising(self, scan: LogScan) -> None:
        """Done before the end is recorded. Otherwise what another program has appended would lie below a flushed position of
        OrbitMQ's while the file still describes the log without it."""
        self.rising_from = rising.settle(rising.load(self.layout), self.recorded, scan)
        if not self.read_only:
            rising.store(self.layout, self.rising_from)
            crash_point("recovery_rising_settled")

    def _write_again(self, how: Ending, scan: LogScan) -> LogScan:
        """Makes the log durable up to its end. What the last life had not flushed is written again: its sync may have failed,
        which memory does not show. Then it is read once more, because the kernel was free to drop it before it was written."""
        # If nothing of OrbitMQ's is recorded, what RocketMQ says it has synced is believed; if RocketMQ stopped cleanly, all of
        # it.
        unknown = scan.start if how is Ending.OTHER_DIED else scan.end
        floor = max(self.recorded.flushed if self.recorded else unknown, self.begin)
        if self.read_only or floor >= scan.end:
            return scan
        log_rewrite.sync_again(self.layout, self.file_size, self.starts, floor, scan.end)
        again = scan_log(self.layout, self.file_size, max(floor, scan.start))
        return scan if again.end == scan.end else self._scan(scan.start)

    def _record(self, end: int, store_ms: int) -> None:
        """Records that the log is durable up to its end."""
        if self.read_only:
            return
        record = Positions(self.layout)
        record.record(end, store_ms)
        record.sync()
        record.close()

    def _report(self, how: Ending, scan: LogScan, reput: int, store_ms: int, removed: list[IndexHeader]) -> RecoveryReport:
        queues = self._queue_states(scan)
        if self.read_only and not self.indexed:
            reput, units = scan.end, self.settings.queue_file_units
            queues, notes = queue_recovery.as_they_are(self.layout, units, queues, self.begin, scan.end, scan.next_offsets)
            self.notes += tuple(Note(text) for text in notes)
        # A store that is opened for reading only has groups that read it, and keeps their offsets.
        settled = commits.settle(self.layout)
        ends = {(state.topic, state.queue): state.next_offset for state in queues}
        if not self.read_only:
            work_files.trim(self.layout, ends)
            work_files.settle(self.layout)
            work_files.keep_only(self.layout, kept_config.topics(self.layout, queues))
        lowered = kept_config.lower_offsets(self.layout, ends, 0 if how is Ending.EMPTY else None, read_only=self.read_only)
        return RecoveryReport(
            ending=how,
            begin=self.begin,
            end=scan.end,
            flushed=scan.end if self.damage is None else min(scan.end, self.damage.offset),
            reput=reput,
            allocated=self.allocated,
            last_store_ms=store_ms,
            rising_from=self.rising_from,
            scanned_from=scan.start,
            records=scan.records,
            queues=queues,
            missing_topics=kept_config.missing_topics(self.layout, queues),
            cuts=tuple(self.cuts),
            lowered=lowered,
            notes=(*self.notes, *settled.notes),
            removed_index_files=tuple(header.path.name for header in removed),
            damage=self.damage,
            read_only=self.read_only,
            took_ms=int((time.monotonic() - self.began) * 1000),
        )

    def _queue_states(self, scan: LogScan) -> tuple[QueueState, ...]:
        states = []
        for key in sorted(self.queues.keys() | scan.next_offsets.keys()):
            held = self.queues.get(key, Extent(0, 0, 0))
            following = max(held.max_offset, scan.next_offsets.get(key, 0))
            states.append(QueueState(*key, held.min_offset, held.max_offset, following, held.physical_end))
        return tuple(states)

    def _open_empty(self) -> RecoveryReport:
        """There is no log file. Queues and index without a log are set aside: their offsets mean nothing to the log that begins
        now.

        Raises: CorruptRecord: there was a log.
        """
        recorded = self.order.lower(self.recorded) if self.order is not None else self.recorded
        if recorded is not None and recorded.flushed > 0:
            raise CorruptRecord(
                f"cannot open the store {self.layout.root}: its log, {recorded.flushed:,} bytes, is gone",
                hint="put commitlog back from a backup, or begin in another folder",
                offset=0,
                path=str(self.layout.commitlog),
            )
        cuts = []
        if not self.read_only:
            abort.create(self.layout)
            cuts = set_aside(self.layout)
            self.layout.reput.unlink(missing_ok=True)
            rising.store(self.layout, 0)
            self._record(0, 0)
            if self.order is not None:
                remake.done(self.layout)
        self.queues, self.cuts = {}, cuts
        nothing = LogScan(0, 0, Fault.END, 0, 0, 0, {})
        return self._report(Ending.EMPTY, nothing, 0, self._last_store_ms(nothing), [])

    def _open_damaged(self, how: Ending, scan: LogScan, reput: int) -> RecoveryReport:
        """The log ends before what was on disk. Nothing is touched, so that it can be repaired."""
        start = scan.fault_at - scan.fault_at % self.file_size
        self.damage = Damage(scan.fault_at, scan.fault.text, str(self.layout.log_file(start)))
        self.indexed, self.read_only = not self.read_only, True
        # Nobody appends, and what can be read lies below the flushed position.
        known = rising.load(self.layout)
        self.rising_from = scan.end if known is None else known
        return self._report(how, scan, min(reput, scan.end), self._last_store_ms(scan), [])
