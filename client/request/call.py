"""Requests that wait for their replies, found by correlation id."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress

from orbitmq.client.message import Message
from orbitmq.errors import Closed


class Call:
    """One request that waits. Threads wait in ReplyReader.wait; an event loop is told by `told`.

    reply: the first one that came. ended: no reply can come any more. waits: a thread is in ReplyReader.wait."""

    __slots__ = ("_asleep", "_told", "correlation_id", "ended", "reply", "waits")

    def __init__(self, correlation_id: str, told: Callable[[], object] | None) -> None:
        self.correlation_id = correlation_id
        self.reply: Message | None = None
        self.ended = False
        self.waits = False
        self._told = told
        # A lock wakes its waiter with one system call; an Event would take three locks of its own for each request.
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def wake(self) -> None:
        """Called once, by whoever took the call out of the table."""
        if self._told is not None:
            self._told()
        self.nudge()

    def nudge(self) -> None:
        """Ends the current sleep, or else the next one."""
        with suppress(RuntimeError):  # it has been told already
            self._asleep.release()

    def sleep(self, seconds: float) -> None:
        """Returns after `wake` or `nudge`, or after so many seconds."""
        self._asleep.acquire(timeout=min(max(seconds, 0.0), threading.TIMEOUT_MAX))

    @property
    def over(self) -> bool:
        """Whether there is a reply, or can be none any more."""
        return self.reply is not None or self.ended

    def taken(self) -> Message | None:
        """The reply, if there is one. Raises: Closed: the client was closed."""
        if self.reply is None and self.ended:
            raise Closed("could not wait for a reply: the client was closed", hint="connect again")
        return self.reply


class CallTable:
    """The calls of one client. Any thread may use it, and any signal handler: each step is one operation of a dict, which is
    atomic.

    dropped: replies that nobody waited for: late ones, second ones, and those with a correlation id that is none of ours."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._prefix = uuid.uuid4().hex
        self._numbers = itertools.count(1)
        self._ended = False
        self.dropped = 0

    def expect(self, told: Callable[[], object] | None = None) -> Call:
        """A call with a new correlation id. `forget` follows, whatever happens. told: called by another thread when the reply
        has come."""
        call = Call(f"{self._prefix}-{next(self._numbers):x}", told)
        self._calls[call.correlation_id] = call
        if self._ended:  # `end` may not have seen this call
            self.end()
        return call

    def forget(self, call: Call) -> None:
        """Nobody waits for it any more. Doing it again does nothing."""
        self._calls.pop(call.correlation_id, None)

    def waiting(self) -> Call | None:
        """Any call in which a thread waits now."""
        return next((call for call in list(self._calls.values()) if call.waits), None)

    def hand(self, correlation_id: str, reply: Message) -> None:
        """Gives a reply to the call that waits for it."""
        call = self._calls.pop(correlation_id, None)
        if call is None:
            self.dropped += 1
            return
        call.reply = reply
        call.wake()

    def end(self) -> None:
        """No reply can come any more: all waits end with Closed."""
        self._ended = True
        while self._calls:
            try:
                _, call = self._calls.popitem()
            except KeyError:  # another thread has just taken the last one
                return
            call.ended = True
            call.wake()
