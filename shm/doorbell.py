"""Doorbells: how one process sleeps until another has news for it (native/shared/bell.h), with two ways to sleep.

    sleeper                                      ringer
    ticket = bell.announce()                     publish the news
    look for news; if there is some,             bell.ring()
        bell.cancel(ticket)
    else bell.sleep(ticket, limit)

Announcements stand in one shared line for both kinds. FutexDoorbell sleeps on that line; SemaphoreDoorbell sleeps on a
named POSIX semaphore, where there is no futex or a sandbox forbids it. Both ends of a bell must be of one kind, so the
creator of the line chooses. Every sleep has a limit: a ring that is lost costs lateness, never a hang.
"""

from __future__ import annotations

import time
from enum import IntEnum
from typing import Protocol

import posix_ipc

from orbitmq.native._core import lib
from orbitmq.shm.memory import LINE, Buffer, line_pointer

LIMIT_S: float = lib.BELL_LIMIT_NS / 1e9  # the longest sleep between two looks
SLEEPERS_MAX = 1024  # posts of one ring at most


class Wake(IntEnum):
    """Why a sleep ended."""

    RUNG = lib.BELL_RUNG
    TIMEOUT = lib.BELL_TIMEOUT
    SIGNAL = lib.BELL_SIGNAL


class Doorbell(Protocol):
    """What both kinds do."""

    def announce(self) -> int:
        """Says that a sleep may follow; returns the ticket for it. Look for news between this and the sleep."""

    def cancel(self, ticket: int) -> None:
        """Takes the announcement back, unless a ring has answered it already."""

    def sleep(self, ticket: int, limit: float = LIMIT_S) -> Wake:
        """Sleeps until a ring after the ticket, a signal, or `limit` seconds; the announcement is spent in each
        case.
        """

    def ring(self) -> bool:
        """Wakes everybody who announced; False if nobody had, which costs no system call."""


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
    """A bell whose sleepers wait on a named semaphore: a ring posts once for each announcement it answers.

    Posts carry no name. One that its sleeper no longer wants (it timed out as the ring came, or died) stays and wakes a
    later sleeper, who sees that no ring has answered its own ticket and sleeps on: that is how surplus posts drain.
    With several sleepers on one bell a later one can so take the post of an earlier one, who is then late by its limit
    at most. The semaphore's clock is the wall clock: setting it moves the end of a sleep.
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
        # The count lies where a client may write: a lie costs us posts, so it is bounded by what could ever sleep here.
        for _ in range(min(answered, SLEEPERS_MAX)):
            self._semaphore.release()
        return answered > 0

    def close(self) -> None:
        self._semaphore.close()

    def unlink(self) -> None:
        """Removes the semaphore's name; the creator's task, once."""
        self._semaphore.unlink()


def make_doorbell(memory: Buffer, name: str, offset: int = 0) -> FutexDoorbell | SemaphoreDoorbell:
    """The kind that works here: the futex where the kernel allows it, else the semaphore called `name`."""
    if lib.bell_available():
        return FutexDoorbell(memory, offset)
    return SemaphoreDoorbell(memory, name, offset)
