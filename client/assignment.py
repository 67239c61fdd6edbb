"""The queues that a consumer reads in one session: which, from where, and how far each is committed."""

from __future__ import annotations

from collections.abc import Iterable

from orbitmq.errors import UnknownQueue
from orbitmq.native._fast import Reader, Waiter
from orbitmq.shm.topic_table import QueueKey


class Assignment:
    """Queue i of `keys` is cursor i of the reader, interest i and offset word i of the session."""

    def __init__(self, reader: Reader, waiter: Waiter) -> None:
        self.reader = reader
        self.waiter = waiter
        self.keys: list[QueueKey] = []
        self.slots: list[int] = []  # their queue slots
        self.index: dict[QueueKey, int] = {}
        self.marks: list[int] = []  # in a group: where the group goes on, as far as this consumer knows

    def add(self, key: QueueKey, slot: int, position: int) -> int:
        index = self.reader.add(slot, position)
        self.index[key] = index
        self.keys.append(key)
        self.slots.append(slot)
        self.marks.append(position)
        return index

    def replace(self, queues: Iterable[tuple[QueueKey, int, int]]) -> None:
        """Other queues from now on: key, queue slot and position of each."""
        self.reader.clear()
        self.keys, self.slots, self.index, self.marks = [], [], {}, []
        for key, slot, position in queues:
            self.add(key, slot, position)

    def announce(self) -> None:
        """Has the consumer woken for these queues."""
        self.waiter.interests(self.slots)

    def positions(self) -> dict[QueueKey, int]:
        """By queue the offset of the next message to deliver."""
        return dict(zip(self.keys, self.reader.positions(), strict=True))

    def place(self, topic: str, queue: int, doing: str) -> int:
        """The queue's index. Raises: UnknownQueue."""
        index = self.index.get((topic, queue))
        if index is None:
            raise UnknownQueue(f"could not {doing} queue {queue} of {topic!r}: it is not assigned", topic=topic, queue=queue)
        return index

    def uncommitted(self) -> bool:
        """True when messages were delivered since the last commit."""
        return self.reader.positions() != self.marks
