"""Moments made queue offsets: the first message that was stored at or after one. A binary search in each queue, over
ConsumeQueue and log, so a moment costs a handful of records a queue whatever its length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from orbitmq.errors import OffsetOutOfRange, StoreError
from orbitmq.spark.ends import Offsets
from orbitmq.spark.extents import Snapshot
from orbitmq.spark.options import SourceOptions
from orbitmq.spark.planning import check_queues

if TYPE_CHECKING:
    from orbitmq.native._fast import Reader

QUEUES_AT_ONCE = 256  # each has a file mapped while it is searched

Place = tuple[str, int]  # topic, queue


def settled(snapshot: Snapshot, options: SourceOptions) -> SourceOptions:
    """The options with offsets in the place of their moments, as the store's messages are at this snapshot.

    A moment behind a queue's last message is its end; for a starting moment, with the strategy "error", that is refused.

    Raises: OffsetOutOfRange: has .option, .topic, .queue and .moment_ms. UnknownTopic, UnknownQueue; StoreError.
    """
    starting, ending = (_settled(snapshot, options, end) for end in (options.starting, options.ending))
    return replace(options, starting=starting, ending=ending)


def offsets_since(snapshot: Snapshot, moments: Iterable[tuple[Place, tuple[int, int], int]]) -> Iterator[tuple[Place, int]]:
    """Of each place with its bounds and a moment: the first offset within the bounds stored at or after it, or their end."""
    from orbitmq.native._fast import Reader

    store = str(snapshot.root)
    with closing(
        Reader(store=store, log_file_size=snapshot.log_file_size, queue_file_units=snapshot.queue_file_units)
    ) as reader:
        for (topic, queue), (begin, end), moment in moments:
            if begin == end:
                yield (topic, queue), end
                continue
            if reader.count == QUEUES_AT_ONCE:
                reader.clear()
            yield (topic, queue), _since(reader, (topic, queue), (begin, end), moment)


def _since(reader: Reader, place: Place, bounds: tuple[int, int], moment_ms: int) -> int:
    try:
        return reader.since(reader.add_offline(*place, *bounds), moment_ms)
    except StoreError as error:
        error.hint = error.hint or "messages may have been removed meanwhile: plan the query again"
        raise


def _settled(snapshot: Snapshot, options: SourceOptions, offsets: Offsets) -> Offsets:
    if not offsets.timed:
        return offsets
    check_queues(offsets, snapshot.topics)
    wanted: list[tuple[Place, tuple[int, int], int]] = []
    for topic, queues in options.choice.of(snapshot.topics).items():
        for queue, bounds in queues.items():
            moment = offsets.moment_of(topic, queue)
            if moment is not None:
                wanted.append(((topic, queue), bounds, moment))
    each: dict[str, dict[int, int]] = {}
    for (_, bounds, moment), (place, offset) in zip(wanted, offsets_since(snapshot, wanted), strict=True):
        if offsets.strict and offset == bounds[1]:
            raise _too_late(offsets.option, place, moment, bounds)
        each.setdefault(place[0], {})[place[1]] = offset
    return replace(offsets, each=each, moment_ms=None, moments={})


def _too_late(option: str, place: Place, moment_ms: int, bounds: tuple[int, int]) -> OffsetOutOfRange:
    topic, queue = place
    held = f"it holds offsets {bounds[0]:,} to {bounds[1]:,}" if bounds[0] < bounds[1] else "it holds none"
    return OffsetOutOfRange(
        f"cannot read topic {topic!r}, queue {queue}, with {moment_ms} in option {option}: no message was stored since; {held}",
        hint="set startingOffsetsByTimestampStrategy to latest to begin such a queue at its end",
        option=option,
        topic=topic,
        queue=queue,
        moment_ms=moment_ms,
        minimum=bounds[0],
        maximum=bounds[1],
    )
