"""Goal: a power cut takes both the message of a transaction and what ends it, or neither; a start knows exactly which
transactions have ended; and each delayed message comes once, but never if it was said, and is on disk, that it is cancelled.

Method: the machine of machine.py with these too (halves.py, delays.py). In each eighth image that a cut may leave, all that
waits comes."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from orbitmq.native._core import lib
from orbitmq.store.delays import DELAY_TOPICS
from orbitmq.store.group_commits import COMMITS_TOPIC
from orbitmq.store.halves import TRANSACTION_TOPICS
from tests.native.pipeline import SEND_FLUSH, Verdict
from tests.power import halves
from tests.power.delays import Clock, Delays, expect_delays, waiting
from tests.power.life import QUEUES, Life
from tests.power.machine import COUNTS, SHIM, VERDICT_APPENDED, PowerCuts
from tests.power.plain_list import TOPICS, Model

VERDICT_SETTLED = 14
WAITS_MS = (-1000, 0, 1, 3, 3, 500, 4000, 4000, 3_600_000)


class LaterCuts(PowerCuts):
    """number: of messages that wait; each has a body of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        self.clock = Clock(SHIM)
        self.delays: Delays | None = None

    def _empty_list(self) -> Model:
        return Model(own=(COMMITS_TOPIC, *TRANSACTION_TOPICS, *DELAY_TOPICS))

    def _begun(self) -> None:
        assert self.life is not None
        halves.expect_halves(self.life, self.model)
        self.delays = None
        if waiting(self.model):
            self._start_scheduler()

    def _start_scheduler(self) -> Delays:
        assert self.life is not None
        if self.delays is None:
            self.delays = Delays(self.life, self.model, self.clock)
            self._store_ms()
            self.delays.begin()
        return self.delays

    def _expect_more(self, life: Life, model: Model) -> None:
        halves.expect_halves(life, model)
        expect_delays(life, model, self.clock)

    @rule(steps=st.integers(4, 16))
    def wait_and_come(self, steps: int) -> None:
        """Transactions and delayed messages, all kinds of steps for a while."""
        draw = self.random
        for _ in range(steps):
            deed, count, flushed = draw.randrange(10), draw.randrange(1, 5), draw.random() < 0.3
            size, topic = draw.choice((0, 20, 400, 3000)), draw.choice(TOPICS)
            if deed < 2:
                self.begin_transactions(count, size, topic, flushed)
            elif deed < 4:
                self.end_transactions(count, draw.choice(halves.ENDS), flushed)
            elif deed < 6:
                self.delay(count, size, topic, draw.choice((0, 0, 0, 1, 2)), flushed)
            elif deed < 7:
                self.cancel(count, flushed)
            elif deed < 9:
                self.deliver(count, draw.choice((0, 3, 1100, 5100)), draw.random() < 0.5)
            else:
                self.flush(draw.random() < 0.5)

    # ---- transactions

    def begin_transactions(self, count: int, size: int, topic: str, flushed: bool) -> None:
        assert self.life is not None
        messages = [(self._body(size), number % QUEUES) for number in range(count)]
        before = len(self.model.sent)
        verdicts = halves.begin(self.life, self.model, topic, messages, SEND_FLUSH if flushed else 0, self._store_ms())
        COUNTS.transactions += count
        self._stored(before, verdicts, flushed)

    def end_transactions(self, count: int, how: int, flushed: bool) -> None:
        """The newest, most of the time; perhaps one that has ended."""
        assert self.life is not None
        for _ in range(count):
            begun = [place for place in halves.halves(self.model) if self._in_log(place)]
            if not begun:
                return
            place = self.random.choice(begun[-4:] if self.random.random() < 0.7 else begun)
            ends, before = halves.is_open(self.model, place), len(self.model.sent)
            flags = SEND_FLUSH if flushed else 0
            verdict = halves.end(self.life, self.model, place, how, flags, self._store_ms())
            COUNTS.ended += ends
            if ends or self.life.sync_failed:
                self._stored(before, [verdict], flushed)
            else:
                assert verdict.code == VERDICT_SETTLED, verdict

    # ---- delayed messages

    def delay(self, count: int, size: int, topic: str, level: int, flushed: bool) -> None:
        delays = self._start_scheduler()
        COUNTS.delayed += count
        for number in range(count):
            before, due_ms = len(self.model.sent), self.now_ms + self.random.choice(WAITS_MS)
            flags = SEND_FLUSH if flushed else 0
            self._store_ms()
            verdicts = delays.send(topic, number % QUEUES, self._body(size), due_ms, level, flags)
            self._stored(before, verdicts, flushed)

    def cancel(self, count: int, flushed: bool) -> None:
        delays = self._start_scheduler()
        for _ in range(count):
            timed = [place for place in waiting(self.model) if self.model.sent[place].topic == DELAY_TOPICS[1]]
            timed = [place for place in timed[-8:] if self._in_log(place)]
            if not timed:
                return
            COUNTS.cancelled += 1
            before = len(self.model.sent)
            self._store_ms()
            verdicts = delays.cancel(self.random.choice(timed), SEND_FLUSH if flushed else 0)
            self._stored(before, verdicts, flushed)

    def deliver(self, steps: int, ms: int, keep: bool) -> None:
        delays = self._start_scheduler()
        self._tick(ms)
        before = len(self.model.sent)
        for _ in range(steps):
            self._store_ms()
            delays.step()
        COUNTS.delivered += len(self.model.sent) - before
        if keep:
            delays.keep()
        self._stepped()

    @rule(topic=st.sampled_from(TOPICS), ends=st.booleans())
    def note_what_may_be_taken_back(self, topic: str, ends: bool) -> None:
        """Transactions that are on disk end, or delayed messages that are come, and somebody tries to note that before it is on
        disk."""
        assert self.life is not None
        if ends:
            self.begin_transactions(3, 20, topic, True)
            self.end_transactions(4, lib.SETTLE_COMMIT, False)
            self.life.note_halves()
        else:
            self.delay(3, 20, topic, 0, True)
            self.deliver(2, 4100, True)
        for _ in range(3):
            self._look_at_image(deep=True)

    # ---- how

    def _tick(self, ms: int) -> None:
        super()._tick(ms)
        self.clock.latest_ms = max(self.clock.latest_ms, self.now_ms)
        self.clock.passed_ms += max(ms, 0)

    def _body(self, size: int) -> bytes:
        self.number += 1
        return b"later %d." % self.number + bytes(self.random.randrange(size + 1))

    def _store_ms(self) -> int:
        """The writer's time, which never goes back."""
        self.stored_ms = self.clock.stored_ms = max(self.stored_ms, self.now_ms)
        return self.stored_ms

    def _in_log(self, place: int) -> bool:
        assert self.life is not None
        return self.model.places[place] >= self.life.tree.positions().min_offset

    def _stored(self, before: int, verdicts: list[Verdict], flushed: bool) -> None:
        """The list has what was sent from number `before` on: one for each verdict, or two, of which the first has it."""
        assert self.life is not None
        if self.life.sync_failed:
            self.model.keep(before)
            COUNTS.refused += len(verdicts)
            return
        news = self.model.sent[before:]
        for verdict, one in zip(verdicts, news, strict=False):
            assert (verdict.code, verdict.queue_offset) == (VERDICT_APPENDED, one.queue_offset)
            self.model.places.append(verdict.physical_offset)
        if len(news) > len(verdicts):
            self.model.places.append(verdicts[-1].physical_offset + verdicts[-1].size)
        if flushed:
            self.life.flush.step()
        self._stepped()
