"""What a worker has been handed and has not begun. It takes more at once the quicker its jobs are done, so that a slow worker
does not hold what another one could do."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from orbitmq.client.work.handed import HandOut, Session
from orbitmq.errors import OrbitError

SLICE_S = 1.0  # longest wait for messages after which a worker looks whether it is to stop; `stop` ends it before
AHEAD_S = 0.01  # of work that is taken at once
STALE_S = 0.25  # what was not begun after so long is given back
LOOKS = 2
MEMORY = 8  # jobs over which the usual time is averaged
_FIRST_S = 0.01  # usual time of a job before the first is done


def never() -> bool:
    return False


class Supply:
    """Threads may share it. at_once: how many jobs are worked on at the same time. clock: time.monotonic, but for tests."""

    def __init__(
        self, session: Session[HandOut], *, in_hand: int, at_once: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._session = session
        self._in_hand = in_hand
        self.at_once = at_once
        self._usual = _FIRST_S
        self._waiting: deque[HandOut] = deque()
        self._taken_at = 0.0
        self._looks = 0
        self._one_asks = threading.Lock()
        self.stopped = False

    def stop(self) -> None:
        """Nothing more is begun. Any thread and any signal handler may call it."""
        self.stopped = True
        self._session.interrupt()

    def interrupt(self) -> None:
        """Ends the wait of `ready`."""
        self._session.interrupt()

    def one(self, idle: float | None, over: Callable[[], bool] = never) -> HandOut | None:
        """The next; None: the worker is to stop, nothing came for `idle` seconds (None: waits for ever), or `over` is true, at
        which it looks every second."""
        deadline = None if idle is None else self._clock() + idle
        while not self.stopped:
            try:  # contextlib.suppress would cost more than the rest of this
                return self._waiting.popleft()
            except IndexError:
                pass
            if not self._ask(self._ahead(), deadline, over):
                break
        return None

    def some(self, most: int, idle: float | None) -> list[HandOut]:
        """As soon as there is one at least, up to so many. An empty list as `one` returns None."""
        deadline = None if idle is None else self._clock() + idle
        while not self.stopped:
            found = self._pop(most)
            if found:
                return found
            if not self._ask(min(most, self._in_hand), deadline):
                break
        return []

    def ready(self, most: int, seconds: float) -> bool:
        """Waits so long for one at least. most: how many are wanted at once. False: there is none, or the worker is to stop."""
        return not self.stopped and self._ask(max(most, self._ahead()), self._clock() + seconds)

    @property
    def waiting(self) -> bool:
        """True if there is one."""
        return bool(self._waiting)

    def pop(self, most: int = 1) -> list[HandOut]:
        """What is there. Never waits."""
        return [] if self.stopped else self._pop(most)

    def took(self, seconds: float) -> None:
        """Told of every job that is settled."""
        self._usual += (seconds - self._usual) / MEMORY

    def tidy(self, now: float) -> float | None:
        """Gives back what has waited too long: twice after each take, because more may have been on its way to this session.
        Returns the seconds until something else may have; None: nothing waits."""
        if not self._looks:
            return None
        left = self._taken_at + STALE_S - now
        if left > 0:
            return left
        if self._one_asks.locked():
            return STALE_S  # somebody waits for more, so nothing waits here
        with suppress(OrbitError):  # then they come again when their time is over
            self.give_back()
        self._taken_at = now
        self._looks -= 1
        return STALE_S if self._looks else None

    def give_back(self) -> None:
        """Everything that waits, or is on its way here."""
        self._session.give_back(self._pop(self._in_hand))

    def _ahead(self) -> int:
        return max(1, min(int(self.at_once * AHEAD_S / max(self._usual, 1e-6)), self._in_hand))

    def _pop(self, most: int) -> list[HandOut]:
        found: list[HandOut] = []
        with suppress(IndexError):
            while len(found) < most:
                found.append(self._waiting.popleft())
        return found

    def _ask(self, most: int, deadline: float | None, over: Callable[[], bool] = never) -> bool:
        """Takes more from the broker, unless another thread has done so meanwhile. False: the time is over, or the worker is to
        stop."""
        with self._one_asks:
            while not self._waiting:
                if over():
                    return False
                left = SLICE_S if deadline is None else min(SLICE_S, deadline - self._clock())
                found = [] if self.stopped else self._session.take(most, max(0.0, left))
                if found:
                    self._taken_at = self._clock()
                    self._looks = LOOKS
                    self._waiting.extend(found)
                elif self.stopped or left <= 0:
                    return False
        return True
