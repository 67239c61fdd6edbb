"""Conditions of a query that planning can use: queues and ranges of offsets are dropped before tasks are made for them, and the
reader compares tags in C. Spark passes conditions on from 4.1 on, if spark.sql.python.filterPushdown.enabled is true.

    topic, partition   =, IN, and comparisons of partition      handled wholly
    offset             =, IN of one, comparisons                handled wholly
    tags               =, IN of no more than a reader takes     handled wholly
    timestamp          =, comparisons                           narrows ranges where times rise; Spark checks each row again
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from orbitmq.client.consumer.subscription import TAGS_MAX
from orbitmq.tables.extents import Snapshot
from orbitmq.tables.moments import END, stored_within
from orbitmq.tables.planning import Slice

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Narrowing:
    """What is left to read. Ranges are [first, end); None: any. tags: encoded."""

    topics: set[str] | None = None
    queues: set[int] | None = None
    queue_range: tuple[int, int] = (0, END)
    offsets: tuple[int, int] = (0, END)
    stored_ms: tuple[int, int] = (0, END)
    tags: set[bytes] | None = None
    rest: list[Any] = field(default_factory=list)  # the conditions that Spark has to check itself

    def of(self, slices: Iterable[Slice], snapshot: Snapshot) -> list[Slice]:
        """What is left of the slices. Raises: StoreError: a message that is needed to find a time cannot be read."""
        first, end = self.offsets
        found = [
            Slice(each.topic, each.queue, max(each.begin, first), min(each.end, end)) for each in slices if self._takes(each)
        ]
        found = [each for each in found if each.begin < each.end]
        return found if self.stored_ms == (0, END) else list(stored_within(snapshot, found, self.stored_ms))

    def filtered(self, tags: tuple[bytes, ...]) -> tuple[bytes, ...] | None:
        """The tags to compare with, together with those of the option. None: no message can have any of them."""
        if self.tags is None:
            return tags
        both = self.tags & set(tags) if tags else self.tags
        return tuple(sorted(both)) or None

    def _takes(self, each: Slice) -> bool:
        return (
            (self.topics is None or each.topic in self.topics)
            and (self.queues is None or each.queue in self.queues)
            and self.queue_range[0] <= each.queue < self.queue_range[1]
        )


def narrowing(filters: Iterable[Any]) -> Narrowing:
    """The conditions of Spark's filters, all of which must hold. They are recognised by the names of their classes, which
    PySpark 4.0 does not have."""
    found = Narrowing()
    for each in filters:
        take = _TAKERS.get(getattr(each, "attribute", ()))
        if take is None or not hasattr(each, "value") or not take(found, type(each).__name__, each.value):
            found.rest.append(each)
    return found


def _values(name: str, value: Any, kind: type) -> set[Any] | None:
    """The values that a column may have. None for a condition of another kind. A null among them equals nothing."""
    if name == "EqualTo":
        value = (value,)
    elif name != "In":
        return None
    values = [each for each in value if each is not None]
    return set(values) if all(type(each) is kind for each in values) else None


def _range(name: str, value: Any) -> tuple[int, int] | None:
    """[first, end) of a comparison with a whole number."""
    if type(value) is not int:
        return None
    return {
        "EqualTo": (value, value + 1),
        "GreaterThan": (value + 1, END),
        "GreaterThanOrEqual": (value, END),
        "LessThan": (0, value),
        "LessThanOrEqual": (0, value + 1),
    }.get(name)


def _both(one: set[Any] | None, other: set[Any]) -> set[Any]:
    return other if one is None else one & other


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return max(one[0], other[0]), min(one[1], other[1])


def _topic(found: Narrowing, name: str, value: Any) -> bool:
    values = _values(name, value, str)
    if values is None:
        return False
    found.topics = _both(found.topics, values)
    return True


def _partition(found: Narrowing, name: str, value: Any) -> bool:
    values = _values(name, value, int)
    compared = _range(name, value)
    if values is not None:
        found.queues = _both(found.queues, values)
    elif compared is not None:
        found.queue_range = _overlap(found.queue_range, compared)
    return values is not None or compared is not None


def _offset(found: Narrowing, name: str, value: Any) -> bool:
    values = _values(name, value, int) if name == "In" else None
    if values is not None:
        found.offsets = _overlap(found.offsets, (min(values, default=0), max(values, default=-1) + 1))
        return len(values) <= 1
    compared = _range(name, value)
    if compared is None:
        return False
    found.offsets = _overlap(found.offsets, compared)
    return True


def _tags(found: Narrowing, name: str, value: Any) -> bool:
    values = _values(name, value, str)
    if values is None or len(values) > TAGS_MAX:
        return False
    found.tags = _both(found.tags, {tag.encode() for tag in values})
    return True


def _timestamp(found: Narrowing, name: str, value: Any) -> bool:
    if isinstance(value, datetime) and value.tzinfo is not None:
        # A message's time is a whole number of milliseconds, the other side a whole number of microseconds.
        compared = _range(name, (value - _EPOCH) // timedelta(microseconds=1))
        if compared is not None:
            first, end = (edge if edge == END else -(-edge // 1000) for edge in compared)
            found.stored_ms = _overlap(found.stored_ms, (first, max(end, 0)))  # nothing was stored before the epoch
    return False


_TAKERS: dict[tuple[str, ...], Callable[[Narrowing, str, Any], bool]] = {
    ("topic",): _topic,
    ("partition",): _partition,
    ("offset",): _offset,
    ("tags",): _tags,
    ("timestamp",): _timestamp,
}
