"""When it is time to look at something again."""

from __future__ import annotations

from collections.abc import Callable


class Interval:
    """seconds: between two looks at least. The first one is due at once."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._next_s: float | None = None

    def due(self) -> bool:
        """True if it is time; then the next one is due so many seconds from now."""
        now_s = self._clock()
        if self._next_s is not None and now_s < self._next_s:
            return False
        self._next_s = now_s + self._seconds
        return True
