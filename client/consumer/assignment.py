"""The queues that a consumer reads in one session: which queues, from which offsets, and how far each is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from orbitmq.client.connection.session import SessionHandle
from orbitmq.client.consumer.subscription import look_up
from orbitmq.errors import UnknownQueue
from orbitmq.native._types import PullHold, Reader
from orbitmq.shm.topic_table import QueueKey


@dataclass(slots=True)
class Place:
    """One queue.

    since: epoch of the group in which this consumer got it. The same number again means that nobody else had the queue in
        between.
    mark: where the group continues in it, as far as this consumer knows.
    base: the same, if the group's offsets are committed with atomic batches; None: they were not.
    leaving: the queue is to go to another member, which waits for this one. told: the program has been told so. released: the
        coordinator has been told so.
    """

    key: QueueKey
    slot: int
    since: int = 0
    mark: int = 0
    base: int | None = None
    paused: bool = False
    leaving: bool = False
    told: bool = False
    released: bool = False

    @property
    def idle(self) -> bool:
        """True if it is not read now."""
        return self.paused or self.leaving


class Move(NamedTuple):
    """What an atomic batch commits of a queue. base: where the group is; None: none of its offsets in this queue was committed
    with an atomic batch."""

    place: Place
    base: int | None
    to: int


class Assignment:
    """Queue i of `places` is cursor i of the reader and offset word i of the session. An exception of a signal handler may end
    any call half-way, so at every moment the places must be those of the reader's first cursors."""

    def __init__(self, reader: Reader, hold: PullHold) -> None:
        self.reader = reader
        self.hold = hold
        self.places: list[Place] = []
        self.index: dict[QueueKey, int] = {}

    @property
    def keys(self) -> list[QueueKey]:
        return [place.key for place in self.places]

    def _add(self, place: Place, position: Callable[[int], int]) -> None:
        """position: gives the offset to begin at, from the queue's index."""
        index = self.reader.add(place.slot, 0)
        self.reader.seek(index, position(index))
        if place.idle:
            self.reader.pause(index, True)
        self.index[place.key] = index
        self.places.append(place)

    def follow(self, handle: SessionHandle, topics: Iterable[str], first: Callable[[QueueKey, int, int], int]) -> bool:
        """Adds the queues of the topics that are not here yet, as far as the session has room. False: there are none.

        first: gives the offset to begin at, from the queue and its minimum and maximum.
        """
        fresh = []
        for name in topics:
            topic = look_up(handle.topics_address, name)
            keys = ((name, queue) for queue in range(topic.queues))
            fresh += [Place(key, topic.first_slot + key[1]) for key in keys if key not in self.index]
        try:
            for place in fresh[: handle.queue_capacity - len(self.places)]:
                self._add(place, lambda index, key=place.key: first(key, *self.reader.bounds(index)))  # type: ignore[misc]
        except BaseException:
            if self.reader.count != len(self.places):  # otherwise a cursor without a place would be read
                self.replace([(place, position) for place, position in zip(self.places, self.reader.positions(), strict=False)])
            raise
        return bool(fresh)

    def replace(self, places: Iterable[tuple[Place, int]]) -> None:
        """Replaces the queues by these, each with its position."""
        self.places, self.index = [], {}
        self.reader.clear()
        for place, position in places:
            self._add(place, lambda _, position=position: position)  # type: ignore[misc]

    def announce(self) -> None:
        """Makes the broker wake the consumer for the queues that it reads."""
        self.hold.interests([place.slot for place in self.places if not place.idle])

    def pause(self, queues: Iterable[QueueKey], paused: bool) -> None:
        """Raises: UnknownQueue: one of them is not assigned; nothing has changed then."""
        doing = "pause" if paused else "unpause"
        for index in [self.place(topic, queue, doing) for topic, queue in queues]:
            place = self.places[index]
            place.paused = paused
            self.reader.pause(index, place.idle)
        self.announce()

    def positions(self) -> dict[QueueKey, int]:
        """For each queue, the offset of the next message to deliver."""
        return dict(zip(self.keys, self.reader.positions(), strict=False))

    def place(self, topic: str, queue: int, doing: str) -> int:
        """The queue's index. Raises: UnknownQueue."""
        index = self.index.get((topic, queue))
        if index is None:
            raise UnknownQueue(f"could not {doing} queue {queue} of {topic!r}: it is not assigned", topic=topic, queue=queue)
        return index

    def uncommitted(self) -> list[QueueKey]:
        """Queues with messages delivered since the last commit."""
        positions = self.reader.positions()
        return [place.key for place, position in zip(self.places, positions, strict=False) if position != place.mark]
