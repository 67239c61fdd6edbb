"""Goal: whatever dies and whenever the files are written, each delayed message is in the log once for its topic, never early,
and never lost; and one that was cancelled never comes once anybody was told so. Method: random histories of the real stages in
this process (delay_life.py): messages come and are cancelled, time passes, each stage moves a step, scheduler, writer or the
whole tree die between any two steps, and the files are written or are behind."""

from __future__ import annotations

import errno
import shutil
import tempfile
import time
from pathlib import Path

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from orbitmq.native._core import lib
from orbitmq.store.commit_log.record import Record
from tests.actors.delay_life import SCHEDULE, TIMER, DelayLife, settings_of
from tests.waiting import until

LEVELS = st.sampled_from([1, 1, 2, 3, 18])
LONG_MS = 3 * 3600 * 1000
ROOM = 6  # so few messages with a time are in memory that the queue is read again and again
MOST = st.sampled_from([0, 1, 2, 3, 5])  # units of messages with a time that one step reads: often a reading takes several
ROUNDS = 30  # where a message waits for a clock that was set back, the scheduler does not know yet how far it is


class DelayModel(RuleBasedStateMachine):
    @initialize(most=MOST)
    def begin(self, most: int) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="orbitmq-delay-", dir="/dev/shm"))
        self.settings = settings_of(self.root)
        self.most = most
        self.begin_life((0, 0))
        self.ahead_ms = 0  # how far the clock has been ahead at most
        self.sent: dict[bytes, tuple[str, int, int]] = {}  # body: topic, queue, level; or the time
        self.places: dict[bytes, int] = {}  # of those with a time: where they wait
        self.cancels: dict[int, bytes] = {}  # of this tree's life, by queue offset, those of which nobody was told anything
        self.answers: dict[bytes, set[int]] = {}  # what was told; CANCEL_OPEN: a tree died before it told

    def begin_life(self, ahead: tuple[int, int]) -> None:
        self.life = DelayLife(self.settings, room=ROOM, most=self.most, rounds=ROUNDS, ahead=ahead)

    @rule(topic=st.sampled_from("TU"), queue=st.integers(0, 1), level=LEVELS, sizes=st.lists(st.integers(0, 3000), max_size=20))
    def send(self, topic: str, queue: int, level: int, sizes: list[int]) -> None:
        bodies = [b"%d " % (len(self.sent) + n) + bytes(size) for n, size in enumerate(sizes)]
        if not bodies:
            return
        verdicts = self.life.send(topic, level, *bodies, queue=queue)
        assert {verdict.code for verdict in verdicts} == {1}
        self.sent |= dict.fromkeys(bodies, (topic, queue, level))

    @rule(
        topic=st.sampled_from("TU"),
        queue=st.integers(0, 1),
        waits_ms=st.lists(st.sampled_from([-5000, -1, 0, 1, 50, 600, 600, 1100, 5000, LONG_MS, 9 * LONG_MS]), max_size=20),
        size=st.integers(0, 3000),
    )
    def send_at(self, topic: str, queue: int, waits_ms: list[int], size: int) -> None:
        now_ms = time.time_ns() // 1_000_000 + self.life.ahead[0]
        for wait_ms in waits_ms:
            body = b"%d " % len(self.sent) + bytes(size)
            (verdict,) = self.life.send_at(topic, now_ms + wait_ms, body, queue=queue)
            assert verdict.code == 1
            self.sent[body] = (topic, queue, now_ms + wait_ms)
            self.places[body] = verdict.queue_offset

    @rule(which=st.lists(st.integers(0, 1 << 16), max_size=6), newest=st.booleans())
    def cancel(self, which: list[int], newest: bool) -> None:
        bodies = list(self.places)[-8:] if newest else list(self.places)
        for number in which if bodies else ():
            body = bodies[number % len(bodies)]
            (offset,) = self.life.cancel(self.sent[body][0], self.places[body])
            self.cancels[offset] = body

    def hear(self) -> None:
        for offset, body in list(self.cancels.items()):
            outcome = self.life.outcome(offset)
            assert outcome in (lib.CANCEL_OPEN, lib.CANCEL_NEVER, lib.CANCEL_LATE)
            if outcome != lib.CANCEL_OPEN:
                self.answers.setdefault(body, set()).add(outcome)
                del self.cancels[offset]

    def hear_last(self) -> None:
        self.hear()
        for body in self.cancels.values():
            self.answers.setdefault(body, set()).add(lib.CANCEL_OPEN)
        self.cancels.clear()

    @rule(ms=st.sampled_from([100, 600, 1100, 5100, 10_100, LONG_MS]))
    def pass_time(self, ms: int) -> None:
        self.life.pass_time(ms)

    @rule(back_ms=st.sampled_from([500, 5000, LONG_MS]))
    def set_clock_back(self, back_ms: int) -> None:
        self.ahead_ms = max(self.ahead_ms, self.life.ahead[0])
        self.life.set_clocks(self.life.ahead[0] - back_ms, self.life.ahead[1])

    @rule()
    def schedule(self) -> None:
        self.life.schedule()
        self.hear()

    @rule()
    def write(self) -> None:
        self.life.life.writer.step()
        self.life.life.make_file()

    @rule()
    def fill_log(self) -> None:
        """The disk has no room for another file of the log, until somebody sends or `write` makes one."""
        tree = self.life.life.tree
        lib.control_set_allocated(tree.control, tree.positions().allocated, errno.ENOSPC)

    @rule()
    def write_only(self) -> None:
        self.life.life.writer.step()

    @rule()
    def index(self) -> None:
        self.life.life.index()

    @rule()
    def flush(self) -> None:
        self.life.flush()

    @rule()
    def keep(self) -> None:
        self.life.keep()

    @rule()
    def kill_scheduler(self) -> None:
        self.life.begin_scheduler()

    @rule()
    def kill_writer(self) -> None:
        self.life.begin_writer()

    @rule(damaged=st.booleans())
    def kill_tree(self, damaged: bool) -> None:
        ahead = self.life.ahead
        self.hear_last()
        self.life.end()
        if damaged and self.settings.layout.delayed.exists():
            self.settings.layout.delayed.write_bytes(b"garbage")  # the whole log is read
        self.begin_life(ahead)

    @rule()
    def stop(self) -> None:
        ahead = self.life.ahead
        self.life.life.writer.step()
        self.life.stop()
        self.hear_last()
        self.life.end()
        self.begin_life(ahead)

    @rule()
    def look(self) -> None:
        """Nothing comes twice, or before its time by the furthest that any of the clocks has been."""
        records = self.life.records()
        waited = {bytes(record.body): record for record in records if record.topic == SCHEDULE}
        now_ms = time.time_ns() // 1_000_000
        for record in self._delivered(records):
            ahead_ms = max(self.life.ahead) + LONG_MS + 5000  # clocks were set back by that much at most
            level = self.sent[bytes(record.body)][2]
            if level > 18:
                assert now_ms + max(self.ahead_ms, self.life.ahead[0]) >= level
                continue
            source = waited[bytes(record.body)]
            assert now_ms + ahead_ms >= source.store_ms + lib.delay_level_ms(level - 1)

    def _delivered(self, records: list[Record]) -> list[Record]:
        found = [record for record in records if record.topic not in (SCHEDULE, TIMER)]
        bodies = [bytes(record.body) for record in found]
        assert len(bodies) == len(set(bodies)), "a message is in the log twice"
        for record in found:
            topic, queue, level = self.sent[bytes(record.body)]
            assert lib.CANCEL_NEVER not in self.answers.get(bytes(record.body), set())
            name = "DELAY" if level <= 18 else "TIMER_OUT_MS"
            assert (record.topic, record.queue_id, record.properties[name]) == (topic, queue, str(level))
        return found

    def _all_came(self) -> bool:
        self.life.settle()
        self.hear()
        found = {bytes(record.body) for record in self._delivered(self.life.records())}
        cancelled = {body for body, answers in self.answers.items() if answers != {lib.CANCEL_LATE}}
        return not self.cancels and set(self.sent) - cancelled <= found

    def teardown(self) -> None:
        if not hasattr(self, "life"):  # it could not begin
            shutil.rmtree(getattr(self, "root", ""), ignore_errors=True)
            return
        try:
            self.life.set_clocks(20 * LONG_MS, 20 * LONG_MS)
            until(self._all_came, "all that was sent")
        finally:
            self.life.end()
            shutil.rmtree(self.root)


TestDelayModel = DelayModel.TestCase
TestDelayModel.settings = hypothesis_settings(max_examples=40, stateful_step_count=40, deadline=None)
