"""The two locks (native/shared/lock.h) from Python. Both survive the death of their holder and tell the next holder about it.

    with BlockingLock(memory) as outcome:
        if outcome is LockOutcome.STOLEN:
            ...   # the last holder died inside: complete or void what it left half done, then go on

Neither lock is recursive, and the thread that took a lock must release it. Any other use aborts the process, because it is a
bug of OrbitMQ's.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from enum import IntEnum
from types import TracebackType

from orbitmq.errors import TimedOut
from orbitmq.native._core import lib
from orbitmq.shm.memory import LINE, Buffer, line_pointer


class LockOutcome(IntEnum):
    """How a lock was obtained."""

    TAKEN = lib.LOCK_TAKEN
    STOLEN = lib.LOCK_STOLEN


class _Lock(ABC):
    """What both locks have in common: one line of shared memory, and a `with` block."""

    def __init__(self, memory: Buffer, offset: int = 0) -> None:
        self._lock = line_pointer("struct lock *", memory, offset, LINE)

    @property
    def held(self) -> bool:
        """True if a process holds it, or died holding it."""
        return bool(lib.lock_word(self._lock))

    @abstractmethod
    def acquire(self) -> LockOutcome:
        """Waits until this process has the lock."""

    @abstractmethod
    def release(self) -> None:
        """Releases it to the next process."""

    def __enter__(self) -> LockOutcome:
        return self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


class SpinLock(_Lock):
    """For sections of a few instructions: waits by looking again, and yields the processor now and then."""

    def acquire(self) -> LockOutcome:
        """Waits without limit. The wait is long only if a living holder never releases the lock."""
        return LockOutcome(lib.spin_acquire(self._lock))

    def try_acquire(self) -> bool:
        """Takes the lock if it is free; never from a dead holder."""
        return bool(lib.spin_try(self._lock))

    def release(self) -> None:
        lib.spin_release(self._lock)


class BlockingLock(_Lock):
    """For anything longer: spins for some microseconds, then sleeps. The death of a holder is noticed within 50 ms."""

    def acquire(self, timeout: float | None = None) -> LockOutcome:
        """Waits for `timeout` seconds at most, or without limit. Signal handlers run meanwhile and may raise.

        Raises: TimedOut: the holder is alive and kept it.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            # A limit of 0 would be none at all.
            limit_ns = 0 if deadline is None else max(1, int((deadline - time.monotonic()) * 1e9))
            result = lib.block_acquire(self._lock, limit_ns)
            if result in (lib.LOCK_TAKEN, lib.LOCK_STOLEN):
                return LockOutcome(result)
            if result == lib.LOCK_TIMEOUT:
                raise TimedOut(f"cannot take the lock within {timeout} s, its holder lives and keeps it", timeout=timeout)

    def release(self) -> None:
        lib.block_release(self._lock)
