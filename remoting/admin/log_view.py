"""What an administrator asks about messages that are stored: read from the log and its queues, as local clients read them."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from orbitmq.errors import CorruptRecord, StoreError
from orbitmq.native._core import ffi, lib
from orbitmq.native._types import Message, Reader
from orbitmq.remoting.host import Host
from orbitmq.shm.topic_table import Topic, TopicTable
from orbitmq.store.log_head import stored_ms


class LogView:

    def __init__(self, host: Host) -> None:
        self.topics: TopicTable = host.topics
        self._control = host.control
        self._layout = host.settings.layout
        self._file_size = host.settings.files.log_file_size

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

    def oldest_ms(self) -> int:
        """When the log's first message was stored; -1: there is none, or it cannot be read."""
        seen = self.positions()
        if seen.min_offset >= seen.wrote:
            return -1
        try:
            found = stored_ms(self._layout, self._file_size, seen.min_offset)
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
                    found = None if bounds.minimum >= bounds.maximum else self._search(reader, topic, queue, store_ms)
                    total += bounds.maximum if found is None else found
        return total

    @staticmethod
    def _search(reader: Reader, topic: Topic, queue: int, store_ms: int) -> int | None:
        """The offset of the queue's first message that was stored then or later. None: it cannot be read."""
        reader.clear()
        try:
            return reader.search_time(reader.add(topic.first_slot + queue, 0), store_ms)
        except (CorruptRecord, StoreError):
            return None
