"""Repairs a store: says about every fault that verify finds what is to be done, and does it on request.

The CommitLog is the only truth, so everything else is made anew from it. What is damaged in the log itself cannot be restored,
and the user has to choose:

    skip   every damaged part is filled with records that stand in for what was lost; everything good stays
    cut    the log ends before the first damage; what follows is set aside

Because of this order, a repair can be killed anywhere and started again:

    1  the order to remake is given           from here on only the log is believed (store/remake.py)
    2  damaged bytes of the log are filled    as the order says, with all that the queues knew about them
                                              (store/fill_plan.py)
    3  files that do not belong are set aside, config files are restored
    4  recovery, then reput, in this process  as at the start of a broker
    5  the store is marked as cleanly stopped

A cut gives its order first: a log that is shorter than was recorded must not look damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from orbitmq.errors import CorruptRecord, StoreFailed, StoreSettingsError, StoreUnsupported
from orbitmq.errors.remedy import hint
from orbitmq.shm.crash_point import crash_point
from orbitmq.store import abort, atomic_file, commits, positions, remake
from orbitmq.store.checkpoint import Checkpoint
from orbitmq.store.consume_queue import ConsumeQueue, queues
from orbitmq.store.fill_plan import Stretch
from orbitmq.store.layout import StoreLayout
from orbitmq.store.recovery.log_cut import cut_after, free_name
from orbitmq.store.recovery.recover import recover
from orbitmq.store.repair.choice import Choice, Loss
from orbitmq.store.repair.config import ConfigDeed, offsets_of, plan_config
from orbitmq.store.repair.deed import OF_LOG, Deeds
from orbitmq.store.repair.log import LogRepair, is_log_file
from orbitmq.store.repair.log_damage import Filling, LogDamage
from orbitmq.store.repair.reindex import reindex
from orbitmq.store.reput_commit import ReputCommit
from orbitmq.store.settings.settings import StoreSettings
from orbitmq.store.stand_in import renumber
from orbitmq.store.verify.findings import Finding, Gap, Kind, Lost, QueueSeen, Verdict
from orbitmq.store.verify.verify import verify

Progress = Callable[[str, int, int], None]  # what is done, bytes done, of how many

# Faults that disappear when everything is made again from an intact log.
_REBUILDABLE = frozenset(Kind) - OF_LOG - {Kind.LOG_FILE, Kind.MESSAGE_LOST, Kind.QUEUE_GAP, Kind.QUEUE_OFFSET}
NOWHERE = (1 << 64) - 1
# Faults whose repair depends on nothing else.
_SMALL = frozenset({Kind.CONFIG, Kind.COMMITS, Kind.CHECKPOINT, Kind.RISING})


@dataclass(slots=True)
class Repair:
    """One repair of a store whose lock the caller holds. Call survey first; its results are in the fields."""

    layout: StoreLayout
    settings: StoreSettings
    choice: Choice = Choice.NONE
    progress: Progress = lambda what, done, whole: None
    findings: list[Finding] = field(default_factory=list)
    verdict: Verdict | None = None
    _damage: LogDamage | None = None
    _config: list[ConfigDeed] = field(default_factory=list)
    _renumbered: list[tuple[int, int]] = field(default_factory=list)  # (physical offset, right queue offset)
    _explained: list[Finding] = field(default_factory=list)  # gaps of queues that a renumbered record fills
    _first: int | None = None  # place of the first damage that the user has to decide about
    _markers: set[int] = field(default_factory=set)  # places where only a blank marker is damaged
    _unfinished: bool = False
    _filling: bool = False  # an earlier repair has begun to fill, which is finished first
    _died: bool = False

    # ---- what there is to do

    def survey(self) -> None:
        """Reads the whole store, and changes nothing. Raises: as verify; StoreSettingsError: no log file has its size."""
        self._refuse_other_sizes()
        self._unfinished = remake.pending(self.layout)
        self._died = abort.exists(self.layout) and self.layout.positions.exists()
        order = remake.load(self.layout) or remake.Order()
        self._filling = bool(order.fill)
        recorded = order.lower(positions.load(self.layout))
        floor = 0 if recorded is None else max(recorded.flushed, recorded.wrote)
        commit = ReputCommit.load(self.layout)
        if recorded is None and commit is not None and not self._died and order.cut is None:
            floor = commit.position
        self.findings.clear()
        self.verdict = self._verify(self.findings.append)
        short = any(finding.kind is Kind.LOG_SHORT for finding in self.findings)
        self._damage = LogDamage.measure(self.layout, self.settings, self.verdict, floor, self._beyond() if short else [])
        if not any(finding.damage and finding.kind in OF_LOG for finding in self.findings):
            self._damage.fillings = []
        self._judge_emptied()
        self._judge_misplaced()
        self._first = self._first_serious()
        self._markers = {filling.gap.offset for filling in self._measured().fillings if filling.marker}
        self._judge_ends()
        self._config = plan_config(self.layout, self.verdict)

    @property
    def needed(self) -> bool:
        """True if there is anything to do."""
        return self.unfinished or any(finding.damage for finding in self.findings)

    @property
    def unfinished(self) -> bool:
        """True if an earlier repair was interrupted, or a broker died: what its next start would do is done now."""
        return self._unfinished or self._died

    @property
    def undecided(self) -> bool:
        """True if the log is damaged, and the user has not chosen what to do about that."""
        return self.choice is Choice.NONE and self._cut_at() is not None

    def loss(self, choice: Choice) -> Loss | None:
        """What a choice would give up; None if no choice is needed, or this one cannot help."""
        at, damage = self._cut_at(), self._measured()
        if at is None or choice is Choice.NONE:
            return None
        messages = damage.messages
        if choice is Choice.SKIP:
            return Loss(messages, 0, sum(filling.size for filling in damage.serious)) if self.obstacle is None else None
        verdict = self._seen()
        first = damage.serious[0].gap if damage.serious and damage.serious[0].gap.offset == at else None
        end = max([verdict.end, *(filling.end for filling in damage.fillings)])
        records = verdict.records - first.records_before if first is not None and first.records_before >= 0 else None
        return Loss(messages, records, end - at)

    @property
    def obstacle(self) -> str | None:
        """Why the damage cannot be skipped. None: it can."""
        damage = self._measured()
        if gaps := self._gaps_without_bytes():
            return f"the log has no damaged bytes in which something could stand in for what is missing at {gaps[0].offset:,}"
        if damage.homeless:
            return f"there is not room for what would have to stand in for {damage.homeless:,} of the lost messages"
        for filling in damage.fillings:
            if not filling.fits:
                return f"the {filling.size:,} damaged bytes at {filling.gap.offset:,} are too few for a record"
        return None

    def deed(self, finding: Finding) -> str:
        """What is done about one finding, in a sentence."""
        deeds = Deeds(
            cut_folder=self.layout.cut,
            log_file_size=self.settings.log_file_size,
            choice=self.choice,
            undecided=self.undecided,
            cut_at=self._cut_at(),
            filling=self._filling,
            markers=self._markers,
            renumbered=dict(self._renumbered),
            explained=self._explained,
            config=self._config,
        )
        return deeds.of(finding)

    # ---- doing it

    def carry_out(self) -> Verdict:
        """Does what survey has planned, and verifies the store. Changes nothing while nothing is chosen about damage in the
        log, because other faults may come from it. Raises: CorruptRecord: the choice cannot be carried out, or did not help;
        StoreFull; OSError."""
        self._finish_filling()
        verdict = self._carry_out()
        if not self.undecided and not verdict.whole and verdict.faults.keys() <= _REBUILDABLE:
            # Faults that other damage had hidden.
            self.survey()
            verdict = self._carry_out()
        return verdict

    def _carry_out(self) -> Verdict:
        damage = self._measured()
        if self.undecided:
            return self._seen()
        if self._cut_at() is not None and self.loss(self.choice) is None:
            raise CorruptRecord(
                f"cannot skip the damage of this log: {self.obstacle}",
                hint=hint("put the file back from a backup || give up what follows with {choice=cut}"),
                offset=self._cut_at(),
            )
        self.layout.open(self.settings)
        if self._remakes:
            self._mend_log(damage)
            self._set_aside()
            positions.clear_unused(self.layout)
            self._mend_config()
            self._remake()
        else:
            self._mend_config()
            if any(finding.kind is Kind.CHECKPOINT for finding in self.findings):
                Checkpoint().store(self.layout)
        if any(finding.kind is Kind.RISING for finding in self.findings):
            self.layout.rising.unlink()  # a start makes it anew
        self.verdict = self._verify(lambda finding: None)
        return self.verdict

    def _mend_log(self, damage: LogDamage) -> None:
        at = self._cut_at()
        cutting = self.choice is Choice.CUT and at is not None
        if cutting:
            remake.give(self.layout, self._order(cut=at))
        mend = LogRepair(damage)
        mend.make_files_whole(missing=not cutting)
        end = at if cutting and at is not None else NOWHERE
        for place, queue_offset in self._renumbered:
            if place < end:
                mend.rewrite(place, renumber(mend.read(place), queue_offset))
        plan = tuple(mend.plan(filling) for filling in damage.fillings if filling.gap.offset < end)
        order = self._order(cut=at if cutting else None)
        if plan:
            remake.give(self.layout, replace(order, fill=plan))
            self._fill(damage, plan)
        if plan or not cutting:
            remake.give(self.layout, order)
        if cutting:
            size = self.settings.log_file_size
            starts = sorted(int(path.name) for path in self.layout.commitlog.iterdir())
            cut_after(self.layout, size, starts, end, "it was given up", keep_max=size)

    def _fill(self, damage: LogDamage, plan: Sequence[Stretch]) -> None:
        whole, done = sum(stretch.size for stretch in plan), 0
        for stretch in plan:
            LogRepair(damage).fill(stretch)
            done += stretch.size
            self.progress("log", done, whole)

    def _finish_filling(self) -> None:
        """What a killed repair has begun to write is completed, and then looked at."""
        order = remake.load(self.layout)
        if order is None or not order.fill:
            return
        self.layout.open(self.settings)
        self._fill(self._measured(), order.fill)
        remake.give(self.layout, replace(order, fill=()))
        self.survey()

    def _order(self, cut: int | None) -> remake.Order:
        """Every queue with a finding is made anew, and every queue that an earlier order has named; after a death, or if the
        log was repaired, all of them."""
        before = remake.load(self.layout) or remake.Order()
        named = {(finding.topic, finding.queue) for finding in self.findings}
        named |= set(self._of_files())
        # Units that were written for a log that has changed since are not believed, whatever they look like.
        whole = self._died or bool(self._measured().fillings)
        begins = {key: self._begin_of(key, cut) for key in queues(self.layout.root) if whole or key in named}
        begins |= {key: max(begin, begins.get(key, 0)) for key, begin in before.queues.items()}
        return remake.Order(begins, cut if cut is not None else before.cut)

    def _of_files(self) -> Iterator[tuple[str, int]]:
        """The queues in which whole files are wrong."""
        for finding in self.findings:
            folder = Path(finding.path).parent
            if finding.kind is Kind.QUEUE_FILE and folder.name.isdecimal():
                yield folder.parent.name, int(folder.name)

    def _begin_of(self, key: tuple[str, int], cut: int | None) -> int:
        """Where a queue continues if the log will have no record of it: no offset that was used is used again."""
        seen = self._seen().queues.get(key)
        end = self._seen().end if cut is None else cut
        used = ConsumeQueue(self.layout.root, *key, self.settings.queue_file_units).used(end)
        return used if seen is None or seen.first is not None else max(used, seen.next)

    def _judge_emptied(self) -> None:
        """Damaged queues that retention has emptied. If their files are gone, group offsets and an order that was not carried
        out also know how far they were used."""
        named = {(finding.topic, finding.queue) for finding in self.findings if finding.kind is not Kind.CONFIG}
        named |= set(self._of_files())
        known = self._seen().queues
        ordered = (remake.load(self.layout) or remake.Order()).queues
        for key in ordered.keys() & set(queues(self.layout.root)):
            known.setdefault(key, QueueSeen(None, ordered[key]))
        for (topic, _), offsets in offsets_of(self.layout).items():
            for queue, offset in offsets.items():
                seen = known.get((topic, queue))
                if seen is not None and seen.first is None and (topic, queue) in named:
                    known[topic, queue] = QueueSeen(None, max(seen.next, offset))

    def _judge_ends(self) -> None:
        """Queues end after the stand-ins for their last messages, so group offsets there stay as they are."""
        if self.choice is not Choice.SKIP or self.obstacle is not None:
            return
        known = self._seen().queues
        for lost in self._measured().lost:
            seen = known.get((lost.topic, lost.queue), QueueSeen(None, 0))
            known[lost.topic, lost.queue] = replace(seen, next=max(seen.next, lost.first + lost.count))

    def _set_aside(self) -> None:
        """A file that does not belong to queues or index, or has another size, would stop recovery."""
        moved = False
        for finding in self.findings:
            path = Path(finding.path)
            if finding.kind in (Kind.QUEUE_FILE, Kind.INDEX_FILE) and path.exists():
                path.rename(free_name(self.layout, path.name))
                crash_point("repair_moved")
                atomic_file.sync_folder(path.parent)
                moved = True
        if moved:
            atomic_file.sync_folder(self.layout.cut)

    def _mend_config(self) -> None:
        # The last commits of groups count with the consumerOffset.json that exists, and not with a repaired one.
        with suppress(StoreFailed):
            if commits.settle(self.layout).taken:
                self._config = plan_config(self.layout, self._seen())
        for deed in self._config:
            deed.do()

    def _remake(self) -> None:
        report = recover(self.layout, self.settings, lambda line: None)
        if report.damage is not None:
            raise CorruptRecord(
                f"cannot repair {self.layout.root}: the log is still damaged at {report.damage.offset:,}",
                hint="run the repair again, which is safe",
                offset=report.damage.offset,
            )
        crash_point("repair_recovered")
        reindex(self.layout, self.settings, report, lambda done, whole: self.progress("index", done, whole))

    # ---- what is known

    @property
    def _remakes(self) -> bool:
        kinds = {finding.kind for finding in self.findings if finding.damage}
        return self.unfinished or bool(kinds - _SMALL)

    def _seen(self) -> Verdict:
        assert self.verdict is not None, "survey comes first"
        return self.verdict

    def _measured(self) -> LogDamage:
        assert self._damage is not None, "survey comes first"
        return self._damage

    def _gaps_without_bytes(self) -> list[Finding]:
        """Messages that are missing where the log has no bytes in which something could stand in for them."""
        return [each for each in self.findings if each.kind is Kind.QUEUE_GAP and each not in self._explained]

    def _cut_at(self) -> int | None:
        """Where the first damage is that the user has to decide about."""
        return self._first

    def _first_serious(self) -> int | None:
        if self._filling:
            return None
        places = [filling.gap.offset for filling in self._measured().serious]
        places += [finding.offset for finding in self._gaps_without_bytes() if finding.offset is not None]
        return min(places, default=None)

    def _beyond(self) -> list[Lost]:
        """Messages whose units continue after the end of the log."""
        beyond = []
        for finding in self.findings:
            topic, queue, first, count = finding.topic, finding.queue, finding.first, finding.count
            if finding.kind is Kind.QUEUE_EXTRA and topic is not None and queue is not None and first is not None and count:
                seen = self._seen().queues.get((topic, queue))
                if seen is None or first == seen.next:
                    beyond.append(Lost(topic, queue, first, count, None, None))
        return beyond

    def _judge_misplaced(self) -> None:
        """Records whose queue offset is wrong. If the queue's units agree with their order, or just the next one is missing,
        the number is corrected. Otherwise the record has no place in its queue, and counts as damage."""
        damage = self._measured()
        self._renumbered, self._explained = [], []
        for finding in self.findings:
            if finding.kind is not Kind.QUEUE_OFFSET or finding.offset is None or finding.first is None:
                continue
            right = self._right_numbers(finding)
            self._renumbered += right
            if not right:
                size = len(LogRepair(damage).read(finding.offset))
                gap = Gap(finding.offset, finding.offset + size, True, -1, self._seen().last_ms, last=False)
                damage.fillings.append(Filling(gap, gap.end, to_file_end=False))
        damage.fillings.sort(key=lambda filling: filling.gap.offset)

    def _right_numbers(self, wrong: Finding) -> list[tuple[int, int]]:
        """(physical offset, queue offset) of the records that a finding is about, if that is known."""
        assert wrong.topic is not None and wrong.queue is not None and wrong.first is not None and wrong.offset is not None
        queue = ConsumeQueue(self.layout.root, wrong.topic, wrong.queue, self.settings.queue_file_units)
        try:
            units = queue.units(wrong.first, wrong.first + (wrong.count or 1))
        except (StoreSettingsError, OSError, ValueError):
            units = []
        if units and units[0].physical_offset == wrong.offset:
            return [(unit.physical_offset, wrong.first + i) for i, unit in enumerate(units)]
        for gap in self._gaps_without_bytes():
            if (gap.topic, gap.queue, gap.first, gap.count) == (wrong.topic, wrong.queue, wrong.first, 1):
                self._explained.append(gap)
                return [(wrong.offset, wrong.first)]
        return []

    def _refuse_other_sizes(self) -> None:
        if not self.layout.commitlog.is_dir():
            raise StoreUnsupported(
                f"cannot repair {self.layout.root}: it is not a store, it has no folder commitlog",
                hint="give the folder that the broker was started with",
                path=str(self.layout.root),
            )
        size = self.settings.log_file_size
        lengths = [path.stat().st_size for path in self.layout.commitlog.iterdir() if is_log_file(path.name, size)]
        if lengths and size not in lengths:
            raise StoreSettingsError(
                f"cannot repair {self.layout.root}: none of its log files has {size:,} bytes",
                hint="write the size of the log files into orbitmq/store.json",
                name="log_file_size",
                value=size,
                stored=lengths[0],
            )

    def _verify(self, tell: Callable[[Finding], None]) -> Verdict:
        return verify(self.layout, self.settings, tell, lambda done, whole: self.progress("verify", done, whole), locked=True)
