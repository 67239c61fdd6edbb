"""Lines about clients in the broker's log, limited so that no client can fill a disk with them."""

from __future__ import annotations

import time
from collections.abc import Callable

from orbitmq.actors import events

LINES_AT_ONCE = 20
LINES_PER_S = 1.0


class Complaints:
    """A bucket of lines that fills with time. The next line says how many were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
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
        left_out, self._left_out = self._left_out, 0
        if left_out:
            events.warn(f"{text} ({left_out:,} lines like it were left out)", left_out=left_out)
        else:
            events.warn(text)
