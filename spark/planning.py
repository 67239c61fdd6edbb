"""Cuts what is to be read into partitions: ranges of queue offsets, long ones divided, short ones put together."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.errors import OffsetOutOfRange, UnknownQueue, UnknownTopic
from orbitmq.spark.extents import Extents
from orbitmq.spark.options import EARLIEST, LATEST, Offsets, SourceOptions

LONG = 1 << 20  # messages in one partition at most, unless told otherwise: a hot queue still keeps every core busy
SHORT = 1 << 16  # ranges are put together up to this many: a task costs more than reading them


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


def slices(extents: Extents, options: SourceOptions) -> list[Slice]:
    """What the options ask for, a slice for each queue that has any of it.

    Raises: UnknownTopic: has .topic and .topics. UnknownQueue: has .option, .topic, .queue and .queues.
        OffsetOutOfRange: has .option, .topic, .queue, .offset, .minimum and .maximum.
    """
    found = []
    for topic in options.topics:
        if topic not in extents:
            raise UnknownTopic(
                f"cannot read topic {topic!r} of option subscribe: the store has no such topic",
                hint=f"it has {', '.join(sorted(extents)) or 'none'}",
                option="subscribe",
                topic=topic,
                topics=sorted(extents),
            )
        queues = extents[topic]
        for offsets in (options.starting, options.ending):
            for queue in offsets.each.get(topic, {}):
                if queue not in queues:
                    raise UnknownQueue(
                        f"cannot read queue {queue} of topic {topic!r} in option {offsets.option}: there is no such queue",
                        hint=f"its queues are 0 to {max(queues)}" if queues else "it has no queue",
                        option=offsets.option,
                        topic=topic,
                        queue=queue,
                        queues=len(queues),
                    )
        for queue, bounds in sorted(queues.items()):
            begin = _resolve(options.starting, topic, queue, bounds)
            end = _resolve(options.ending, topic, queue, bounds)
            if begin > end:
                raise _outside(options.ending, (topic, queue), end, (begin, bounds[1]), "; the starting offset lies behind it")
            if begin < end:
                found.append(Slice(topic, queue, begin, end))
    return found


def partitions(wanted: list[Slice], *, least: int = 0, most_records: int = 0) -> list[tuple[Slice, ...]]:
    """At least `least` partitions, as long as there are as many messages, of at most `most_records` messages each; 0 leaves
    either to us. Every message is in exactly one."""
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
            if gathered and piece.count > room:
                parts.append(tuple(gathered))
                gathered, room = [], together
            gathered.append(piece)
            room -= piece.count
    if gathered:
        parts.append(tuple(gathered))
    return parts


def _resolve(offsets: Offsets, topic: str, queue: int, bounds: tuple[int, int]) -> int:
    offset = offsets.of(topic, queue)
    if offset == EARLIEST:
        return bounds[0]
    if offset == LATEST:
        return bounds[1]
    if not bounds[0] <= offset <= bounds[1]:
        raise _outside(offsets, (topic, queue), offset, bounds)
    return offset


def _outside(offsets: Offsets, place: tuple[str, int], offset: int, bounds: tuple[int, int], why: str = "") -> OffsetOutOfRange:
    topic, queue = place
    return OffsetOutOfRange(
        f"cannot read topic {topic!r}, queue {queue}, with offset {offset:,} in option {offsets.option}: "
        f"{bounds[0]:,} to {bounds[1]:,} would do{why}",
        option=offsets.option,
        topic=topic,
        queue=queue,
        offset=offset,
        minimum=bounds[0],
        maximum=bounds[1],
    )
