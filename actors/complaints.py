"""Lines about clients on the broker's error output, limited so that no client can fill a disk with them."""

from __future__ import annotations

import time
from collections.abc import Callable

from orbitmq.actors.events import say

LINES_AT_ONCE = 20
LINES_PER_S = 1.0


class Complaints:
    """A bucket of lines that fills with time. The next line says how many were left out. broker: its name."""

    def __init__(self, broker: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._broker = broker
        self._clock = clock
        self._room = float(LINES_AT_ONCE)
        self._looked = clock()
        self._left_out = 0

    def say(self, text: str) -> None:
        now = self._clock()
        self._room = min(LINES_AT_ONCE, self._room + (now - self._looked) * LINES_PER_S)
        self._looked = now
        if self._room < 1:
            self._left_out += 1
            return
        self._room -= 1
        more = f" ({self._left_out:,} lines like it were left out)" if self._left_out else ""
        self._left_out = 0
        say(self._broker, f"{text}{more}")
