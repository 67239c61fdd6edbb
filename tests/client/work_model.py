"""A work queue in this process, as the broker's is seen by a worker: visibility, delivery counts, answers, dead letters. Its
clock may be the test's own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from orbitmq.client.message import Message
from orbitmq.client.work.handed import HandOut, Session
from orbitmq.client.work.worker import Worker
from orbitmq.client.work.worker_settings import WorkerSettings
from orbitmq.store.commit_log.record import encode

BACK_OFF_S = 10.0  # of a nack without a delay


@dataclass(slots=True)
class Entry:
    """One message of the queue."""

    message: Message
    deliveries: int = 0
    due: float = 0.0  # when it may be handed out; of one in hand: when it is handed out again
    owner: ModelSession | None = None
    done: bool = False
    reasons: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Handed:
    """A hand-out; `count` says which delivery of the entry it is, by which a late answer is known."""

    entry: Entry
    delivery: int
    deadline: float

    @property
    def message(self) -> Message:
        return self.entry.message


class WorkModel:
    """The queue. clock: seconds; now: of the test's own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, max_tries: int = 16) -> None:
        self.clock = clock
        self.max_tries = max_tries
        self.entries: list[Entry] = []
        self.dead: list[Entry] = []
        self.sessions: list[ModelSession] = []
        self.changed = threading.Condition()
        self.log: list[str] = []  # what sessions answered, and in which order

    def send(self, *bodies: bytes, topic: str = "orders", properties: dict[str, str] | None = None) -> None:
        with self.changed:
            for body in bodies:
                offset = len(self.entries)
                places = {"queue_offset": offset, "physical_offset": offset * 1000}
                record = encode(topic, body, properties=properties or {}, **places)
                self.entries.append(Entry(Message.from_record(record)))
            self.changed.notify_all()

    def worker(self, **settings: object) -> Worker:
        return Worker(self.open, "billing", ["orders"], **settings)

    def open(self, settings: WorkerSettings) -> Session[HandOut]:
        session = ModelSession(self, settings)
        self.sessions.append(session)
        made: Session[HandOut] = session  # type: ignore[assignment]  # of its own hand-outs
        return made

    def kill(self, session: ModelSession) -> None:
        """Its process died: what it had comes again at once."""
        with self.changed:
            for entry in self.entries:
                if entry.owner is session:
                    entry.owner, entry.due = None, 0.0
            session.closed = True
            self.changed.notify_all()

    @property
    def done(self) -> list[bytes]:
        return [bytes(entry.message) for entry in self.entries if entry.done]

    def entry(self, body: bytes) -> Entry:
        return next(each for each in self.entries if bytes(each.message) == body)

    def due(self, now: float) -> list[Entry]:
        """Those that may be handed out; one in hand whose time is over loses its owner."""
        for entry in self.entries:
            if entry.owner is not None and entry.due <= now:
                entry.owner = None
        return [each for each in self.entries if not each.done and each.owner is None and each.due <= now]


class ModelSession:
    """What WorkSession is to a worker."""

    def __init__(self, model: WorkModel, settings: WorkerSettings) -> None:
        self.model = model
        self.settings = settings
        self.refused: list[Handed] = []
        self.closed = False
        self.interrupted = False
        self.asked: list[int] = []  # how many each take wanted

    def take(self, most: int, timeout: float | None) -> list[Handed]:
        model = self.model
        end = None if timeout is None else time.monotonic() + timeout
        with model.changed:
            self.asked.append(most)
            while True:
                now = model.clock()
                held = sum(entry.owner is self and not entry.done for entry in model.entries)
                found = []
                for entry in model.due(now)[: max(0, min(most, self.settings.in_hand - held))]:
                    entry.deliveries += 1
                    entry.owner, entry.due = self, now + self.settings.visibility
                    found.append(Handed(entry, entry.deliveries, entry.due))
                left = None if end is None else end - time.monotonic()
                if found or self.interrupted or (left is not None and left <= 0):
                    self.interrupted = False
                    return found
                model.changed.wait(0.1 if left is None else min(0.1, left))

    def ack(self, hand_outs: Sequence[Handed]) -> None:
        with self.model.changed:
            for each in hand_outs:
                if self._mine(each):
                    each.entry.done = True
                    each.entry.owner = None
            self._say("ack", hand_outs)

    def nack(self, hand_out: Handed, delay: float | None = None, reason: str = "", digest: str = "") -> None:
        model = self.model
        with model.changed:
            if self._mine(hand_out):
                entry = hand_out.entry
                entry.owner = None
                entry.reasons.append((reason, digest))
                entry.due = model.clock() + (BACK_OFF_S if delay is None else delay)
                if entry.deliveries >= model.max_tries:
                    entry.done = True
                    model.dead.append(entry)
            self._say("nack", [hand_out])

    def extend(self, hand_out: Handed, seconds: float) -> None:
        with self.model.changed:
            if self._mine(hand_out):
                hand_out.deadline = hand_out.entry.due = self.model.clock() + seconds
            self._say("extend", [hand_out])

    def give_back(self, hand_outs: Sequence[Handed]) -> None:
        with self.model.changed:
            for each in hand_outs:
                if self._mine(each):
                    each.entry.owner = None
                    each.entry.due = 0.0
                    each.entry.deliveries -= 1
            self._say("give back", hand_outs)

    def settled(self, timeout: float | None) -> list[Handed]:
        with self.model.changed:
            refused, self.refused = self.refused, []
            return refused

    def interrupt(self) -> None:
        self.interrupted = True  # signal handlers call this, so it takes no lock

    def close(self, timeout: float | None = 0.0) -> None:
        self.model.kill(self)

    def _mine(self, each: Handed) -> bool:
        entry = each.entry
        self.model.due(self.model.clock())
        if entry.owner is self and entry.deliveries == each.delivery and not entry.done:
            return True
        self.refused.append(each)
        return False

    def _say(self, what: str, hand_outs: Sequence[Handed]) -> None:
        if hand_outs:
            self.model.log.append(f"{what} {' '.join(bytes(each.message).decode() for each in hand_outs)}")
        self.model.changed.notify_all()
