"""The topic table as a client sees it: read-only, straight from shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orbitmq.client.attachment import Attachment
from orbitmq.native._core import ffi, lib


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic. perm: 2 may be written, 4 may be read."""

    name: str
    queues: int
    perm: int


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A topic with its place: queue q has the queue slot first_slot + q."""

    name: str
    queues: int
    perm: int
    index: int
    first_slot: int

    @property
    def info(self) -> TopicInfo:
        return TopicInfo(self.name, self.queues, self.perm)


class TopicTable:
    def __init__(self, attachment: Attachment) -> None:
        self._attachment = attachment

    def __iter__(self) -> Iterator[TableEntry]:
        """Every topic, by name."""
        seen = ffi.new("struct topic_seen *")
        found = []
        for index in range(lib.topics_capacity(self._attachment.topics)):
            if lib.topic_see(self._attachment.topics, index, seen):
                name = bytes(ffi.buffer(seen.name, seen.name_size)).decode()
                found.append(TableEntry(name, int(seen.queues), int(seen.perm), index, int(seen.first_slot)))
        return iter(sorted(found, key=lambda entry: entry.name))

    def bounds(self, entry: TableEntry, queue: int) -> tuple[int, int]:
        """Queue offsets [minimum, maximum) that can be read."""
        seen = ffi.new("struct queue_seen *")
        lib.queue_see(self._attachment.topics, entry.first_slot + queue, seen)
        return int(seen.min_offset), int(seen.max_offset)
