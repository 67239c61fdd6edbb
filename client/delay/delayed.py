"""Delayed messages that wait: which they are, and when they come.

What was delivered is known from the files of the scheduler (store/delays.py), which are some seconds old, and from the clock: a
message that is due counts as delivered. What was cancelled is known from the queue, where a record that cancels a message lies
behind it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import TYPE_CHECKING

from orbitmq.client.argument import most_or_all
from orbitmq.client.message import Message
from orbitmq.errors import OffsetOutOfRange, UnknownTopic
from orbitmq.native._core import ffi, lib
from orbitmq.native._types import Reader
from orbitmq.shm.topic_name import how_to_make
from orbitmq.shm.topic_table import TopicTable
from orbitmq.store import delays
from orbitmq.store.consume_queue import ConsumeQueue
from orbitmq.store.delays import DELAY_TOPIC, LEVELS, TIMER_TOPIC
from orbitmq.store.layout import StoreLayout

if TYPE_CHECKING:
    from orbitmq.client.lookup import Attached

PIECE_UNITS = 4096  # of a queue that are read together
# The third field of the unit of a record that cancels a message: this plus the message's queue offset (native/format/delay.h).
CANCELS = -(1 << 63)
CANCELS_END = CANCELS + (1 << 56)
Waits = tuple[int, int, int]  # due time (ms), queue slot, queue offset


@dataclass(frozen=True, slots=True)
class DelayedMessage:
    """due_ms: when it comes, milliseconds since the epoch. topic, queue: for which it is. message: as it waits: its properties
    name what it waits for."""

    due_ms: int
    topic: str
    queue: int
    message: Message = field(compare=False)

    @property
    def body(self) -> bytes:
        """A copy of the body."""
        return bytes(self.message)

    @property
    def place(self) -> str:
        """Where it waits, as in the receipt of its send, such as "rmq_sys_wheel_timer/0@17"."""
        return f"{self.message.topic}/{self.message.queue}@{self.message.offset}"


def delayed_messages(attached: Attached, topic: str | None, most: int | None) -> list[DelayedMessage]:
    """Those that wait at this moment, the next one first. topic: only those that are for it. most: so many at most.

    Raises: SettingError: most is below 1. UnknownTopic: nothing waits for the topic, and it does not exist. CorruptRecord:
    one of them is damaged."""
    most = most_or_all(most, "list delayed messages")
    waiting = _waiting(attached, time.time_ns() // 1_000_000)
    ordered = nsmallest(most, waiting) if most is not None and topic is None else sorted(waiting)
    found: list[DelayedMessage] = []
    readers: dict[int, Reader] = {}
    try:
        for due_ms, slot, offset in ordered:
            if len(found) == most:
                break
            if slot not in readers:
                readers[slot] = Reader(attached.control_address, attached.topics_address, attached)
                readers[slot].add(slot, offset)
            readers[slot].seek(0, offset)
            for message in readers[slot].messages(1):
                name, queue = message.properties.get("REAL_TOPIC", ""), message.properties.get("REAL_QID", "")
                if message.offset == offset and topic in (None, name):  # otherwise a limit of bytes has just removed it
                    found.append(DelayedMessage(due_ms, name, int(queue) if queue.isdecimal() else 0, message))
    finally:
        for reader in readers.values():
            reader.close()
    if topic is not None and not found and TopicTable(attached.topics).find(topic) is None:
        text = f"could not list what waits for topic {topic!r}: it does not exist, and nothing does"
        raise UnknownTopic(text, hint=how_to_make(topic), topic=topic)
    return found


def _waiting(attached: Attached, now_ms: int) -> Iterator[Waits]:
    settings = lib.control_settings(attached.control)
    layout, units = StoreLayout.at(ffi.string(settings.store).decode()), int(settings.queue_file_units)
    done, table = delays.load(layout), TopicTable(attached.topics)
    known, *cursor, floor = done.timer
    for name, queues, floors in ((DELAY_TOPIC, LEVELS, done.next), (TIMER_TOPIC, 1, (floor,))):
        topic = table.find(name)
        for queue in range(min(topic.queues, queues) if topic is not None else 0):
            slot = topic.first_slot + queue if topic is not None else 0
            bounds, files = table.bounds(slot), ConsumeQueue(layout.root, name, queue, units)
            for offset, code in _uncancelled(files, max(bounds.minimum, floors[queue]), bounds.maximum):
                delivered = name == TIMER_TOPIC and offset < known and [code, offset] <= cursor
                if code > now_ms and not delivered:  # the clock may have been set back since
                    yield code, slot, offset


def _uncancelled(files: ConsumeQueue, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """(queue offset, due time) of messages that were not cancelled, from the last on: what cancels one lies behind it."""
    cancelled: set[int] = set()
    while begin < end:
        first = max(begin, end - PIECE_UNITS)
        try:
            piece = files.units(first, end)
        except OffsetOutOfRange:  # retention has just removed it
            return
        for offset, unit in zip(range(end - 1, first - 1, -1), reversed(piece), strict=True):
            if unit.tags_code < CANCELS_END:
                cancelled.add(unit.tags_code - CANCELS)
            elif offset not in cancelled:
                yield offset, unit.tags_code
        end = first
