"""The lock of native/shared/lock.h from Python. It survives the death of its holder and tells the next holder about it.

    with Lock(memory) as outcome:
        if outcome is LockOutcome.STOLEN:
            ...   # the last holder died inside: complete or void what it left half done, then go on

It is not recursive, and the thread that took it must release it. Any other use aborts the process, because it is a bug of
OrbitMQ's.
"""

from __future__ import annotations

import time
from enum import IntEnum
from types import TracebackType

from orbitmq.errors import TimedOut
from orbitmq.native._core import lib
from orbitmq.shm.memory import LINE, Buffer, line_pointer


class LockOutcome(IntEnum):
    """How a lock was obtained."""

    TAKEN = lib.LOCK_TAKEN
    STOLEN = lib.LOCK_STOLEN


class Lock:
    """One line of shared memory. A waiter spins for microseconds, then sleeps; it notices a holder's death within 50 ms."""

    def __init__(self, memory: Buffer, offset: int = 0) -> None:
        self._lock = line_pointer("struct lock *", memory, offset, LINE)

    @property
    def held(self) -> bool:
        """True if a process holds it, or died holding it."""
        return bool(lib.lock_word(self._lock))

    def acquire(self, timeout: float | None = None) -> LockOutcome:
        """Waits for `timeout` seconds at most, or without limit. Signal handlers run meanwhile and may raise.

        Raises: TimedOut: the holder is alive and kept it.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            # A limit of 0 would be none at all.
            limit_ns = 0 if deadline is None else max(1, int((deadline - time.monotonic()) * 1e9))
            result = lib.lock_acquire(self._lock, limit_ns)
            if result in (lib.LOCK_TAKEN, lib.LOCK_STOLEN):
                return LockOutcome(result)
            if result == lib.LOCK_TIMEOUT:
                raise TimedOut(f"could not take the lock within {timeout} s: its holder lives and keeps it", timeout=timeout)

    def release(self) -> None:
        """Releases it to the next process."""
        lib.lock_release(self._lock)

    def __enter__(self) -> LockOutcome:
        return self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()
