"""Doorbells: how one process sleeps until another has news for it (native/shared/bell.h), with two ways to sleep.

    sleeper                                      ringer
    ticket = bell.announce()                     publish the news
    look for news; if there is some,             bell.ring()
        bell.cancel(ticket)
    else bell.sleep(ticket, limit)

Both kinds keep their announcements in one shared line. FutexDoorbell sleeps on that line. SemaphoreDoorbell sleeps on a named
POSIX semaphore, for systems without a futex and sandboxes that forbid it. Both ends of a bell must be of one kind, so the
creator of the line chooses. Every sleep has a limit: a lost ring causes a delay, never a hang.
"""

from __future__ import annotations

import time
from enum import IntEnum
from typing import Protocol

import posix_ipc

from orbitmq.native._core import lib
from orbitmq.shm.memory import LINE, Buffer, line_pointer

LIMIT_S: float = lib.BELL_LIMIT_NS / 1e9  # longest sleep between two looks
SLEEPERS_MAX = 1024  # most posts of one ring


class Wake(IntEnum):
    """Why a sleep ended."""

    RUNG = lib.BELL_RUNG
    TIMEOUT = lib.BELL_TIMEOUT
    SIGNAL = lib.BELL_SIGNAL


class Doorbell(Protocol):
    """The interface of both kinds."""

    def announce(self) -> int:
        """Announces that a sleep may follow, and returns a ticket for it. Look for news between this call and the sleep."""

    def cancel(self, ticket: int) -> None:
        """Takes the announcement back, unless a ring has answered it already."""

    def sleep(self, ticket: int, limit: float = LIMIT_S) -> Wake:
        """Sleeps until a ring after the ticket, a signal, or `limit` seconds. The announcement is used up in each case."""

    def ring(self) -> bool:
        """Wakes everybody who announced a sleep. False if nobody had, which costs no system call."""


class FutexDoorbell:
    """A bell whose sleepers wait on the line itself."""

    def __init__(self, memory: Buffer, offset: int = 0) -> None:
        self._bell = line_pointer("struct bell *", memory, offset, LINE)

    def announce(self) -> int:
        return int(lib.bell_announce(self._bell))

    def cancel(self, ticket: int) -> None:
        lib.bell_cancel(self._bell, ticket)

    def sleep(self, ticket: int, limit: float = LIMIT_S) -> Wake:
        return Wake(lib.bell_sleep(self._bell, ticket, max(0, int(limit * 1e9))))

    def ring(self) -> bool:
        return bool(lib.bell_ring(self._bell))


class SemaphoreDoorbell:
    """A bell whose sleepers wait on a named semaphore: a ring posts once for each announcement that it answers.

    A post does not say for whom it is. If its sleeper no longer wants it (it timed out as the ring came, or died), the post
    stays and wakes a later sleeper, which sees that no ring has answered its own ticket and sleeps on. In this way surplus
    posts are used up. With several sleepers on one bell, a later one can take the post of an earlier one, which then wakes at
    its limit at the latest. The semaphore uses the wall clock: if the clock is set, the end of a sleep moves.
    """

    def __init__(self, memory: Buffer, name: str, offset: int = 0) -> None:
        self._bell = line_pointer("struct bell *", memory, offset, LINE)
        self._name = name
        self._semaphore = posix_ipc.Semaphore(name, posix_ipc.O_CREAT, mode=0o600, initial_value=0)

    def announce(self) -> int:
        return int(lib.bell_announce(self._bell))

    def cancel(self, ticket: int) -> None:
        lib.bell_cancel(self._bell, ticket)

    def sleep(self, ticket: int, limit: float = LIMIT_S) -> Wake:
        deadline = time.monotonic() + limit
        wake = Wake.RUNG
        while lib.bell_rung(self._bell) == ticket and wake is Wake.RUNG:
            try:
                self._semaphore.acquire(max(0.0, deadline - time.monotonic()))
            except posix_ipc.BusyError:
                wake = Wake.TIMEOUT
            except posix_ipc.SignalError:
                wake = Wake.SIGNAL
        if lib.bell_rung(self._bell) != ticket:
            return Wake.RUNG
        lib.bell_cancel(self._bell, ticket)
        return wake

    def ring(self) -> bool:
        answered = int(lib.bell_answer(self._bell))
        # The count is where a client may write. A false count costs posts, so it is limited to the number that could ever sleep
        # here.
        for _ in range(min(answered, SLEEPERS_MAX)):
            self._semaphore.release()
        return answered > 0

    def close(self) -> None:
        self._semaphore.close()

    def unlink(self) -> None:
        """Removes the semaphore's name. Its creator calls this once."""
        self._semaphore.unlink()


def make_doorbell(memory: Buffer, name: str, offset: int = 0) -> FutexDoorbell | SemaphoreDoorbell:
    """The kind that works here: the futex if the kernel allows it, else the semaphore called `name`."""
    if lib.bell_available():
        return FutexDoorbell(memory, offset)
    return SemaphoreDoorbell(memory, name, offset)
