"""A consumer's session: opens one if there is no valid one, lets it go, and decides who may use it.

One thread at a time has the turn (native/python/turns.c). Every call takes the turn; `_settled` then makes sure that there is a
session of this process with the running broker, and a valid assignment. `close` may come at any moment, from any thread. Then
at least one of the two, the closing thread or the one with the turn, sees that the other has finished, and gives the session
back."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NoReturn, TypeVar

from orbitmq.client.connection.session import ConsumerOpener, SessionHandle
from orbitmq.client.consumer.assignment import Assignment, Move
from orbitmq.client.consumer.listener import Listener, QueuesCallback, QueuesEvent
from orbitmq.client.consumer.membership import JoinSettings, Membership
from orbitmq.client.consumer.patience import Patience
from orbitmq.client.consumer.subscription import room_for
from orbitmq.client.unclosed import Shown, warn_unclosed
from orbitmq.errors import BrokerNotRunning, BrokerStopped, Closed, Interrupted, OrbitError, StoreError, UsageError
from orbitmq.native._core import lib
from orbitmq.native._types import PullHold, Reader, Taken, Turns
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.means import means

if TYPE_CHECKING:
    from orbitmq.shm.topic_table import QueueKey

CAPACITY = 1024  # queues that a session has room for, unless its topics have more
LONGEST_SPIN_NS = 1 << 62
REFRESH_S = 5.0  # how often a consumer without a group looks for new queues in its topics
GONE = (BrokerStopped, BrokerNotRunning)

_Result = TypeVar("_Result")
_sessions: weakref.WeakSet[ConsumerSession] = weakref.WeakSet()


class ConsumerSession(Shown):
    """topics, tags, sql, start, verify, strict, spin: what is read in every session, and how. settings: of a member; None: no
    group."""

    def __init__(
        self,
        opener: ConsumerOpener,
        group: str | None,
        topics: Sequence[str],
        settings: JoinSettings | None,
        listener: Listener,
        *,
        tags: Sequence[bytes],
        sql: bytes | None,
        start: Literal["earliest", "latest"],
        verify: bool,
        strict: bool,
        spin: float,
        wait: float,
    ) -> None:
        self._opener = opener
        self._patience = Patience(opener, wait)
        self._group = group
        self._topics = topics
        self._doing = f"read {', '.join(map(repr, topics))}"  # what could not be done, for error messages
        self._tags = tags
        self._sql = sql
        self._start = start
        self._verify = verify
        self._strict = strict
        self._spin_ns = int(min(spin * 1e9, LONGEST_SPIN_NS))
        self._closing = self._finalized = False  # _finalized: its finalizer has run, which may wait for nothing
        self._interrupted = False
        self._stale = True
        self._handle: SessionHandle | None = None
        self._reader: Reader
        self._hold: PullHold
        self._assignment: Assignment
        self._listener = listener
        self._informing = 0  # the thread that runs a callback
        # by an event loop, which calls the callbacks itself (see Events), and in which no session is opened
        self._awaited = False
        self._member = None if settings is None else Membership(opener, str(group), settings, listener)
        self._kept: dict[QueueKey, int] = {}  # without a group: positions to continue at when a session is lost
        self._ended = False  # BrokerStopped was raised for this session
        self._refresh_at = 0.0
        self._skipped = 0
        self._turns = Turns()
        self._reattach()
        _sessions.add(self)
        self._made_by = os.getpid()

    # ---- turns

    def _use(self, work: Callable[[], _Result], *, rebalance: bool = True, lazy: bool = False, within: bool = False) -> _Result:
        """Runs `work` with the turn, once `_settled` is true, and returns its result. within: callbacks may call it too."""
        with means(self._doing):
            if within and self._informing == threading.get_ident():
                return work()
            try:
                with self._turns:
                    if self._closing:
                        self._refuse()
                    # Makes sure that there is a session of this process, and a valid assignment.
                    while not self._settled(rebalance, lazy) and not lazy:
                        pass
                    return work()
            except Taken:
                self._refuse()
            finally:
                if self._closing:
                    self._finish()

    def _refuse(self) -> NoReturn:
        """The error for a call while another thread has the turn."""
        if self._closing:
            raise Closed("could not use this consumer: it is closed", hint="make another one") from None
        if self._informing == threading.get_ident():
            raise UsageError("could not read or wait in a callback of this consumer", hint="return, and poll then") from None
        raise UsageError("could not use this consumer: another thread does", hint="make one consumer a thread") from None

    def _settled(self, rebalance: bool, lazy: bool) -> bool:
        """Opens a session if there is none, and takes a new assignment if there is one. lazy: if the consumer has patience, the
        caller handles an absent broker. False if the broker has ended meanwhile and the consumer has patience."""
        if self._stale:
            if lazy and self._patience:
                return False
            self._reattach()
        try:
            if (state := self._hold.check()) and rebalance:
                if state == lib.PULL_HOLD_GONE:
                    raise self._gone(self._doing)
                crash_point("consumer_session_outdated")
                assert self._member is not None
                self._member.rebalance()
            if self._member is not None and self._member.doubt:
                self._member.look_back()
            if self._member is None:
                if time.monotonic() >= self._refresh_at:
                    self._refresh()
            elif rebalance and self._member.pending and not self._awaited:
                self._inform()
        except GONE as error:
            self._outlive(error)
        return not self._stale

    # ---- the broker's end

    def _gone(self, doing: str) -> BrokerStopped:
        """Reports the end of the broker, once. The next call attaches to its successor."""
        self._stale = self._ended = True
        name = self._opener.name
        again = "call it again: it goes to the next broker, once one runs"
        return BrokerStopped(f"could not {doing}: the broker {name!r} stopped", hint=again, broker=name)

    def _misread(self, error: StoreError) -> None:
        """Something could not be read. If the broker is dead, the next one's recovery may be making the files anew, so this is
        the broker's end: what is damaged all the same is found in the next session."""
        if not self._hold.dead():
            raise error
        self._outlive(self._gone("read messages"))

    def _outlive(self, error: OrbitError) -> None:
        """With patience, the end of the consumer's own broker is no error: it only leaves no session. A callback may have met
        the end of another broker, which is an error."""
        if not self._patience or not (self._stale or self._hold.gone()):
            raise error
        self._stale, self._ended = True, False  # the end of this broker was not reported

    def _reattach(self, deadline: float | None = None) -> bool:
        """Opens a session with the running broker, or with the next one. False: the deadline came first."""
        if deadline is not None and self._awaited and deadline <= time.monotonic():
            return False
        return self._patience.outlast(self._attach, deadline, self._look)

    def _look(self) -> None:
        """Called before every wait. An interrupter first sets the reason, and then ends the wait of the session that it
        finds."""
        if self._closing:
            raise Closed("could not wait for messages: the consumer was closed", hint="make another one")
        if self._interrupted:
            self._interrupted = False
            raise Interrupted("could not wait for messages: interrupt() was called", hint="poll again: nothing was taken")

    # ---- attaching

    def _attach(self) -> None:
        """Opens a session of this process with the running broker, and finds queues to read."""
        handle = self._patience.open_session(queue_capacity=CAPACITY)
        try:
            self._detach()
            room = room_for(handle.topics_address, self._topics)
            if room > CAPACITY:
                handle.close()
                handle = self._patience.open_session(queue_capacity=room)
            self._reader = Reader(handle.control_address, handle.topics_address, handle)
            self._reader.verify = self._verify
            self._reader.strict = self._strict
            self._reader.home = self._home
            self._reader.filter(self._tags)
            self._reader.sql(self._sql)
            self._hold = PullHold(handle)
            self._hold.spin(self._spin_ns)
            self._assignment = Assignment(self._reader, self._hold)
            self._handle = handle
            if self._member is None:
                self._refresh(begin=True)
            else:
                self._member.enter(handle, self._assignment)
        except BaseException:
            self._handle = None
            handle.leave()  # what has been made keeps its memory mapped
            raise
        self._stale = False

    @property
    def _home(self) -> object:
        """The connection over which messages are replied to."""
        return self._opener

    def _detach(self) -> None:
        """Lets the session go. Without a group, the positions are kept for the next session."""
        handle, self._handle, self._stale = self._handle, None, True
        if handle is None:
            return
        mapped = True
        try:
            if self._member is None:
                self._kept = self._assignment.positions()
            else:
                self._member.lose(told=self._ended, silent=handle.pid != os.getpid())
            self._ended = False
            self._skipped += self._reader.skipped
            self._reader.close()
            if handle.pid == os.getpid():  # otherwise a thread of the parent's may have been waiting in it
                self._hold.close()
                mapped = self._finalized
        finally:
            try:
                # `interrupt` still writes there if the hold has not let go of it.
                (handle.leave if mapped else handle.close)()
            except BaseException:  # of a signal handler: closing again would find no session
                handle.leave()
                raise

    def _refresh(self, begin: bool = False) -> None:
        """Without a group: adds the queues that the topics have and this consumer does not read yet."""
        assert self._handle is not None
        self._refresh_at = time.monotonic() + REFRESH_S
        # A queue that was added later holds nothing that existed when this consumer began.
        at_end = self._start == "latest" and begin and not self._kept

        def first(key: QueueKey, minimum: int, maximum: int) -> int:
            return min(self._kept.get(key, maximum if at_end else minimum), maximum)

        if self._assignment.follow(self._handle, self._topics, first) or begin:
            self._assignment.announce()

    # ---- what the program is told

    def _inform(self) -> None:
        """Calls the program's callbacks. If one raises, the interrupted call ends with that error, and the queues go all the
        same."""
        assert self._member is not None
        while (event := self._member.next_event()) is not None:
            try:
                if callback := self._listener.callback(event):
                    self._informing = threading.get_ident()
                    callback(self, event.queues)
            finally:
                self._informing = 0
                self._member.done(event)

    def _part(self) -> bool:
        """Called before `close`: releases all queues. False: there is nothing to tell the program."""
        member = self._member
        if member is None or self._listener.on_revoked is None or self._closing or self._stale:
            return False

        def work() -> None:
            if not self._stale:
                member.part()

        with suppress(OrbitError):
            self._use(work, within=True, lazy=True)
        return member.pending and not self._stale

    # ---- the end

    def _end(self) -> None:
        self._closing = True
        if self._handle is not None and not self._stale:
            self._hold.interrupt()
        self._patience.ring()
        self._finish()

    def _finish(self) -> None:
        try:
            with self._turns:
                self._detach()
        except Taken:
            pass  # the thread that has the turn does so after its call

    def __del__(self) -> None:
        if hasattr(self, "_turns"):
            was = None if self._closing else repr(self)
            with suppress(OrbitError, OSError):
                self._finalized = True
                self._end()
            if was is not None:
                warn_unclosed(self, getattr(self, "_made_by", 0), was=was)

    def _forked(self) -> None:
        """In a forked child: a thread that does not exist here may have had the turn, and the session is the parent's."""
        self._turns = Turns()
        self._informing = 0
        self._stale = True


class Events:
    """What a consumer's program is to be told, for an event loop, which calls the callbacks itself. Once this is made, the
    consumer calls none."""

    def __init__(self, session: ConsumerSession) -> None:
        self._session = session
        session._awaited = True

    def next(self) -> QueuesEvent | None:
        """The next event; `done` follows once the program has been told."""
        member = self._session._member
        return None if member is None else member.next_event()

    def callback(self, event: QueuesEvent) -> QueuesCallback | None:
        """Whom the program wants to be called."""
        return self._session._listener.callback(event)

    def done(self, event: QueuesEvent) -> None:
        """The program knows."""

        def work() -> None:
            if self._session._member is not None and not self._session._stale:
                self._session._member.done(event)

        self._session._use(work, rebalance=False, lazy=True)

    def unread(self) -> bool:
        """True if a look that found nothing may not have come to the end of the queues, because filters held messages back."""
        session = self._session
        return bool(session._tags or session._sql) and not session._stale and session._reader.ready()

    def part(self) -> bool:
        """Before the consumer is closed: releases all queues. False: there is nothing to tell the program."""
        return self._session._part()


class Committing:
    """What an atomic batch uses of a consumer (group_offsets.py). Raises: UsageError: the consumer has no group."""

    def __init__(self, session: ConsumerSession) -> None:
        if session._member is None:
            hint = "name one: client.consumer('group', ...)"
            raise UsageError("could not commit offsets with an atomic batch: this consumer has no group", hint=hint)
        self._session = session
        self._member = session._member

    @property
    def group(self) -> str:
        return self._member.group

    def take(self) -> tuple[list[Move], int, int]:
        """What has been delivered and not been committed; slot and epoch of the session. Raises: Fenced: some of it can no
        longer be committed."""

        def work() -> tuple[list[Move], int, int]:
            handle = self._session._handle
            assert handle is not None
            return self._member.moves(), handle.slot, handle.epoch

        return self._session._use(work, within=True)

    def moved(self, moves: Collection[Move]) -> None:
        """They are stored."""
        self._member.moved(moves)

    def let_go(self) -> None:
        """After that: queues that are to go to another member go."""
        with suppress(Taken), self._session._turns:
            if not self._session._stale:
                self._member.let_go()

    def step_back(self) -> None:
        """They are not stored, or perhaps not. What cannot be done now is done by the consumer's next call."""
        self._member.doubt = True
        with suppress(Taken), self._session._turns:
            if not self._session._stale:
                self._member.step_back()


def _forked() -> None:
    for session in list(_sessions):
        session._forked()


os.register_at_fork(after_in_child=_forked)
