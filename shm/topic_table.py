"""The topic table in shared memory, from Python. Anybody reads it; only the coordinator adds to it. native/shared/topics.h
draws it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from orbitmq.native._core import ffi, lib
from orbitmq.shm.durability import APPENDED, FLUSHED, Durability

PERM_READ: int = lib.PERM_READ
PERM_WRITE: int = lib.PERM_WRITE
PERM_READ_WRITE: int = lib.PERM_READ | lib.PERM_WRITE

RETENTION_FOR_EVER: int = lib.RETENTION_FOR_EVER

QueueKey = tuple[str, int]  # topic, queue id


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the table holds it. Queue q has the queue slot first_slot + q, and there is room for slot_capacity queues.
    retention_hours: 0: as the broker's setting; RETENTION_FOR_EVER. durable: sends wait for the disk unless they say
    otherwise."""

    name: str
    index: int
    queues: int
    perm: int
    first_slot: int
    slot_capacity: int
    retention_hours: int
    durable: bool
    deleted: bool = False


def own_retention(hours: int) -> int | None:
    """The meaning of a topic's retention_hours in the table. None: as the broker's setting; 0: for ever."""
    return None if hours == 0 else 0 if hours == RETENTION_FOR_EVER else hours


def default_durability(durable: bool) -> Durability:
    """The meaning of a topic's `durable` in the table."""
    return FLUSHED if durable else APPENDED


class QueueBounds(NamedTuple):
    """Queue offsets [minimum, maximum) may be read."""

    minimum: int
    maximum: int


class TopicTable:
    """Args: table: a `struct topics *`, whose owner keeps the mapping alive."""

    def __init__(self, table: Any) -> None:
        self._table = table

    @property
    def table(self) -> Any:
        """The `struct topics *`."""
        return self._table

    def __iter__(self) -> Iterator[Topic]:
        """Every topic, in the order in which they were made."""
        return (topic for topic in self._walk(lib.topics_next) if not topic.deleted)

    def _walk(self, following: Callable[..., int]) -> Iterator[Topic]:
        slot, seen = ffi.new("uint32_t *"), ffi.new("struct topic_seen *")
        while (index := following(self._table, slot, seen)) != lib.TOPIC_NONE:
            yield _topic(index, seen)

    @property
    def burials(self) -> int:
        """How often files of deleted topics were given up (native/shared/topics.h)."""
        return int(lib.topics_burials(self._table))

    @property
    def buried(self) -> int:
        """How often such files were removed."""
        return int(lib.topics_buried(self._table))

    def deleted(self) -> list[Topic]:
        """Places of topics that do not exist."""
        return [topic for topic in self._walk(lib.topics_next) if topic.deleted]

    def unburied(self) -> list[Topic]:
        """Those of them that got messages which nobody has purged yet."""
        return list(self._walk(lib.topics_unburied))

    def find(self, name: str) -> Topic | None:
        topic = self.find_even_deleted(name)
        return None if topic is None or topic.deleted else topic

    def find_even_deleted(self, name: str) -> Topic | None:
        """The place of a topic that was deleted stays its own: nobody finds the topic, and reput indexes what the log holds of
        it."""
        encoded = name.encode(errors="surrogatepass")  # no topic has such a name
        index = lib.topics_find(self._table, encoded, len(encoded))
        return None if index == lib.TOPIC_NONE else self._see(index)

    def next_offset(self, slot: int) -> int:
        """The queue offset that the next message of the queue gets."""
        seen = ffi.new("struct queue_seen *")
        lib.queue_see(self._table, slot, seen)
        return max(int(seen.next_offset), int(seen.max_offset))

    def bounds(self, slot: int) -> QueueBounds:
        """The bounds of the queue in this queue slot."""
        seen = ffi.new("struct queue_seen *")
        lib.queue_see(self._table, slot, seen)
        return QueueBounds(seen.min_offset, seen.max_offset)

    def _see(self, index: int) -> Topic | None:
        seen = ffi.new("struct topic_seen *")
        return _topic(index, seen) if lib.topic_see(self._table, index, seen) else None


def _topic(index: int, seen: Any) -> Topic:
    return Topic(
        name=bytes(ffi.buffer(seen.name, seen.name_size)).decode(),
        index=index,
        queues=seen.queues,
        perm=seen.perm,
        first_slot=seen.first_slot,
        slot_capacity=seen.slot_capacity,
        retention_hours=seen.retention_hours,
        durable=bool(seen.durable),
        deleted=bool(seen.deleted),
    )
