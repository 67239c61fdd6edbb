"""Turns: one thread of a process at a time, and a way to tell that somebody asks in the middle of a turn of its own."""

from __future__ import annotations

import threading
import time

from orbitmq.shm.control_socket import SLICE_S


class Turns:
    """A lock whose holder may take it again, which is told by `depth`: a signal handler, or a finalizer that the garbage
    collector runs, comes in the middle of whatever its thread was doing there, and must not go on with it.

    It belongs to one process: after a fork the child makes another one, because the thread that held this may not be there.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.depth = 0  # of the thread that has the turn

    def take(self, timeout: float) -> bool:
        """False when the time, seconds, was over first."""
        deadline = time.monotonic() + timeout
        while not self._lock.acquire(timeout=min(max(0.0, timeout), SLICE_S)):
            timeout = deadline - time.monotonic()
            if timeout <= 0:
                return False
        self.depth += 1
        return True

    def give(self) -> None:
        self.depth -= 1
        self._lock.release()
