"""What an administrator asks about messages that are stored: read from the log and its queues, as local clients read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from orbitmq.errors import CorruptRecord, StoreError
from orbitmq.native._core import ffi, lib
from orbitmq.native._types import Message, Reader
from orbitmq.remoting.host import Host
from orbitmq.shm.topic_table import Topic, TopicTable
from orbitmq.store.commit_log.log_head import stored_ms
from orbitmq.store.index_file import TIME_END, candidates, key_hash

COLLISIONS = 128  # hits of one IndexFile, of which some may belong to other keys


class LogView:

    def __init__(self, host: Host) -> None:
        self.topics: TopicTable = host.topics
        self._control = host.control
        self._layout = host.settings.layout
        self._files = host.settings.files

    def positions(self) -> Any:
        """A fresh struct positions_seen."""
        seen = ffi.new("struct positions_seen *")
        lib.control_positions(self._control, seen)
        return seen

    def reader(self) -> Reader:
        """Its own mappings, until it is closed."""
        address = int(ffi.cast("uintptr_t", self._control))
        return Reader(address, int(ffi.cast("uintptr_t", self.topics.table)), self)

    def last_ms(self, reader: Reader, topic: Topic, queue: int) -> int:
        """When the queue's newest message was stored; 0: it holds none, or it cannot be read."""
        bounds = self.topics.bounds(topic.first_slot + queue)
        if bounds.minimum >= bounds.maximum:
            return 0
        found = self.message(reader, topic, queue, bounds.maximum - 1)
        return 0 if found is None else found.stored_ms

    def message(self, reader: Reader, topic: Topic, queue: int, offset: int) -> Message | None:
        """None: it is not there any more, or damaged."""
        reader.clear()
        reader.add(topic.first_slot + queue, offset)
        try:
            return next((each for each in reader.messages(1) if each.offset == offset), None)
        except (CorruptRecord, StoreError):
            return None

    def at(self, reader: Reader, place: int) -> Message | None:
        """The message that begins at a physical offset, which may be any number. None: none does, or it cannot be read."""
        seen = self.positions()
        if not seen.min_offset <= place < seen.reput:
            return None
        try:
            return reader.record(place)
        except (CorruptRecord, StoreError):
            return None

    def shown(self, reader: Reader, place: int) -> Message | None:
        """The same, unless it is hidden, or part of a body in which somebody wrote what looks like a record."""
        found = self.at(reader, place)
        if found is None or self.hidden(found):
            return None
        topic = self.topics.find(found.topic)
        if topic is None or found.queue >= topic.queues:
            return None
        stored = self.message(reader, topic, found.queue, found.offset)
        return found if stored is not None and stored.physical_offset == place else None

    def hidden(self, message: Message) -> bool:
        """Its topic does not show it any more, or does not exist."""
        topic = self.topics.find(message.topic)
        if topic is None:
            return True
        return message.queue < topic.queues and message.offset < self.topics.bounds(topic.first_slot + message.queue).minimum

    def with_key(self, reader: Reader, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[Message]:
        """Messages of the topic with this key or unique key, stored at these times, both included; newest first."""
        folder, files, hash_ = self._layout.index, self._files, key_hash(topic, key)
        times = {"begin_ms": max(0, min(begin_ms, TIME_END)), "end_ms": max(0, min(end_ms, TIME_END))}
        passed = set[int]()
        for place in candidates(folder, files.index_slots, files.index_entries, hash_, **times, most=COLLISIONS):
            message = None if place in passed else self.at(reader, place)
            passed.add(place)
            if message is None or message.topic != topic or not begin_ms <= message.stored_ms <= end_ms:
                continue
            if key in (*message.keys, message.properties.get("UNIQ_KEY")) and not self.hidden(message):
                yield message

    def oldest_ms(self) -> int:
        """When the log's first message was stored; -1: there is none, or it cannot be read."""
        seen = self.positions()
        if seen.min_offset >= seen.wrote:
            return -1
        try:
            found = stored_ms(self._layout, self._files.log_file_size, seen.min_offset)
        except OSError:
            return -1
        return -1 if found is None else found

    def count(self) -> int:
        """How many messages the topics that exist have ever got."""
        table = self.topics
        return sum(table.bounds(topic.first_slot + queue).maximum for topic in table for queue in range(topic.queues))

    def count_until(self, store_ms: int) -> int:
        """How many of them were stored before this time; a queue that cannot be searched counts as a whole."""
        total = 0
        with closing(self.reader()) as reader:
            for topic in self.topics:
                for queue in range(topic.queues):
                    bounds = self.topics.bounds(topic.first_slot + queue)
                    found = None if bounds.minimum >= bounds.maximum else self.search(reader, topic, queue, store_ms)
                    total += bounds.maximum if found is None else found
        return total

    @staticmethod
    def search(reader: Reader, topic: Topic, queue: int, store_ms: int) -> int | None:
        """The offset of the queue's first message that was stored then or later. None: it cannot be read."""
        reader.clear()
        try:
            return reader.since(reader.add(topic.first_slot + queue, 0), store_ms)
        except (CorruptRecord, StoreError):
            return None
