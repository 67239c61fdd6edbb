"""The topic table as Python sees it."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from orbitmq.native._core import ffi, lib
from orbitmq.shm.topic_table import TopicTable

CAPACITY = 64
QUEUES = 32
TABLE_AT = 3 * 64  # native/shared/topics.h: three lines before the entries, each of three
ENTRY_SIZE = 3 * 64


class Made:
    def __init__(self, memory: mmap.mmap) -> None:
        self.memory = memory
        self.table = ffi.cast("struct topics *", ffi.from_buffer(memory))
        lib.topics_init(self.table, CAPACITY, QUEUES, 1)
        self.topics = TopicTable(self.table)

    def add(self, name: str, queues: int) -> int:
        index = ffi.new("uint32_t *")
        encoded = name.encode()
        assert lib.topics_add(self.table, encoded, len(encoded), queues, queues, lib.PERM_READ, index) == lib.TOPICS_ADDED
        return int(index[0])

    def empty(self, index: int) -> None:
        """As a coordinator leaves the entry that dies before it sets the state."""
        at = TABLE_AT + index * ENTRY_SIZE
        assert struct.unpack_from("=I", self.memory, at) == (1,)
        struct.pack_into("=I", self.memory, at, 0)

    def seen(self) -> list[tuple[str, int, int]]:
        return [(topic.name, topic.first_slot, topic.queues) for topic in self.topics]


@pytest.fixture
def made() -> Iterator[Any]:
    yield Made(mmap.mmap(-1, lib.topics_size(CAPACITY, QUEUES)))


def test_topics_come_in_the_order_in_which_they_were_made(made: Made) -> None:
    assert made.seen() == []
    for name, queues in (("b", 3), ("a", 1), ("c", 5)):
        made.add(name, queues)
    assert made.seen() == [("b", 0, 3), ("a", 3, 1), ("c", 4, 5)]
    assert [made.topics.find(topic.name) for topic in made.topics] == list(made.topics)


def test_what_a_dead_coordinator_began_is_no_topic(made: Made) -> None:
    """Goal: a topic whose maker died is not seen, and is seen once when a successor has made it again. Method: an entry without
    its state, whose slots are handed out."""
    made.add("before", 2)
    made.empty(made.add("half", 3))
    made.add("after", 1)
    assert made.seen() == [("before", 0, 2), ("after", 5, 1)]
    made.add("half", 4)
    assert made.seen() == [("before", 0, 2), ("after", 5, 1), ("half", 6, 4)]


def test_a_table_without_a_free_slot(made: Made) -> None:
    made.add("all", QUEUES)
    assert made.seen() == [("all", 0, QUEUES)]
