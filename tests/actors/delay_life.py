"""A broker's stages in this process (tests/power/life.py), together with the scheduler, whose clocks the test moves."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from orbitmq.actors.scheduler import Scheduler
from orbitmq.native._core import lib
from orbitmq.store.commit_log.record import Record, check
from orbitmq.store.delays import DELAY_TOPICS
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings.settings import StoreSettings
from orbitmq.store.settings.tree_settings import TreeSettings
from tests.native.pipeline import MESSAGE, Verdict
from tests.power.life import Life, open_store
from tests.waiting import WATCHDOG_S, Stuck

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
TIMER = "rmq_sys_wheel_timer"
AT = 0xFFFFFFFF  # in the place of a level: the properties begin with the time
CANCEL = 0xFFFFFFFE  # likewise, with the queue offset of the message that is cancelled
BLANK = (0xCBD43194).to_bytes(4, "big")


def delayed(body: bytes, level: int, queue: int = 0, properties: bytes = b"") -> bytes:
    """One message of a frame."""
    content = MESSAGE.pack(len(body), len(properties), queue, 0, 0, level) + properties + body
    return content + bytes(-len(content) % 8)


def timed(body: bytes, at_ms: int, queue: int = 0) -> bytes:
    """One message of a frame, with a time."""
    content = MESSAGE.pack(len(body), 8, queue, 0, 0, AT) + at_ms.to_bytes(8, sys.byteorder) + body
    return content + bytes(-len(content) % 8)


def cancelling(offset: int) -> bytes:
    """One message of a frame that cancels another."""
    return MESSAGE.pack(0, 8, 0, 0, 0, CANCEL) + offset.to_bytes(8, sys.byteorder)


def settings_of(root: Path, **files: int) -> TreeSettings:
    sizes = {"log_file_size": 64 << 10, "message_max": 8 << 10}
    sizes |= {"index_slots": 100, "index_entries": 400, "queue_file_units": 50}
    return TreeSettings(
        layout=StoreLayout.at(root),
        files=StoreSettings(**{**sizes, **files}),
        name="delay",
        handlers=1,
        lane_capacity=64 << 10,
        topic_capacity=64,
        queue_capacity=512,
        retention_hours=0,
    )


class DelayLife:
    """One life of a tree. ahead: how far the scheduler's two clocks are ahead of the machine's, ms."""

    def __init__(
        self,
        settings: TreeSettings,
        topics: tuple[str, ...] = ("T", "U"),
        room: int = 0,
        most: int = 0,
        rounds: int = 0,
        ahead: tuple[int, int] = (0, 0),
    ) -> None:
        """room: messages with a time that the scheduler holds in memory; 0: as many as usual. rounds: how often it may step at
        the start before it knows how far it is; 0: as often as it must."""
        self.settings = settings
        self.room = room
        self.rounds = rounds
        self.most = most  # units of messages with a time that it reads in one step; 0: as many as usual
        self.life = Life(settings, open_store(settings), topics)
        for topic in DELAY_TOPICS:
            self.life.registry.add_waiting(topic)
        self.life.take_writes()
        self.ahead = ahead
        self.scheduler: Any = None
        self.begin_scheduler()

    def begin_scheduler(self) -> None:
        """As after the death of the one before: what it has mapped is let go, and nothing else."""
        if self.scheduler is not None:
            self.scheduler.close()
        self.scheduler = Scheduler(self.life.tree)
        self.set_clocks(*self.ahead)
        if self.room:
            lib.scheduler_set_room(self.scheduler.handle, self.room)
        if self.most:
            lib.scheduler_set_most(self.scheduler.handle, self.most)
        self.life.index()
        round_ = 0
        while not lib.scheduler_knows(self.scheduler.handle) and not (self.rounds and round_ == self.rounds):
            round_ += 1
            self.scheduler.step()
            self.life.writer.step()  # messages with a time that were passed over
            self.life.make_file()
            self.life.index()
        if self.scheduler._files.start is None:
            self.flush()
            self.scheduler.need()

    def begin_writer(self) -> None:
        """The same for the writer."""
        life = self.life
        life._open.remove(life.writer)
        life.writer.close()
        life.writer = type(life.writer)(life.tree)
        life._open.append(life.writer)
        life.index()
        life.writer.run(10_000)

    def set_clocks(self, real_ms: int, monotonic_ms: int) -> None:
        self.ahead = (real_ms, monotonic_ms)
        lib.scheduler_set_clocks(self.scheduler.handle, real_ms, monotonic_ms)

    def pass_time(self, ms: int) -> None:
        self.set_clocks(self.ahead[0] + ms, self.ahead[1] + ms)

    def send(self, topic: str, level: int, *bodies: bytes, queue: int = 0, properties: bytes = b"") -> list[Verdict]:
        return self._send(topic, [delayed(body, level, queue, properties) for body in bodies])

    def send_at(self, topic: str, at_ms: int, *bodies: bytes, queue: int = 0) -> list[Verdict]:
        """at_ms: by the machine's clock."""
        return self._send(topic, [timed(body, at_ms, queue) for body in bodies])

    def cancel(self, topic: str, *offsets: int) -> list[int]:
        """Of messages with a time, by their queue offsets. Returns the queue offsets of the records that cancel them."""
        verdicts = self._send(topic, [cancelling(offset) for offset in offsets])
        assert {(verdict.code, verdict.queue_id) for verdict in verdicts} == {(1, 0)}
        return [verdict.queue_offset for verdict in verdicts]

    def outcome(self, offset: int) -> int:
        """What became of a record that cancels: lib.CANCEL_*."""
        found: int = lib.delay_cancel_outcome(self.life.tree.control, offset)
        return found

    def _send(self, topic: str, parts: list[bytes]) -> list[Verdict]:
        life = self.life
        life._session.send(*parts, topic=life.topics[topic].index, topic_hash=life._hashes[topic])
        while lib.handler_step(life._handler) + life.writer.step() or life._session.completed < life._answered + len(parts):
            life.make_file()
        first = life._answered + 1
        life._answered = life._session.completed
        life.index()
        return [life._session.verdict(sequence) for sequence in range(first, life._answered + 1)]

    def schedule(self) -> int:
        """One step of the scheduler."""
        done: int = self.scheduler.step()
        return done

    def flush(self) -> None:
        lib.flush_step(self.life.flush.handle)

    def settle(self) -> None:
        """Until everybody has nothing more to do. Raises: Stuck."""
        deadline = time.monotonic() + WATCHDOG_S
        while self.schedule() + self.life.writer.step():
            if time.monotonic() > deadline:
                raise Stuck(f"somebody still has something to do after {WATCHDOG_S:g} s")
            self.life.make_file()
            self.life.index()
        self.life.index()

    def keep(self) -> None:
        """The files, as they are written now and then; only if the disk has what they would say."""
        self.scheduler._keep()
        self.scheduler._settle(wait=True)

    def stop(self) -> bool:
        self.life.writer.step()
        self.scheduler.drain()
        return self.life.stop()

    def end(self) -> None:
        """Like SIGKILL to the whole tree: nothing is written any more."""
        self.scheduler.close()
        self.life.close()

    def records(self) -> list[Record]:
        """Every record of the log, as it stands below the wrote position."""
        seen, size = self.life.tree.positions(), self.settings.files.log_file_size
        at, found = int(seen.min_offset), []
        while at < seen.wrote:
            content = self.settings.layout.log_file(at - at % size).read_bytes()
            place = at % size
            if content[place + 4 : place + 8] == BLANK:
                at += size - place
                continue
            record = check(content[place:], physical_offset=at)
            assert isinstance(record, Record), f"at {at}: {record!r}"
            found.append(record)
            at += record.size
        return found

    def delivered(self) -> list[Record]:
        """Messages in their own topics."""
        return [record for record in self.records() if record.topic not in (SCHEDULE, TIMER)]
