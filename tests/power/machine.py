"""Goal: whatever a power cut takes, the store opens, holds every message whose receipt said "flushed", an unbroken prefix of
the rest in the order of their appends, and nothing else; queues are dense, keys are found, and verify finds no fault.

Method: the real stages, one step at a time, on a simulated disk (disk.py), compared with a plain list of what was sent. The
power is cut at random: at any step, and just before any sync takes effect, in a running broker, while one starts, while one
recovers from the last cut, while one stops. Images that a cut may leave are opened and checked; on some of them the broker
continues. Syncs fail too, in a running broker, while it stops and while the next one starts: then it accepts nothing more, and
what memory has is on the disk when the next start is over. The test controls the clock, so that seconds pass between steps and
timestamps collide.

How to run it for longer than the suite does: docs/recovery.md, "Power cuts".
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from orbitmq.errors import OrbitError
from orbitmq.store import positions
from tests.native.pipeline import Verdict
from tests.power.disk import Disk, Failure, Shim
from tests.power.life import GROUP, QUEUES, Life, open_store
from tests.power.plain_list import TOPICS, Model, expect_commits, expect_indexed, expect_log, look_at, settings_of

START_MS = 1_700_000_000_000
# This share of the syncs of a life is checked: an image of the moment before is opened.
LOOK_SHARE = 0.3
VERDICT_APPENDED, VERDICT_SYNC_FAILED, VERDICT_DUPLICATE = 1, 11, 12


@dataclass(slots=True)
class Counts:
    """Counts of what a run has done."""

    cuts: int = 0
    recoveries_cut: int = 0
    lives: int = 0
    messages: int = 0
    passed_on: int = 0
    transactions: int = 0
    ended: int = 0
    delayed: int = 0
    cancelled: int = 0
    delivered: int = 0
    duplicates: int = 0
    refused: int = 0
    starts_failed: int = 0
    files_removed: int = 0


SHIM = Shim()
COUNTS = Counts()
LIES: list[str] = []
RETENTION = [True]
FAILURES = [True]
# Files whose syncs fail. Not those of a new log file: it is removed and made again, and nobody has been told of it.
FAILING = {
    "log": "commitlog/*",
    "queues": "consumequeue/*",
    "index": "index/*",
    "stop": "orbitmq/[pr]*",
    "start": "orbitmq/[!ad]*",  # not dedup: messages with ids are refused then (tests/native/test_writer_dedup.py)
    "anything": "[ci]*",
}


class PowerCuts(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="orbitmq-power-"))
        self.model = self._empty_list()
        self.boots = 0
        self.images = 0
        self.life: Life | None = None
        self.disk: Disk | None = None
        self.stored_ms = 0  # the store time of the newest message
        self.floor = 0  # what was said to be on disk, in this life and in those before

    @initialize(number=st.integers(0, 1 << 32))
    def begin(self, number: int) -> None:
        self.random = random.Random(number)
        self.now_ms = START_MS
        self._tick(0)
        root = self._fresh_image()
        root.mkdir()
        self._live_on(root, new_boot=True)

    # ---- what a broker does

    @rule(
        count=st.integers(1, 30),
        size=st.sampled_from([0, 20, 100, 400, 1500, 6000]),
        topic=st.sampled_from(TOPICS),
        spread=st.booleans(),
        keys=st.integers(0, 2),
        flushed=st.sampled_from([False, False, False, True]),
        ids=st.sampled_from([0, 0, 3, 12]),
    )
    def send(
        self, count: int, size: int, topic: str, spread: bool, keys: int, flushed: bool, ids: int = 0, passes_on: bool = False
    ) -> None:
        """ids: how many different ones the messages have; 0: none has any. passes_on: they are an atomic batch, which commits
        offsets of the group if there are any; some batches are followed by such ones. The others have an id."""
        assert self.life is not None
        batch = []
        self.stored_ms = max(self.stored_ms, self.now_ms)  # the writer's time never goes back
        begin = int(self.life.tree.positions().min_offset)
        firsts: list[int | None] = []  # of which message each is a duplicate
        before = len(self.model.sent)
        atomic = passes_on or (not ids and size < 3000 and (before + count) % 5 < 2)
        whole = ""
        if atomic and not passes_on:
            count = 2 + count % 2 * 5  # two sizes, so that many come again
            whole = f"batch of {count}"
        stored = self.model.first_of(topic, whole, self.stored_ms, begin) if whole else None
        for place in range(count):
            known = f"id {self.random.randrange(ids)}" if ids else whole if place == 0 else ""
            first = None if stored is None else stored + place
            if ids:
                first = self.model.first_of(topic, known, self.stored_ms, begin)
            firsts.append(first)
            number = len(self.model.sent)
            queue = number % QUEUES if spread else 0
            names = (f"k{number}", f"g{number % 5}")[:keys]
            body = b"%d." % number + bytes([number % 251]) * self.random.randrange(size + 1)
            named = (("DEDUP_ID", known), ("KEYS", " ".join(names)), ("TAGS", "t"))
            text = "".join(f"{name}\x01{value}\x02" for name, value in named if value)
            batch.append((body, text.encode(), queue))
            if first is None:
                self.model.append(topic, queue, body, names, known, self.stored_ms)
        COUNTS.messages += count
        COUNTS.duplicates += count - firsts.count(None)
        where_to = self._where_to() if passes_on else None
        if where_to is None:
            verdicts = self.life.send(topic, batch, flushed=flushed, ids=bool(ids or whole), atomic=atomic)
        else:
            commits = self.life.commits_of(*where_to)
            self.model.append_commits(*where_to, commits, self.stored_ms)
            firsts.append(None)
            verdicts = self.life.pass_on(topic, batch, commits, flushed=flushed)
            COUNTS.passed_on += 1
        if self.life.sync_failed:
            assert all(verdict.code == VERDICT_SYNC_FAILED for verdict in verdicts)
            self.model.keep(before)
            COUNTS.refused += count
            return
        self._expect_verdicts(before, firsts, verdicts)
        if atomic and stored is None:
            self.model.wholes.append((before, len(self.model.sent)))
        if flushed:
            self.life.flush.step()
        self._stepped()
        for _ in range(3 if atomic and not passes_on else 0):
            self.send(self.random.randrange(1, 4), 400, topic, spread, keys, self.random.random() < 0.2, passes_on=True)

    def _expect_verdicts(self, before: int, firsts: list[int | None], verdicts: list[Verdict]) -> None:
        """firsts: of which message each is a duplicate. The others are the list's from number `before` on."""
        news = iter(self.model.sent[before:])
        for first, verdict in zip(firsts, verdicts, strict=True):
            if first is None:
                assert (verdict.code, verdict.queue_offset) == (VERDICT_APPENDED, next(news).queue_offset)
                self.model.places.append(verdict.physical_offset)
            else:
                assert verdict.code == VERDICT_DUPLICATE, verdict
                place = (self.model.places[first], self.model.sent[first].queue_offset, self.model.sent[first].queue)
                assert (verdict.physical_offset, verdict.queue_offset, verdict.queue_id) == place

    def _where_to(self) -> tuple[tuple[str, int], int] | None:
        """A queue that the group has read, and how far; None if there is nothing that is new to it."""
        assert self.life is not None
        if self.random.random() < 0.5:
            self.life.index()
        found = []
        for queue in ((topic, number) for topic in TOPICS for number in range(QUEUES)):
            bounds = self.life.registry.bounds(self.life.topics[queue[0]].first_slot + queue[1])
            begin = max(self.life.commits.get(GROUP, queue) or 0, bounds.minimum)
            if begin < bounds.maximum:
                found.append((queue, self.random.randint(begin + 1, bounds.maximum)))
        return self.random.choice(found) if found else None

    @rule(limit=st.sampled_from([500, 3000, 20_000, 1 << 30]))
    def index(self, limit: int) -> None:
        assert self.life is not None
        self.life.index(limit)
        self._stepped()

    @rule(recorded=st.booleans())
    def flush(self, recorded: bool) -> None:
        assert self.life is not None
        for _ in range(2):  # what is not on disk must not be noted
            if recorded:
                self.model.noted = max(self.model.noted, self.life.note_commits())
                self.life.note_halves()
            self.life.flush.step()
        if recorded:
            self.life.record()
        self._stepped()

    @rule()
    def sync_queues(self) -> None:
        assert self.life is not None
        with self._perhaps_failing():
            self.life.sync_queues()
        self._stepped()

    @rule(steps=st.integers(3, 12))
    def work(self, steps: int) -> None:
        """All kinds of steps for a while."""
        draw = self.random
        for _ in range(steps):
            deed = draw.randrange(10)
            if deed < 4:
                size = draw.choice((20, 100, 400, 1500))
                spread, ids = draw.random() < 0.5, draw.choice((0, 5))
                self.send(draw.randrange(1, 31), size, draw.choice(TOPICS), spread, draw.randrange(3), deed == 0, ids)
            elif deed < 6:
                self.index(draw.choice((3000, 20_000, 1 << 30)))
            elif deed < 8:
                self.flush(draw.random() < 0.5)
            elif deed < 9:
                self.sync_queues()
            else:
                self.tick(draw.choice((200, 1000, 4000)))

    @rule(ms=st.sampled_from([1, 1, 200, 1000, 4000, 9000, -20_000]))
    def tick(self, ms: int) -> None:
        self._tick(ms)

    @rule(batches=st.integers(0, 6), spread=st.booleans(), topic=st.sampled_from(TOPICS), synced=st.booleans())
    def expire(self, batches: int, spread: bool, topic: str, synced: bool) -> None:
        """Retention removes what is too much, perhaps all of the other topic's messages. From the computation of its beginning
        on, messages may be removed at any moment."""
        assert self.life is not None
        if not RETENTION[0]:
            return
        for _ in range(batches):
            self.send(12, 6000, topic, spread, 1, flushed=True)
        self.index(1 << 30)
        if synced:
            self.sync_queues()
        COUNTS.files_removed += self.life.expire(self.model.expire)
        self._stepped()

    @rule(topic=st.sampled_from(TOPICS), batches=st.integers(4, 8))
    def note_what_is_not_on_disk(self, topic: str, batches: int) -> None:
        """The group goes on, which is noted, and retention removes the records that say so. It goes on again, and
        somebody tries to note that too soon. Only the first note says where the group was before."""
        assert self.life is not None
        for _ in range(2):
            self.send(2, 100, topic, True, 0, flushed=True, passes_on=True)
        self.flush(True)
        self.expire(batches, True, topic, synced=True)
        self.send(2, 100, topic, True, 0, flushed=False, passes_on=True)
        self.model.noted = max(self.model.noted, self.life.note_commits())
        for _ in range(3):
            self._look_at_image(deep=True)

    @rule(where=st.sampled_from(tuple(FAILING)), skip=st.integers(0, 3), count=st.integers(1, 3), record=st.booleans())
    def fail_syncs(self, where: str, skip: int, count: int, record: bool) -> None:
        """So many syncs fail, in this life or in the start after it; it continues for a while, and is killed."""
        assert self.life is not None and self.disk is not None
        if not FAILURES[0]:
            return
        self.work(3)
        self.disk.failure = Failure(FAILING[where], 0 if where == "log" else skip, count)
        if where in ("log", "anything"):
            self.send(5, 1500, TOPICS[0], True, 1, flushed=False)
            self.flush(record)
        if where in ("queues", "index", "anything"):
            self.index(1 << 30)
            self.sync_queues()
        self.work(2)
        if where == "stop":
            self.stop_and_start(cut=False, by_hand="")
        else:
            self.kill_and_go_on()
        self.cut_and_look()

    # ---- what ends it

    @rule()
    def cut_and_look(self) -> None:
        for _ in range(5):
            self._look_at_image()

    @rule(times=st.integers(0, 2), ms=st.sampled_from([0, 5000, -20_000]))
    def cut_and_go_on(self, times: int, ms: int) -> None:
        """The power fails, and again while the store recovers, so many times."""
        root = self._cut()
        self._die()
        self._tick(ms)
        for _ in range(times):
            root = self._cut_recovery(root)
        self._live_on(root, new_boot=True)

    @rule()
    def kill_and_go_on(self) -> None:
        """Every process dies; the machine keeps its memory, so nothing may be lost. What was not synced is still not synced."""
        assert self.life is not None and self.disk is not None
        sent = len(self.model.sent)
        self._die(keep_disk=True)
        self._live_on(self.disk.root, new_boot=False)
        assert len(self.model.sent) == sent

    @rule(cut=st.booleans(), by_hand=st.sampled_from(["", "", "", "consumequeue", "index"]))
    def stop_and_start(self, cut: bool, by_hand: str) -> None:
        """A clean stop; then perhaps somebody removes what can be made anew, or the power fails, or both."""
        assert self.life is not None and self.disk is not None
        clean, failed = False, SHIM.failed
        with self._perhaps_failing():
            clean = self.life.stop()
        if not clean:
            assert SHIM.failed > failed or self.life.sync_failed or self.life.queues_failed
            by_hand = ""
        self._stepped()
        sent, root = len(self.model.sent), self.disk.root
        self._die(keep_disk=True)
        if by_hand == "index" or (by_hand and self.model.has_some_of_each_queue()):
            shutil.rmtree(root / by_hand)
            self._sync_folder(root)
        if cut:
            root = self._cut()
            self.disk.close()
            SHIM.disk = self.disk = None
        self._live_on(root, new_boot=cut)
        assert len(self.model.sent) == sent

    def teardown(self) -> None:
        SHIM.disk = None
        if self.life is not None:
            self.life.close()
        if self.disk is not None:
            self.disk.close()
        shutil.rmtree(self.home, ignore_errors=True)

    # ---- how

    @contextmanager
    def _perhaps_failing(self) -> Iterator[None]:
        """Errors are ignored if a sync failed."""
        failed = SHIM.failed
        try:
            yield
        except (OSError, OrbitError):
            SHIM.check()
            if SHIM.failed == failed and not (self.life and (self.life.sync_failed or self.life.queues_failed)):
                raise

    def _tick(self, ms: int) -> None:
        self.now_ms += ms
        SHIM.set_clock(self.now_ms)

    def _stepped(self) -> None:
        """The end of a step: what it left is a state that a cut may find."""
        SHIM.check()
        assert self.life is not None and self.disk is not None
        self.disk.look()
        self._tick(self.random.choice((0, 0, 1, 3)))

    def _fresh_image(self) -> Path:
        self.images += 1
        return self.home / f"image-{self.images}"

    def _cut(self) -> Path:
        assert self.disk is not None
        COUNTS.cuts += 1
        if self.life is not None:
            self.floor = max(self.floor, self.life.flushed)
        root = self._fresh_image()
        self.disk.cut(self.random, root)
        return root

    def _die(self, keep_disk: bool = False) -> None:
        assert self.life is not None and self.disk is not None
        self.floor = max(self.floor, self.life.flushed)
        self.life.close()
        self.life = None
        if not keep_disk:
            SHIM.disk = None
            self.disk.close()
            shutil.rmtree(self.disk.root)
            self.disk = None

    def _before_sync(self) -> None:
        if self.random.random() < LOOK_SHARE:
            self._look_at_image()

    def _live_on(self, root: Path, *, new_boot: bool) -> None:
        """Recovers the store, checks that it holds what it must, and starts a broker on it."""
        COUNTS.lives += 1
        self.boots += new_boot
        positions.boot_id = lambda: self.boots.to_bytes(16, "big")
        if self.disk is None:
            self.disk = Disk(root, lambda path: any(fnmatch(os.path.relpath(path, root), lie) for lie in LIES))
        SHIM.disk = self.disk
        self.disk.before_sync = self._before_sync
        settings = settings_of(root)
        report = None
        while report is None:
            with self._perhaps_failing():
                report = open_store(settings)
            COUNTS.starts_failed += report is None
        SHIM.check()
        records, first = expect_log(settings.layout, report, self.model, self.floor)
        self.model.keep(first + len(records))
        self.floor = report.end
        quiet, self.disk.failure = self.disk.failure, Failure("", 0, 0)
        life = Life(settings, report, TOPICS, self.model.own)
        life.take_writes()
        self.stored_ms = int(life.tree.positions().wrote_ms)
        SHIM.check()
        assert not life.forgotten or life.forgotten.start >= self.model.noted, "a note that was on disk is gone"
        self.model.forgotten.update(life.forgotten)
        expect_indexed(life, records, self.model.sent, first)
        expect_commits(life, self.model, len(self.model.sent))
        self.life = life
        self._begun()
        self.disk.failure = quiet

    # ---- for machines that do more

    def _empty_list(self) -> Model:
        return Model()

    def _begun(self) -> None:
        """A life has begun. No sync fails yet."""

    def _expect_more(self, life: Life, model: Model) -> None:
        """What the store in an image must show, once a writer has taken over. model: a list of what is there."""

    # ---- how

    def _look_at_image(self, *, deep: bool = False) -> None:
        """Opens what a cut now might leave, while the life continues. deep: also where the group is, as in each eighth."""
        shim_disk, SHIM.disk = SHIM.disk, None
        held = positions.boot_id
        try:
            root = self._cut()
            if self.random.random() < 0.15:
                root = self._cut_recovery(root)
            positions.boot_id = lambda: b"another boot....".ljust(16)
            look_at(root, self.model, self.floor, deep=deep or self.images % 8 == 0, expect=self._expect_more)
            shutil.rmtree(root)
        finally:
            positions.boot_id = held
            SHIM.disk = shim_disk

    def _cut_recovery(self, root: Path) -> Path:
        """The power fails again while the store at `root` recovers, or right after. Returns what is left then."""
        COUNTS.recoveries_cut += 1
        COUNTS.cuts += 1
        disk = Disk(root)
        target = self._fresh_image()
        held, held_disk = positions.boot_id, SHIM.disk
        positions.boot_id = lambda: b"a boot between..".ljust(16)
        left = self.random.randrange(14)

        def pull() -> None:
            nonlocal left
            left -= 1
            if left < 0 and not target.exists():
                disk.cut(self.random, target)

        disk.before_sync = pull
        SHIM.disk = disk
        try:
            open_store(settings_of(root))
            SHIM.check()
            if not target.exists():
                disk.cut(self.random, target)
        finally:
            SHIM.disk = held_disk
            positions.boot_id = held
            disk.close()
            shutil.rmtree(root)
        return target

    def _sync_folder(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
