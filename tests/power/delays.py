"""Delayed messages under power cuts: the scheduler of a life, and what the plain list says of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from orbitmq.actors.scheduler import Scheduler
from orbitmq.native._core import lib
from orbitmq.store.commit_log.record import Record
from orbitmq.store.delays import DELAY_TOPIC, TIMER_TOPIC
from tests.actors.delay_life import cancelling, delayed, timed
from tests.native.pipeline import Verdict
from tests.power.disk import Shim
from tests.power.life import Life
from tests.power.plain_list import Later, Model, records_between


@dataclass(slots=True)
class Clock:
    """latest_ms: the latest that the machine's clock has shown. passed_ms: by a clock that nobody sets. stored_ms: the writer's
    time, which never goes back."""

    shim: Shim
    latest_ms: int = 0
    passed_ms: int = 1_000_000
    stored_ms: int = 0


RETRY_MS = 100  # native/actors/scheduler/scheduler_parts.h
ROUNDS = 30  # where a message waits for a clock that was set back, the scheduler does not know yet how far it is
YEAR_MS = 366 * 24 * 3600 * 1000


class Delays:
    """The scheduler, moved a step at a time. What it delivers joins the list as it is found in the log."""

    def __init__(self, life: Life, model: Model, clock: Clock) -> None:
        self._life, self._model, self._clock = life, model, clock
        with clock.shim.held(clock.passed_ms):
            self._scheduler = Scheduler(life.tree)
        life._open.append(self._scheduler)
        self._cancels: dict[int, int] = {}  # by queue offset of what cancels: the message's place

    def begin(self) -> None:
        """As a start does: it learns what was delivered before."""
        for _ in range(ROUNDS):
            if lib.scheduler_knows(self._scheduler.handle):
                break
            self.step()
        self._make_files()

    def _make_files(self) -> None:
        """They come before the first delivery."""
        if self._scheduler._files.start is None and not self._life.sync_failed:
            self._life.flush.step()
            self._scheduler.need()

    def send(self, topic: str, queue: int, body: bytes, due_ms: int, level: int, flags: int) -> list[Verdict]:
        """level: 0: at the time."""
        later = Later(topic, queue, self._clock.passed_ms + lib.delay_level_ms(level - 1) if level else due_ms)
        own, number = (DELAY_TOPIC, level - 1) if level else (TIMER_TOPIC, 0)
        self._model.append(own, number, body, ms=self._clock.stored_ms, later=later)
        return self._life.send_parts(topic, [delayed(body, level, queue) if level else timed(body, due_ms, queue)], flags)

    def cancel(self, place: int, flags: int) -> list[Verdict]:
        one = self._model.sent[place]
        assert one.later is not None
        self._model.append(TIMER_TOPIC, 0, b"", ms=self._clock.stored_ms, cancels=place)
        verdicts = self._life.send_parts(one.later.topic, [cancelling(one.queue_offset)], flags)
        if not self._life.sync_failed:
            self._cancels[verdicts[0].queue_offset] = place
        return verdicts

    def step(self) -> int:
        """The scheduler, then the writer."""
        begin = int(self._life.tree.positions().wrote)
        with self._clock.shim.held(self._clock.passed_ms):
            done: int = self._scheduler.step()
        self._clock.passed_ms += RETRY_MS + 1  # it tries again what it could not do
        done += self._life.writer.step()
        for record in records_between(self._life.settings.layout, begin, int(self._life.tree.positions().wrote)):
            self._delivered(record)
        self._life.make_file()
        self._life.index()
        self._hear()
        self._make_files()
        return done

    def _delivered(self, record: Record) -> None:
        """It is one that waited, was due, was not delivered before, and of which nobody was told that it never comes."""
        model, body = self._model, bytes(record.body)
        place = next((at for at in waiting(model) if model.sent[at].body == body), None)
        assert place is not None, f"nothing waits that {record} was made of: it was delivered before"
        later = model.sent[place].later
        assert later is not None and later.due_ms is not None
        now_ms = self._clock.passed_ms if model.sent[place].topic == DELAY_TOPIC else self._clock.latest_ms
        assert (record.topic, record.queue_id) == (later.topic, later.queue) and later.due_ms <= now_ms, record
        assert place not in model.promised, f"{record} comes, although it was said that it never does"
        model.append(record.topic, record.queue_id, body, ms=self._clock.stored_ms, delivers=place)
        model.places.append(record.physical_offset)

    def _hear(self) -> None:
        for offset, place in list(self._cancels.items()):
            outcome = lib.delay_cancel_outcome(self._life.tree.control, offset)
            if outcome != lib.CANCEL_OPEN:
                del self._cancels[offset]
            if outcome == lib.CANCEL_NEVER:
                self._model.promised.add(place)

    def keep(self) -> None:
        """The files, if the disk has what they would say."""
        self._scheduler._keep()
        self._scheduler._settle(wait=True)

    def deliver_all(self) -> None:
        """Until nothing waits, at a time when all is due."""
        self._clock = replace(self._clock, latest_ms=self._clock.latest_ms + YEAR_MS, passed_ms=self._clock.passed_ms + YEAR_MS)
        lib.scheduler_set_clocks(self._scheduler.handle, YEAR_MS, 0)
        self._life.flush.step()
        for _ in range(1000):
            if not self.step() and lib.scheduler_knows(self._scheduler.handle):
                return
        raise AssertionError("the scheduler does not come to an end")


def waiting(model: Model) -> list[int]:
    """Delayed messages that are not delivered, by their places in the list."""
    done = {one.delivers for one in model.sent}
    return [
        at for at, one in enumerate(model.sent) if one.later is not None and one.later.due_ms is not None and at not in done
    ]


def expect_delays(life: Life, model: Model, clock: Clock) -> None:
    """Everything that waits comes, except what was cancelled, and what retention may have removed. `model` gets it too."""
    cancelled = {one.cancels for one in model.sent}
    missing = [at for at in waiting(model) if at >= model.gone and at not in cancelled]
    delays = Delays(life, model, replace(clock))
    delays.begin()
    delays.deliver_all()
    left = set(waiting(model))
    assert not left.intersection(missing), f"messages {sorted(left.intersection(missing))} never come"
