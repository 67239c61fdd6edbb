"""A measure, and its results."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: OrbitMQ's value, and from the same moment the ceiling's, or that of what else the measure names as `beside`;
    None without such a measure."""

    value: float
    ceiling: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """All runs of one measure. `values` and `ceilings` are in the measure's unit, in the order of the runs."""

    measure: str
    unit: str
    durability: str
    values: tuple[float, ...]
    ceilings: tuple[float, ...] = ()
    target: str = ""
    beside: str = "ceiling"

    @property
    def value(self) -> float:
        return statistics.median(self.values)

    @property
    def ceiling(self) -> float | None:
        return statistics.median(self.ceilings) if self.ceilings else None

    @property
    def ratio(self) -> float | None:
        """Median of the pairs' ratios, OrbitMQ's over the ceiling's."""
        if not self.ceilings:
            return None
        return statistics.median(v / c for v, c in zip(self.values, self.ceilings, strict=True))

    def as_json(self) -> dict[str, object]:
        return {
            "measure": self.measure,
            "unit": self.unit,
            "value": self.value,
            "runs": len(self.values),
            "min": min(self.values),
            "max": max(self.values),
            self.beside: self.ceiling,
            "ratio": self.ratio,
            "durability": self.durability,
        }


@dataclass(frozen=True, slots=True)
class Measure:
    """A group of numbers that one run produces together.

    Attributes:
        names: the result names, in order.
        run: called once a run, with a `Stage` if it needs a broker. Returns one Sample for each name; None for what cannot be
            measured here.
        unit, durability, targets: as shown in the table; targets, one for each name, are the design's.
        runs: runs that are counted; warm: runs before them that are not.
        broker: whether all runs use one broker, with these settings.
        beside: what OrbitMQ is compared with. Measures beside one thing have a table of their own.
    """

    names: tuple[str, ...]
    unit: str
    run: Callable[..., tuple[Sample | None, ...]]
    durability: str = "appended"
    runs: int = 7
    warm: int = 1
    broker: bool = True
    settings: dict[str, object] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    beside: str = "ceiling"
