"""Sessions of the gateway that the coordinator is to end. It is asked for each until it has answered."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from orbitmq.errors import OrbitError
from orbitmq.remoting.host import Ask

AGAIN_S = 2.0  # until a coordinator that did not answer is asked again


class Leaving:
    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._sessions: deque[tuple[int, int]] = deque()  # slot and epoch
        self._next_s = 0.0  # not before, after an error

    def add(self, slot: int, epoch: int) -> None:
        self._sessions.append((slot, epoch))

    def look(self) -> None:
        try:
            while self._sessions and self._clock() >= self._next_s:
                slot, epoch = self._sessions[0]
                self._ask("close_session", slot=slot, epoch=epoch)
                self._sessions.popleft()
        except (OrbitError, OSError):
            self._next_s = self._clock() + AGAIN_S  # each try may keep the loop waiting
