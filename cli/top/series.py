"""A number over time, and how it looks on one line."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

SAMPLES = 120  # kept of each number, one a look
BARS = "▁▂▃▄▅▆▇█"


class Series:
    """The last values of a number. None: it was not known, such as while no broker ran."""

    def __init__(self, values: Iterable[float | None] = ()) -> None:
        self._values: deque[float | None] = deque(values, SAMPLES)

    def add(self, value: float | None) -> None:
        self._values.append(value)

    @property
    def last(self) -> float | None:
        return self._values[-1] if self._values else None

    def bars(self, width: int) -> str:
        """The newest values, the last one at the right. The highest of those that are shown is a whole block, nothing is the
        lowest bar, and what is not known is left empty."""
        shown = list(self._values)[-width:] if width > 0 else []
        top = max((value for value in shown if value is not None), default=0.0)
        return "".join(" " if value is None else _bar(value, top) for value in shown).rjust(width)


def _bar(value: float, top: float) -> str:
    """Whatever is more than nothing is higher than the lowest bar."""
    if value <= 0 or top <= 0:
        return BARS[0]
    return BARS[max(1, min(len(BARS) - 1, round(value / top * (len(BARS) - 1))))]
