"""Turns moments into queue offsets: the first message that was stored at or after the moment. Where store timestamps rise, as
in everything that OrbitMQ has written, this is a binary search over ConsumeQueue and log, so a moment costs a handful of
records a queue, whatever the queue's length. Elsewhere options look at one message after the other, and conditions leave the
range as it is. docs/time.md says which holds where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from orbitmq.errors import OffsetOutOfRange, StoreError
from orbitmq.errors.remedy import as_hint, hint
from orbitmq.tables.ends import Offsets
from orbitmq.tables.extents import Snapshot
from orbitmq.tables.planning import Slice, check_queues
from orbitmq.tables.selection import Selection

if TYPE_CHECKING:
    from orbitmq.native._types import Reader

QUEUES_AT_ONCE = 256  # each has a file mapped while it is searched

END = 1 << 63  # of any range

Place = tuple[str, int]  # topic, queue
S = TypeVar("S", bound=Selection)
Moments = Iterable[tuple[Place, tuple[int, int], int]]
Since = Callable[[Moments], Iterator[tuple[Place, int]]]


def settled(snapshot: Snapshot, options: S, since: Since | None = None) -> S:
    """The options with offsets in place of their moments, for the store's messages at this snapshot. since: as offsets_since,
    of messages that are not in a store of this machine.

    A moment after a queue's last message means its end. For a starting moment with the strategy "error", that is refused.

    Raises: OffsetOutOfRange: has .option, .topic, .queue and .moment_ms. UnknownTopic, UnknownQueue; StoreError.
    """
    look = since or partial(offsets_since, snapshot)
    starting, ending = (_settled(snapshot, options, end, look) for end in (options.starting, options.ending))
    return replace(options, starting=starting, ending=ending)


def offsets_since(snapshot: Snapshot, moments: Moments) -> Iterator[tuple[Place, int]]:
    """For each place with its bounds and a moment: the first offset within the bounds that was stored at or after it, or their
    end."""
    with _reader(snapshot) as reader:
        for (topic, queue), (begin, end), moment in moments:
            if begin == end:
                yield (topic, queue), end
                continue
            if reader.count == QUEUES_AT_ONCE:
                reader.clear()
            yield (topic, queue), _since(reader, (topic, queue), (begin, end), moment)


def stored_within(snapshot: Snapshot, slices: Iterable[Slice], moments: tuple[int, int]) -> Iterator[Slice]:
    """What may have been stored in [since, until), milliseconds. Where times need not rise, the whole slice stays."""
    since, until = moments
    with _reader(snapshot) as reader:
        for each in slices:
            if reader.count >= QUEUES_AT_ONCE:
                reader.clear()
            place = each.topic, each.queue
            first, last = _rising(reader, place, (each.begin, each.end))
            begin = _since(reader, place, (first, last), since) if since > 0 else first
            end = _since(reader, place, (begin, last), until) if until < END else last
            for piece in _joined((each.begin, first), (begin, end), (last, each.end)):
                yield Slice(*place, *piece)


@contextmanager
def _reader(snapshot: Snapshot) -> Iterator[Reader]:
    from orbitmq.native._types import Reader

    reader = Reader(
        store=str(snapshot.root),
        log_file_size=snapshot.log_file_size,
        queue_file_units=snapshot.queue_file_units,
        rising=snapshot.rising,
    )
    with closing(reader):
        yield reader


def _joined(*ranges: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Those that are not empty, as few as possible."""
    begin = end = None
    for each in ranges:
        if each[0] >= each[1]:
            continue
        if begin is not None and end is not None and end < each[0]:
            yield begin, end
            begin = None
        begin, end = each[0] if begin is None else begin, each[1]
    if begin is not None and end is not None:
        yield begin, end


def _since(reader: Reader, place: Place, bounds: tuple[int, int], moment_ms: int) -> int:
    with _hint():
        return reader.since(reader.add_offline(*place, *bounds), moment_ms)


def _rising(reader: Reader, place: Place, bounds: tuple[int, int]) -> tuple[int, int]:
    with _hint():
        return reader.rising(reader.add_offline(*place, *bounds))


@contextmanager
def _hint() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        error.remedy = error.remedy or as_hint("messages may have been removed meanwhile: plan the query again")
        raise


def _settled(snapshot: Snapshot, options: Selection, offsets: Offsets, since: Since) -> Offsets:
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
    for (_, bounds, moment), (place, offset) in zip(wanted, since(wanted), strict=True):
        if offsets.strict and offset == bounds[1]:
            raise _too_late(offsets.option, place, moment, bounds)
        each.setdefault(place[0], {})[place[1]] = offset
    return replace(offsets, each=each, moment_ms=None, moments={})


def _too_late(option: str, place: Place, moment_ms: int, bounds: tuple[int, int]) -> OffsetOutOfRange:
    topic, queue = place
    held = f"it holds offsets {bounds[0]:,} to {bounds[1]:,}" if bounds[0] < bounds[1] else "it holds none"
    return OffsetOutOfRange(
        f"cannot read topic {topic!r}, queue {queue}, with {moment_ms} in option {option}: no message was stored since; {held}",
        hint=hint("to begin such a queue at its end, use {startingOffsetsByTimestampStrategy=latest of spark}"),
        option=option,
        topic=topic,
        queue=queue,
        moment_ms=moment_ms,
        minimum=bounds[0],
        maximum=bounds[1],
    )
