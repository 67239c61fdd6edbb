"""Which delayed messages still wait for their time, and which half messages for the end of their transaction, by what the files
say of them (delays.py, halves.py): retention asks.

The files never say more than the disk has. A message whose delivery a power cut could take back therefore still counts as
waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from orbitmq.native._core import lib
from orbitmq.shm.topic_table import QueueBounds, Topic
from orbitmq.store import delays, halves
from orbitmq.store.commit_log.log_head import stored_ms
from orbitmq.store.consume_queue import UNIT_SIZE, ConsumeQueue, Unit
from orbitmq.store.delays import DELAY_TOPIC, LEVELS, TIMER_TOPIC, Delays
from orbitmq.store.halves import HALF_TOPIC, Halves
from orbitmq.store.layout import StoreLayout

HALF_KEPT_MS = 72 * 3600 * 1000  # so long a half message that is not settled counts as waiting; RocketMQ's fileReservedTime
PIECE_UNITS = 1 << 16  # looked at between two questions whether to stop


class Waiting:
    """Args: bounds: of a queue slot. stopping: ends a search early; it then answers with what it has found."""

    def __init__(
        self,
        layout: StoreLayout,
        file_units: int,
        file_size: int,
        bounds: Callable[[int], QueueBounds],
        stopping: Callable[[], bool],
    ) -> None:
        self._layout = layout
        self._file_units = file_units
        self._file_size = file_size
        self._halves = Halves()
        self._bounds = bounds
        self._stopping = stopping
        self._passed = 0  # in the queue of messages with a time, all before this are done, which no tree takes back
        self._known = Delays()

    def refresh(self) -> None:
        """Reads the files. Raises: OSError, StoreFailed."""
        self._known = delays.load(self._layout)
        self._halves = halves.load(self._layout)

    def oldest(self, topics: list[Topic]) -> tuple[int, int] | None:
        """(physical offset, due time in ms) of the waiting message that was stored first. None: none waits.

        Raises: OSError, OffsetOutOfRange, StoreSettingsError: a queue cannot be read."""
        found: list[tuple[int, int]] = []
        for topic in topics:
            if topic.name == DELAY_TOPIC:
                for level, queue in enumerate(self._queues(topic, LEVELS)):
                    bounds = self._bounds(topic.first_slot + level)
                    first = max(bounds.minimum, self._known.next[level])
                    if first < bounds.maximum:
                        unit = queue.peek(first)
                        found.append((unit.physical_offset, unit.tags_code))
            elif topic.name == TIMER_TOPIC:
                bounds, queue = self._bounds(topic.first_slot), self._queues(topic, 1)[0]
                self._passed = self._first(queue, max(bounds.minimum, self._passed), bounds.maximum)
                if self._passed < bounds.maximum:
                    unit = queue.peek(self._passed)
                    found.append((unit.physical_offset, unit.tags_code))
            elif topic.name == HALF_TOPIC:
                bounds, queue = self._bounds(topic.first_slot), self._queues(topic, 1)[0]
                # the first one that is not too old: those before it protect nothing any more
                first = queue.search(max(bounds.minimum, self._halves.floor), bounds.maximum, self._given_up)
                if first < bounds.maximum:
                    place = queue.peek(first).physical_offset
                    found.append((place, (self._begun_ms(place) or 0) + HALF_KEPT_MS))
        return min(found, default=None)

    def count(self, topics: list[Topic], end: int) -> int:
        """How many wait whose records begin before this physical offset. Raises: as oldest()."""
        total = 0
        for topic in topics:
            if topic.name == DELAY_TOPIC:
                for level, queue in enumerate(self._queues(topic, LEVELS)):
                    bounds = self._bounds(topic.first_slot + level)
                    first = max(bounds.minimum, self._known.next[level])
                    total += queue.search(first, bounds.maximum, lambda unit: unit.physical_offset < end) - first
            elif topic.name == TIMER_TOPIC:
                bounds, queue = self._bounds(topic.first_slot), self._queues(topic, 1)[0]
                at = max(bounds.minimum, self._passed)
                last = queue.search(at, bounds.maximum, lambda unit: unit.physical_offset < end)
                while at < last and not self._stopping():
                    content = queue.bytes_of(at, min(last, at + PIECE_UNITS))
                    units = len(content) // UNIT_SIZE
                    total += lib.delay_count_waiting(content, units, at, self._known.timer)
                    at += units
        return total

    def halves(self, topics: list[Topic], end: int) -> tuple[int, int]:
        """Queue offsets: the half messages in [first, last) begin before this physical offset, and may be open. Raises: as
        oldest()."""
        for topic in topics:
            if topic.name == HALF_TOPIC:
                bounds, queue = self._bounds(topic.first_slot), self._queues(topic, 1)[0]
                first = max(bounds.minimum, self._halves.floor)
                return first, queue.search(first, bounds.maximum, lambda unit: unit.physical_offset < end)
        return 0, 0

    def _begun_ms(self, place: int) -> int | None:
        return stored_ms(self._layout, self._file_size, place)

    def _given_up(self, half: Unit) -> bool:
        begun_ms = self._begun_ms(half.physical_offset)
        return begun_ms is None or begun_ms + HALF_KEPT_MS <= self._now_ms()

    @staticmethod
    def _now_ms() -> int:
        return time.time_ns() // 1_000_000

    def _queues(self, topic: Topic, most: int) -> list[ConsumeQueue]:
        numbers = range(min(topic.queues, most))
        return [ConsumeQueue(self._layout.root, topic.name, number, self._file_units) for number in numbers]

    def _first(self, queue: ConsumeQueue, begin: int, end: int) -> int:
        """The first unit of [begin, end) that waits; `end` if none does."""
        begin = max(begin, min(self._known.timer[3], end))
        while begin < end and not self._stopping():
            content = queue.bytes_of(begin, min(end, begin + PIECE_UNITS))
            units = len(content) // UNIT_SIZE
            index: int = lib.delay_first_waiting(content, units, begin, self._known.timer)
            begin += index
            if index < units:
                break
        return begin


def when(due_ms: int) -> str:
    """A due time, for people."""
    try:
        return datetime.fromtimestamp(due_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):  # another program's
        return f"{due_ms:,} ms"
