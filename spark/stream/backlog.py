"""What a stream has to read from its position on, and what it should read but no longer exists.

A stream loses messages if retention removes them before it reads them, or if a topic or the whole store is not the one that the
stream began with. failOnDataLoss says whether the stream then ends or continues with what is left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from orbitmq.errors import OffsetOutOfRange, OrbitError, UnknownTopic
from orbitmq.errors.remedy import hint
from orbitmq.spark.source.options import SourceOptions
from orbitmq.spark.stream.offsets import Offsets, Place
from orbitmq.tables.choice import topics_there
from orbitmq.tables.extents import Extents, Snapshot
from orbitmq.tables.planning import Slice

_log = logging.getLogger("orbitmq")
Ask = Callable[[], Snapshot | None]


class Backlog:
    """appended: tells what the store holds, flushed or not, or None if that is not known; it is asked only in doubt."""

    def __init__(self, options: SourceOptions, appended: Ask) -> None:
        self._choice = options.choice
        self._fails = options.fail_on_data_loss
        self._appended = appended

    def ends(self, begin: Offsets, held: Extents) -> Offsets:
        """How far each chosen queue can be read. That is not before `begin`, unless the queue was created again since: then the
        stream reads it from its first message. A topic that is gone is left out, so that it counts as new when it comes again.
        A queue that is no longer chosen keeps its place, so that the stream continues there when it is chosen again.

        Raises: UnknownTopic, UnknownQueue: chosen, but it does not exist; OffsetOutOfRange: a queue ends before `begin`. All of
            them only with failOnDataLoss.
        """
        if self._fails:
            known = {topic: dict(queues) for topic, queues in held.items()}
            for (topic, queue), offset in begin.items():
                known.setdefault(topic, {}).setdefault(queue, (offset, offset))  # what is gone gets an error of its own, below
            self._choice.of(known)
        places = self._chosen(held)
        left = {place: offset for place, offset in begin.items() if not self._wanted(*place)}
        ends = {place: max(bounds[1], begin.get(place, 0)) for place, bounds in places.items()}
        kept = {place: offset for place, offset in begin.items() if place not in places and self._wanted(*place)}
        doubtful = [place for place in places if begin.get(place, 0) > places[place][1]]
        if (kept or doubtful) and (now := self._appended()) is not None:
            there = self._chosen(now.topics)
            for place in [place for place in kept if place not in there]:
                del kept[place]
                self._lost(_gone(place, now.topics))
            for place in doubtful:
                if place in there and begin[place] > there[place][1]:
                    self._lost(_anew(place, begin[place], there[place]))
                    ends[place] = places[place][1]
        return ends | kept | left

    def starts(self, begin: Offsets, ends: Offsets, held: Extents) -> Offsets:
        """Where the messages before `ends` really begin."""
        places = self._chosen(held)
        found = {}
        for place, end in ends.items():
            minimum = places.get(place, (0, 0))[0]
            start = begin.get(place, 0)
            found[place] = min(end, minimum if start > end else max(minimum, start))
        return found

    def slices(self, begin: Offsets, ends: Offsets, held: Extents, *, first: bool) -> list[Slice]:
        """The existing messages of [begin, ends), also of queues that are no longer chosen: a batch that was planned before is
        read as planned. first: `begin` was not passed in but determined just now, and may be after the end that a first batch
        had when it is read again.

        Raises: OffsetOutOfRange, UnknownTopic: some no longer exist, with failOnDataLoss.
        """
        places = _all(held)
        found = []
        for place, end in sorted(ends.items()):
            start, stop = begin.get(place, 0), end
            if start == stop or (start > stop and first):
                continue
            bounds = places.get(place)
            if bounds is None or stop > bounds[1]:
                now = self._appended()
                bounds = bounds if now is None else _all(now.topics).get(place)
                if bounds is None:
                    self._lost(_gone(place, held if now is None else now.topics))
                    continue
                if now is not None and stop > bounds[1]:
                    self._lost(_anew(place, stop, bounds))
                    stop = bounds[1]
            if start > stop:  # created again, as was reported when the end was determined
                start = bounds[0]
            elif start < bounds[0]:
                self._lost(_removed(place, start, bounds))
                start = bounds[0]
            if start < stop:
                found.append(Slice(*place, start, stop))
        return found

    def _chosen(self, held: Extents) -> dict[Place, tuple[int, int]]:
        return {place: bounds for place, bounds in _all(held).items() if self._wanted(*place)}

    def _wanted(self, topic: str, queue: int) -> bool:
        return self._choice.takes(topic) and (self._choice.queues is None or queue in self._choice.queues[topic])

    def _lost(self, error: OrbitError) -> None:
        if self._fails:
            raise error
        _log.warning("%s; failOnDataLoss is off: the stream goes on with what there is", error.message)


def _all(held: Extents) -> dict[Place, tuple[int, int]]:
    return {(topic, queue): bounds for topic, queues in held.items() for queue, bounds in queues.items()}


def _removed(place: Place, offset: int, bounds: tuple[int, int]) -> OffsetOutOfRange:
    return _outside(place, offset, bounds, "retention has removed it before it was read")


def _anew(place: Place, offset: int, bounds: tuple[int, int]) -> OffsetOutOfRange:
    return _outside(place, offset, bounds, "the queue ends before it, so the topic or the store was made anew")


def _outside(place: Place, offset: int, bounds: tuple[int, int], why: str) -> OffsetOutOfRange:
    topic, queue = place
    return OffsetOutOfRange(
        f"cannot go on with topic {topic!r}, queue {queue}, at offset {offset:,} with option failOnDataLoss = true: {why}; "
        f"{bounds[0]:,} to {bounds[1]:,} would do",
        hint=hint(
            "to go on with what there is, use {failOnDataLoss=false of spark} || use another {checkpointLocation of spark}"
        ),
        option="failOnDataLoss",
        topic=topic,
        queue=queue,
        offset=offset,
        minimum=bounds[0],
        maximum=bounds[1],
    )


def _gone(place: Place, held: Extents) -> UnknownTopic:
    topic, queue = place
    return UnknownTopic(
        f"cannot go on with topic {topic!r}, queue {queue}, with option failOnDataLoss = true: the store does not have it any "
        f"more; it has {topics_there(held)}",
        hint=hint("to go on without it, use {failOnDataLoss=false of spark} || use another {checkpointLocation of spark}"),
        option="failOnDataLoss",
        topic=topic,
        queue=queue,
        topics=sorted(held),
    )
