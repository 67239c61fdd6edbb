"""Where to begin and where to end: at offsets, or at moments, for all queues or by queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

EARLIEST = -2  # as in the JSON of Spark's Kafka source
LATEST = -1
Numbers = Mapping[str, Mapping[int, int]]  # by queue, by topic


@dataclass(frozen=True, slots=True)
class Offsets:
    """One end of what is read. Without `each`, `default` holds for all queues. option: the name under which it was given.

    moment_ms, moments: milliseconds since the epoch instead of offsets, for all queues or by queue; tables/moments.py
        turns them into offsets. strict: a moment after the last message is refused.
    """

    option: str
    default: int
    each: Numbers = field(default_factory=dict)
    moment_ms: int | None = None
    moments: Numbers = field(default_factory=dict)
    strict: bool = False

    @property
    def timed(self) -> bool:
        return self.moment_ms is not None or bool(self.moments)

    def of(self, topic: str, queue: int) -> int:
        """A queue offset, EARLIEST or LATEST."""
        return self.each.get(topic, {}).get(queue, self.default)

    def moment_of(self, topic: str, queue: int) -> int | None:
        """Milliseconds since the epoch, if a moment decides."""
        return self.moments.get(topic, {}).get(queue, self.moment_ms)
