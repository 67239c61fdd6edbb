"""A worker's session: takes what the broker hands out, reads the messages from the store's files, and sends answers. The
queue's state is in the broker (docs/work-queue.md). `client/work/worker.py` is the face that programs use.

Any thread may call anything. A lock is held for the short time in which the session's rings are touched, never while a call
waits, so `take` of one thread does not make `ack` of another wait."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from orbitmq.client import argument
from orbitmq.client.connection.connection import checked_wait
from orbitmq.client.connection.session import ConsumerOpener, SessionHandle
from orbitmq.client.consumer.patience import Patience
from orbitmq.client.consumer.subscription import topic_names
from orbitmq.client.parameters import spelled
from orbitmq.client.unclosed import Shown, state, warn_unclosed
from orbitmq.client.work.answers import Answers, text_of
from orbitmq.client.work.hand_out import HandOut
from orbitmq.client.work.line import Line
from orbitmq.client.work.refusals import Refusals
from orbitmq.client.work.settings import WorkSettings, check_seconds
from orbitmq.errors import BrokerStopped, Closed, OrbitError, SettingError
from orbitmq.native._core import ffi, lib
from orbitmq.native._types import Reader, Taken, Turns
from orbitmq.shm.crash_point import crash_point

if TYPE_CHECKING:
    from orbitmq.client.several import Several

RECORDS = 256  # taken out of the ring at a time
NAP_NS = 100_000_000
NEVER = (1 << 64) - 1
LONG_S = 1e6  # for ever
_sessions: weakref.WeakSet[WorkSession] = weakref.WeakSet()


class _InterruptError(Exception):
    """`interrupt` ends a wait for a broker."""


@spelled
class WorkSession(Shown):
    """Made by `Client.work_session`. of_worker: a Worker made it, which itself warns if it is not closed."""

    def __init__(
        self,
        opener: ConsumerOpener,
        group: str,
        topics: Several[str],
        *,
        visibility: float = 30.0,
        in_hand: int = 1024,
        max_tries: int | None = None,
        key_ordered: bool = False,
        tags: str | None = None,
        sql: str | None = None,
        start: Literal["earliest", "latest"] = "earliest",
        wait: float = 0.0,
        of_worker: bool = False,
    ) -> None:
        self._opener = opener
        self._patience = Patience(opener, checked_wait(wait))
        self.settings = WorkSettings(group, topic_names(topics), visibility, in_hand, max_tries, key_ordered, start, tags, sql)
        self._lock = threading.Lock()
        self._attaching = Turns()  # to wait for a broker: whoever has it does not hold the lock meanwhile
        self._ready: deque[HandOut] = deque()  # read, and not given to the program yet
        self._records: deque[Any] = deque()  # handed out, and not read yet
        self._damaged: OrbitError | None = None  # raised by the next take
        self._mine = 0  # given to the program, and not answered
        self._refused = Refusals()  # the broker said that they were not ours any more
        self._life = 0  # which session; hand-outs of an earlier one cannot be answered any more
        self._handle: SessionHandle | None = None
        self._closing = False
        self._leaving = False  # `close` has begun: nobody waits for a broker any more
        self._interrupted = False
        self._attach(None, self._look)
        self._made_by = 0 if of_worker else os.getpid()
        _sessions.add(self)

    # ---- what the worker calls

    def take(self, most: int, timeout: float | None) -> list[HandOut]:
        """The next messages, at most `most`. Waits until there is one; [] when `timeout` seconds are over (None: waits for
        ever), or after `interrupt`. `most` is also how many the broker may hand to this session beyond those that the program
        has.

        Raises: BrokerStopped: the broker has stopped; what is in hand comes again from the next one. BrokerNotRunning. Closed.
            CorruptRecord: a message cannot be read; it is handed out again after `visibility` seconds.
        """
        if most < 1:
            raise SettingError(f"could not take {most} messages: the number must be at least 1", setting="most", value=most)
        deadline = argument.deadline(timeout, "take messages")
        while True:
            try:
                if not self._attach(deadline, self._look_taking):
                    return []
            except _InterruptError:
                self._interrupted = False
                return []
            with self._lock:
                if not self._usable():
                    continue  # it has ended in this moment
                try:
                    found = self._take(most)
                except BrokerStopped:
                    if not self._patience:
                        raise
                    continue
                if found:
                    return found
                if self._interrupted:
                    self._interrupted = False
                    return []
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return []
                line = self._line.entered()
            self._sleep(line, NEVER, left)

    def ack(self, hand_outs: Sequence[HandOut]) -> None:
        """These messages are done. Returns at once: `settled` waits until the broker knows. Answers that come too late do not
        count, and `settled` returns them."""
        self._answer(lib.WORK_ACK, hand_outs, 0)

    def nack(self, hand_out: HandOut, delay: float | None = None, reason: str = "", digest: str = "") -> None:
        """This message was not done: it is handed out again after `delay` seconds; None: after a time that grows with its
        deliveries, as RocketMQ's levels say (10 s, 30 s, 1 m, 2 m, ...), out of the group's retry topic. If it was the last of
        the group's tries, it goes to the dead letters. reason, digest: of the failure; they become properties of the retry or
        the dead letter."""
        if delay is not None:
            check_seconds("delay", delay, 0.0)
        time_ms = lib.WORK_BACK_OFF if delay is None else round(delay * 1000)
        self._answer(lib.WORK_NACK, (hand_out,), time_ms, text_of(reason, digest))

    def extend(self, hand_out: HandOut, seconds: float) -> None:
        """This message stays in hand for so many seconds from now on."""
        check_seconds("seconds", seconds, 0.0)
        hand_out.deadline = time.monotonic() + seconds
        self._answer(lib.WORK_EXTEND, (hand_out,), round(seconds * 1000))

    def give_back(self, hand_outs: Sequence[HandOut]) -> None:
        """Nothing was done with these: others get them at once, and it does not count as a delivery. The same for what the
        program has not got yet; until the next `take` the broker hands out no more to this session."""
        self._answer(lib.WORK_GIVE_BACK, hand_outs, 0)
        with self._lock:
            if not self._closing and self._usable():
                self._decline()

    def settled(self, timeout: float | None) -> list[HandOut]:
        """Waits until the broker has applied all answers so far, or the time is over. Returns those since the last call that
        did not count, because the message was not in this session's hands any more; others may work, or have worked, on it.

        What was acknowledged, applied, and not returned here is not handed out again, whichever processes are killed. Raises:
        TimedOut: not all answers are applied; repeating is safe. BrokerStopped: some may not have counted. JobLost: more than
        65,536 did not count since the last call; it has the ids of the last ones. Closed.
        """
        deadline = argument.deadline(timeout, "wait for answers")
        if not self._attach(deadline, self._look):
            raise self._answers.late(self.settings.group, timeout or 0.0)
        return self._settled(timeout, deadline)

    def _settled(self, timeout: float | None, deadline: float | None) -> list[HandOut]:
        """With the broker that this session is with; if that ends, the answers are the next one's to refuse."""
        target = life = -1
        while True:
            with self._lock:
                if not self._usable():
                    return self._refused.take(self.settings.group)
                if target < 0:
                    target, life = self._answers.target, self._life
                    lib.work_link_tell(self._line.link)
                applied = life != self._life or self._answers.applied() >= target
                self._receive()
                if applied:
                    return self._refused.take(self.settings.group)
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise self._answers.late(self.settings.group, timeout or 0.0)
                line = self._line.entered()
            self._sleep(line, target, left)

    def interrupt(self) -> None:
        """Ends one wait of `take`: that of another thread, or else the next one. Signal handlers may call it."""
        self._interrupted = True
        # If another thread has the lock, or this one below the signal handler, nobody sleeps for more than a tenth of a second.
        if self._lock.acquire(blocking=False):
            try:
                self._ring()
            finally:
                self._lock.release()
        self._patience.ring()

    def close(self, timeout: float | None = 0.0) -> None:
        """Gives back what the program has not got yet, waits for the answers to be applied, and ends the session: what is still
        in hand is handed out again at once, and counts as delivered. Closing again does nothing."""
        timeout = argument.seconds_or_none(timeout, "close")
        self._leaving = True
        self._patience.ring()
        with suppress(OrbitError):
            with self._lock:
                if not self._closing and self._usable():
                    self._decline()
            if timeout is None or timeout > 0:
                self._settled(timeout, argument.deadline(timeout, "close"))
                with self._lock:
                    again = self._usable() and self._decline()  # handed out just before the broker saw that we want no more
                if again:
                    self._settled(timeout, argument.deadline(timeout, "close"))
        self._closing = True
        self._patience.ring()
        with self._lock:
            self._ring()
            self._detach()

    @property
    def generation(self) -> int:
        """Of the broker that the session is with; 0: with none now."""
        handle = self._handle
        return 0 if handle is None else handle.generation

    @property
    def closed(self) -> bool:
        """True once `close` was called."""
        return self._closing

    def __enter__(self) -> WorkSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.close(5.0 if error[0] is None else 0.0)

    # ---- taking; the lock is held

    def _take(self, most: int) -> list[HandOut]:
        self._receive()
        ready = self._ready
        if len(ready) < most:
            self._fill(most)
        if self._damaged is not None and not ready:
            damaged, self._damaged = self._damaged, None
            raise damaged
        found, late = list[HandOut](), list[HandOut]()
        now = time.monotonic()
        while ready and len(found) < most:
            each = ready.popleft()
            (found if each.deadline > now else late).append(each)
        if late:  # another worker may have them already
            self._answers.put(lib.WORK_GIVE_BACK, late, 0, self._make_room, told=False)
        lib.work_link_want(self._line.link, min(self.settings.in_hand, max(self._mine, 0) + most))
        if not found:  # they may be what this session gets next
            lib.work_link_tell(self._line.link)
        self._mine += len(found)
        return found

    def _decline(self) -> bool:
        """Wants no more than the program has, and gives back the rest. True if there was a rest."""
        lib.work_link_want(self._line.link, min(self.settings.in_hand, max(self._mine, 0)))
        self._receive()
        with suppress(BrokerStopped):  # it has no use for the rest
            self._fill(lib.WORK_WINDOW)
        left = list(self._ready)
        self._ready.clear()
        self._mine += len(left)  # _put counts what it answers as given to the program
        self._put(lib.WORK_GIVE_BACK, left, 0)
        return bool(left)

    def _receive(self) -> None:
        """Takes records out of the ring, so that there is room."""
        applied = self._answers.applied()
        while count := lib.work_link_take(self._line.link, self._room, RECORDS):
            for record in self._room[0:count]:
                if record.kind == lib.WORK_HAND_OUT:
                    given = (record.tries, record.time_ms / 1000)
                    self._records.append((record.queue, record.opening, int(record.first), record.count, *given))
                elif record.kind == lib.WORK_REFUSED:
                    named = (record.queue, record.opening, int(record.first), record.count, record.tries)
                    self._refused.add(self._answers.refused(*named))
        self._answers.prune(applied)

    def _fill(self, most: int) -> None:
        """Reads messages that were handed out."""
        while self._records and len(self._ready) < most and self._damaged is None:
            slot, opening, first, count, tries, deadline = self._records.popleft()
            part = min(count, max(1, most - len(self._ready)))
            if part < count:
                self._records.appendleft((slot, opening, first + part, count - part, tries, deadline))
            self._read(slot, opening, first, part, tries, deadline)

    def _read(self, slot: int, opening: int, first: int, count: int, tries: int, deadline: float) -> None:
        at, end = first, first + count
        while at < end:
            try:
                messages = self._reader.range(self._cursor(slot), at, end - at)
            except OrbitError as error:
                if not lib.work_link_alive(self._line.link):  # the next broker's recovery may be making the files anew
                    raise self._gone("read messages") from error
                self._damaged = error
                self._answers.put_off(slot, opening, at, tries, round(self.settings.visibility * 1000), self._make_room)
                if at + 1 < end:
                    self._records.appendleft((slot, opening, at + 1, end - at - 1, tries, deadline))
                return
            for message in messages:
                offset = message.offset
                if offset != at:
                    self._answers.pass_over(slot, opening, at, offset - at, tries)
                self._ready.append(HandOut(message, tries, deadline, slot, opening, offset, self._life))
                at = offset + 1
            if not messages:  # no messages stand there, or retention has removed them
                self._answers.pass_over(slot, opening, at, end - at, tries)
                return

    def _cursor(self, slot: int) -> int:
        """The reader's cursor for a queue slot, which may be that of a queue that its topic got later."""
        if slot not in self._cursors:
            self._cursors[slot] = self._reader.add(slot, 0)
        return self._cursors[slot]

    # ---- answering

    def _answer(self, kind: int, hand_outs: Sequence[HandOut], time_ms: int, text: bytes = b"") -> None:
        with self._lock:
            if self._closing:
                raise Closed("could not answer: this worker is closed", hint="make another one")
            self._put(kind, hand_outs, time_ms, text)

    def _put(self, kind: int, hand_outs: Sequence[HandOut], time_ms: int, text: bytes = b"") -> None:
        if not hand_outs:
            return
        life = self._life
        if kind != lib.WORK_EXTEND:
            self._mine -= len(hand_outs)
        mine = hand_outs if life == 1 else [each for each in hand_outs if each.life == life]
        if len(mine) != len(hand_outs):
            self._refused.add([each for each in hand_outs if each.life != life])
        if mine and self._handle is None and kind in (lib.WORK_ACK, lib.WORK_NACK):
            self._refused.add(mine)  # their broker has ended, and the next one hands them out again
        if mine and self._handle is not None:
            if kind in (lib.WORK_NACK, lib.WORK_GIVE_BACK):
                lib.work_link_want(self._line.link, max(self._mine, 0))  # they are for others until we ask for more
            try:
                self._answers.put(kind, mine, time_ms, self._make_room, text=text)
            except BrokerStopped:
                if not self._patience:
                    raise
                if kind in (lib.WORK_ACK, lib.WORK_NACK):
                    self._refused.add(mine)

    def _make_room(self) -> None:
        """The ring of answers is full: the dispatcher takes some once there is room for its refusals."""
        self._receive()
        if lib.work_link_wait(self._line.link, self._answers.applied() + 1, NAP_NS) == lib.WORK_LINK_GONE:
            raise self._gone("answer")

    # ---- waiting

    def _sleep(self, line: Line, target: int, left: float | None) -> None:
        """At most a tenth of a second, without the lock. line: entered."""
        limit = NAP_NS if left is None else min(NAP_NS, max(0, int(left * 1e9)))
        result = lib.WORK_LINK_TIMEOUT
        try:
            result = lib.work_link_wait(line.link, target, limit)
        finally:
            with self._lock:
                line.left()
        if result == lib.WORK_LINK_GONE:
            with self._lock:
                if line is self._line and self._handle is not None and not self._closing:
                    error = self._gone("wait for work")
                    if not self._patience:
                        raise error

    def _ring(self) -> None:
        if self._handle is not None and self._usable():
            lib.work_link_ring(self._line.link)

    # ---- the session; the lock is not held

    def _attach(self, deadline: float | None, look: Callable[[], None]) -> bool:
        """Goes to the next broker, if the session is with none. False: the deadline came first. The lock is free while it waits
        for one, so that others can answer, stop and close; look: what they end the wait by."""
        with self._lock:
            self._refuse_closed()
            if self._usable():
                return True
        limit = LONG_S if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            with self._attaching.within(limit) as depth:
                if depth > 1:  # a signal handler, over a call that waits
                    return False
                with self._lock:
                    self._refuse_closed()
                    if self._usable():
                        return True
                    self._detach()
                return self._patience.outlast(self._open, deadline, look)
        except Taken:
            return False

    def _look(self) -> None:
        if self._leaving:
            raise Closed("could not wait for a broker: the worker was closed", hint="make another one")

    def _look_taking(self) -> None:
        self._look()
        if self._interrupted:
            raise _InterruptError

    def _open(self) -> None:
        ring = self.settings.ring_capacity
        handle = self._patience.open_session(work_capacity=ring)
        try:
            fields = {"slot": handle.slot, "epoch": handle.epoch, "generation": handle.generation}
            self._opener.ask("join_work", **fields, **self.settings.fields())
            crash_point("work_session_joined")
            reader = Reader(handle.control_address, handle.topics_address, handle)
            reader.home = self._opener
            shape = ffi.new("struct session_shape *", {"slot": handle.slot, "epoch": handle.epoch, "work_capacity": ring})
            addresses = handle.address, handle.control_address, handle.wake_address, handle.supervisor_fd
            link = lib.work_link_open(*addresses, shape)
            if link == ffi.NULL:
                raise MemoryError("struct work_link")
            with self._lock:
                self._look()
                self._enter(Line(ffi.gc(link, lib.work_link_close), handle), reader, ring)
                self._handle = handle
        except BaseException:
            if self._handle is not handle:  # Ctrl-C may come just after
                handle.leave()  # the line, which may be entered already, keeps its memory mapped
            raise

    # ---- the session; the lock is held

    def _refuse_closed(self) -> None:
        if self._closing:
            raise Closed("could not use this worker: it is closed", hint="make another one")

    def _usable(self) -> bool:
        return self._handle is not None and self._handle.pid == os.getpid()

    def _gone(self, doing: str) -> BrokerStopped:
        self._detach()
        name = self._opener.name
        again = "call it again: it goes to the next broker, once one runs, which hands out again what was not acknowledged"
        return BrokerStopped(f"could not {doing}: the broker {name!r} stopped", hint=again, broker=name)

    def _enter(self, line: Line, reader: Reader, ring: int) -> None:
        self._line = line
        self._room = ffi.new("struct work_record[]", RECORDS)
        self._reader = reader
        self._cursors: dict[int, int] = {}
        self._life += 1
        self._mine = 0
        self._answers = Answers(self._line.link, ring // 4)

    def _detach(self) -> None:
        handle = self._handle
        self._ready.clear()
        self._records.clear()
        if handle is None:
            return
        try:
            self._handle = None
            self._refused.add(self._answers.end())
            self._reader.close()
            self._line.end()
        except BaseException:  # of a signal handler: closing again would find no session
            handle.leave()
            raise

    def _words(self) -> str:
        topics = ", ".join(map(repr, self.settings.topics))
        return f"of the broker {self._opener.name!r}, group {self.settings.group!r}, topics {topics}, {state(self._closing)}"

    def __del__(self) -> None:
        if not getattr(self, "_closing", True):
            warn_unclosed(self, getattr(self, "_made_by", 0))

    def _forked(self) -> None:
        """In a forked child: the session is the parent's."""
        self._lock = threading.Lock()
        self._attaching = Turns()
        self._handle = None
        self._ready.clear()
        self._records.clear()


def _forked() -> None:
    for session in list(_sessions):
        session._forked()


os.register_at_fork(after_in_child=_forked)
