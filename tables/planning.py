"""Divides what is to be read into partitions: ranges of queue offsets, with long ones divided and short ones combined."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from orbitmq.errors import OffsetOutOfRange
from orbitmq.tables.choice import unknown_queue, unknown_topic
from orbitmq.tables.ends import EARLIEST, LATEST, Offsets
from orbitmq.tables.extents import Extents
from orbitmq.tables.selection import Selection

LONG = 1 << 20  # default of the most messages in one partition: one busy queue still keeps every core busy
SHORT = 1 << 16  # ranges are combined up to this many messages, because a task costs more than reading them
RANGES = 1 << 10  # most in one partition: each has a file mapped while it is read
_log = logging.getLogger("orbitmq")


@dataclass(frozen=True, slots=True)
class Slice:
    """Messages [begin, end) of a queue, in queue offsets."""

    topic: str
    queue: int
    begin: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.begin


def slices(extents: Extents, options: Selection) -> list[Slice]:
    """What the options ask for: a slice for each queue that has any of it. If failOnDataLoss is off, offsets outside of a queue
    become the nearest that it has, and the log says so.

    Raises: UnknownTopic: has .topic and .topics. UnknownQueue: has .option, .topic, .queue and .queues. OffsetOutOfRange: has
        .option, .topic, .queue, .offset, .minimum and .maximum.
    """
    found = []
    strict = options.fail_on_data_loss
    chosen = options.choice.of(extents)
    for offsets in (options.starting, options.ending):
        check_queues(offsets, extents)
    for topic, queues in chosen.items():
        for queue, bounds in sorted(queues.items()):
            begin = resolve(options.starting, topic, queue, bounds, strict=strict)
            end = resolve(options.ending, topic, queue, bounds, strict=strict)
            if begin > end and (strict or options.starting.of(topic, queue) <= bounds[1]):
                why = "; the starting offset lies behind it"
                raise outside(options.ending.option, (topic, queue), end, (begin, bounds[1]), why)
            if begin < end:
                found.append(Slice(topic, queue, begin, end))
    return found


def partitions(wanted: list[Slice], *, least: int = 0, most_records: int = 0) -> list[tuple[Slice, ...]]:
    """At least `least` partitions, as long as there are as many messages, of at most `most_records` messages each; 0 leaves
    either to this function. Every message is in exactly one."""
    limit = most_records or LONG
    if least:
        limit = max(1, min(limit, sum(piece.count for piece in wanted) // least))
    together = min(limit, SHORT)
    parts: list[tuple[Slice, ...]] = []
    gathered: list[Slice] = []
    room = together
    for whole in wanted:
        pieces = -(-whole.count // limit)
        for number in range(pieces):
            begin, end = (whole.begin + whole.count * place // pieces for place in (number, number + 1))
            piece = Slice(whole.topic, whole.queue, begin, end)
            if gathered and (piece.count > room or len(gathered) == RANGES):
                parts.append(tuple(gathered))
                gathered, room = [], together
            gathered.append(piece)
            room -= piece.count
    if gathered:
        parts.append(tuple(gathered))
    return parts


def resolve(offsets: Offsets, topic: str, queue: int, bounds: tuple[int, int], *, strict: bool) -> int:
    """The queue offset that one end means. Raises: OffsetOutOfRange: strict, and the queue does not hold it."""
    offset = offsets.of(topic, queue)
    if offset == EARLIEST:
        return bounds[0]
    if offset == LATEST:
        return bounds[1]
    if bounds[0] <= offset <= bounds[1]:
        return offset
    error = outside(offsets.option, (topic, queue), offset, bounds)
    if strict:
        raise error
    nearest = min(max(offset, bounds[0]), bounds[1])
    _log.warning("%s; failOnDataLoss is off: %d is taken", error.message, nearest)
    return nearest


def outside(option: str, place: tuple[str, int], offset: int, bounds: tuple[int, int], why: str = "") -> OffsetOutOfRange:
    """The error for an offset of an option."""
    topic, queue = place
    return OffsetOutOfRange(
        f"cannot read topic {topic!r}, queue {queue}, with offset {offset:,} in option {option}: "
        f"{bounds[0]:,} to {bounds[1]:,} would do{why}",
        option=option,
        topic=topic,
        queue=queue,
        offset=offset,
        minimum=bounds[0],
        maximum=bounds[1],
    )


def check_queues(offsets: Offsets, extents: Extents) -> None:
    """Raises: UnknownTopic, UnknownQueue: it names one that the store does not have."""
    for each in (offsets.each, offsets.moments):
        for topic, queues in each.items():
            if topic not in extents:
                raise unknown_topic(offsets.option, topic, extents)
            for queue in queues:
                if queue not in extents[topic]:
                    raise unknown_queue(offsets.option, topic, queue, extents[topic])
