"""How much of what has come one micro-batch takes: maxOffsetsPerTrigger, minOffsetsPerTrigger and maxTriggerDelay."""

from __future__ import annotations

import time
from collections.abc import Callable

from orbitmq.spark.stream.offsets import Offsets


def share(begin: Offsets, end: Offsets, most: int) -> Offsets:
    """About `most` messages of [begin, end): of each queue in proportion to what it holds, and at least one, so that a long
    queue does not starve the others. With more queues than `most` it is one of each. Every queue of `begin` and `end` is in the
    result.

    Source: Spark's Kafka source divides in this way, and its users know the result.
    """
    backlog = {place: end[place] - begin[place] for place in end}
    total = sum(backlog.values())
    if total <= most:
        return dict(end)
    # Whole numbers: a quotient of large ones would lose the last messages of a long queue.
    return {place: begin[place] + min(count, max(1, most * count // total)) for place, count in backlog.items()}


class Hold:
    """minOffsetsPerTrigger: delays messages until so many have come, or until `delay` seconds have passed since the last batch.
    The first batch of a query does not wait."""

    def __init__(self, least: int, delay: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._least = least
        self._delay = delay
        self._clock = clock
        self._let_go: float | None = None

    def holds(self, count: int) -> bool:
        """True if `count` messages have to wait. Without messages there is nothing to wait."""
        now = self._clock()
        waited = self._let_go is None or now - self._let_go >= self._delay
        if count < self._least and not waited:
            return True
        if count:
            self._let_go = now
        return False
