"""Retention: messages that are too old, or too many, are no longer delivered; then their files are removed. docs/retention.md
says what an operator sees.

The second thread of the flush service does it, because the flush service publishes the log's beginning. One look has these
steps:

    1  topics with a time of their own: their queues' min offsets pass what is older
    2  which log files nobody needs, oldest first: all of it is older than its topic's time, and nothing in it waits for its
       own time (store/waiting.py); or they are too many bytes
    3  each queue's min offset passes what lies in them, then the log's beginning does [M1]
    4  the files are removed (store/trim.py)

If the process dies in between, it leaves a published beginning with files before it, and its successor removes those. If the
whole tree dies, it leaves files that nothing precedes, and the next look finds them as this one did. Nothing is stored here:
the answer follows from the clock, the settings and the store timestamps.

Where store timestamps are known to rise (store/rising.py), one timestamp tells about all messages before it. In what another
program has written they may go back, so every message is looked at, once: a file is as old as its newest message.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

from orbitmq.actors import events
from orbitmq.actors.expiry_clock import wall_clock_ms
from orbitmq.actors.tree import Tree
from orbitmq.errors import OrbitError
from orbitmq.native._core import lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import QueueBounds, Topic, TopicTable
from orbitmq.store.commit_log.log_head import newest_ms, stored_ms
from orbitmq.store.consume_queue import ConsumeQueue, Unit
from orbitmq.store.kept import Kept
from orbitmq.store.trim import Removed, trim
from orbitmq.store.waiting import Waiting, when

HOUR_MS = 3_600_000
FOR_EVER: int = lib.RETENTION_FOR_EVER


class Retention:
    """Args: clock: milliseconds since the epoch. held: true while the clock cannot be believed; then nothing is removed by age.
    stopping: ends a look early; the next one continues. synced: the physical offset below which all queues are on disk."""

    def __init__(
        self,
        tree: Tree,
        clock: Callable[[], int] = wall_clock_ms,
        held: Callable[[], bool] = lambda: False,
        stopping: Callable[[], bool] = lambda: False,
        synced: Callable[[], int] = lambda: sys.maxsize,
    ) -> None:
        self._tree = tree
        self._clock = clock
        self._held = held
        self._stopping = stopping
        self._synced = synced
        self._kept = Kept(tree.settings.retention_hours, tree.settings.retention_bytes)
        self._topics = TopicTable(tree.topics)
        self._layout = tree.settings.layout
        self._files = tree.settings.files
        sizes = self._files.queue_file_units, self._files.log_file_size
        self._waiting = Waiting(self._layout, *sizes, self._topics.bounds, stopping)
        self._says_why = True  # that nothing is removed, because a message waits
        self._rising_from = int(lib.control_rising(tree.control))
        self._newest: dict[int, int | None] = {}  # by start, for files in which times may go back
        # by queue slot, for the same files: a cutoff, and the offset up to which all is older
        self._passed: dict[int, tuple[int, int]] = {}
        self._trimmed = -1  # the beginning before which no file is left; unknown at first, because a predecessor may have died

    def run(self) -> Removed:
        """One look. Returns what it removed.

        Raises: OSError, OrbitError: a file could not be looked at or removed; the next look begins again."""
        asked = self._topics.burials
        try:
            return self._run()
        except (OSError, OrbitError):
            if self._topics.burials == asked:
                raise
            return Removed()  # what could not be looked at may be of a topic that was deleted meanwhile

    def _run(self) -> Removed:
        last = self._last()  # before the topics: whatever lies before it belongs to one of them
        topics = list(self._topics)  # once, so that all of the look is about the same ones
        self._hide(topics)
        begin = int(self._tree.positions().min_offset)
        end = self._end(topics, begin, last, self._kept)
        if end > begin:
            self._tell_lost(topics, end)
            self._publish(topics, end)
        if end == self._trimmed:
            return Removed(whole=True)
        removed = trim(self._layout, self._files, end, self._stopping)
        if removed.whole:
            self._trimmed = end
        if removed.log:
            events.info(
                f"retention removed {removed.log:,} log files, {removed.queue:,} of queues and {removed.index:,} of "
                f"the index; the log begins at {end:,}",
                begin=end,
                log_files=removed.log,
            )
        return removed

    def hide(self) -> None:
        """Passes what is older than its topic's own time. Such messages stay in the log's files, beside those of other topics,
        until a whole file has expired. The supervisor does it too, before a start, so that nobody sees again what was gone. If
        something cannot be read, the start goes on; the flush service's first look reports it."""
        with suppress(OSError, OrbitError):
            self._hide(list(self._topics))

    def _hide(self, topics: list[Topic]) -> None:
        for topic in topics:
            if topic.retention_hours in (0, FOR_EVER):
                continue
            cutoff = self._clock() - topic.retention_hours * HOUR_MS
            for slot, queue in self._queues(topic):
                bounds = self._topics.bounds(slot)
                first = self._first_after(cutoff, slot, queue, bounds)
                if first > bounds.minimum:
                    lib.queue_raise_min(self._tree.topics, slot, first)
                    crash_point("retention_hidden")

    def loses(self, before: Kept) -> int:
        """Bytes of the log that a look removes now and would not remove if `before` were still kept. The supervisor asks before
        any actor runs, so all of the log counts as being on disk."""
        topics = list(self._topics)
        seen = self._tree.positions()
        begin, last = int(seen.min_offset), self._start(int(seen.wrote))
        return self._end(topics, begin, last, self._kept) - self._end(topics, begin, last, before)

    # ---- what may go

    def _end(self, topics: list[Topic], begin: int, last: int, kept: Kept) -> int:
        """Where the log may begin."""
        return self._within_bytes(self._aged(topics, begin, last, kept), last, kept)

    def _start(self, end: int) -> int:
        """Start of the file that contains the byte before `end`."""
        return max(0, end - 1) // self._files.log_file_size * self._files.log_file_size

    def _last(self) -> int:
        """Start of the file with the newest message that is on disk together with its unit. That file always stays, because it
        says where the log is. The unit matters because the last message of a queue may be removed, and only its unit then says
        where the queue's numbers continue; a power cut must not take both."""
        seen = self._tree.positions()
        return self._start(min(int(seen.flushed), int(seen.reput), self._synced()))

    def _aged(self, topics: list[Topic], begin: int, last: int, by: Kept) -> int:
        """Where the log may begin: before the first file with a message that its topic still keeps."""
        hours = [_hours(topic, by) for topic in topics]
        shortest = min((each for each in hours if each), default=0)
        if not shortest or self._held():
            return begin
        now_ms = self._clock()
        end = begin
        size = self._files.log_file_size
        for start in range(begin + size, last + 1, size):
            newest = self._newest_before(start)
            if newest is not None and newest > now_ms - shortest * HOUR_MS:
                break
            end = end if newest is None else start
        for topic, kept in zip(topics, hours, strict=True):
            if kept != shortest:
                end = min(end, self._needed(topic, kept and now_ms - kept * HOUR_MS, begin, end))
        return self._before_waiting(topics, begin, end)

    def _before_waiting(self, topics: list[Topic], begin: int, end: int) -> int:
        """Start of the file that holds the oldest message which waits for its time; `end` at most. What waits is not old before
        it is delivered."""
        if end == begin:
            return end
        self._waiting.refresh()
        oldest = self._waiting.oldest(topics)
        if oldest is None or oldest[0] >= end:
            self._says_why = True
            return end
        if self._says_why:
            self._says_why = False
            events.info(
                f"retention keeps the log from {oldest[0]:,} on, although it is older than asked: a message waits there until "
                f"{when(oldest[1])}",
            )
        return max(begin, oldest[0] - oldest[0] % self._files.log_file_size)

    def _tell_lost(self, topics: list[Topic], end: int) -> None:
        """Only a limit of bytes removes what waits."""
        if not self._kept.size:
            return
        self._waiting.refresh()
        lost = self._waiting.count(topics, end)
        if lost:
            events.warn(
                f"retention removes {lost:,} delayed messages before their time, because the log may take "
                f"{self._kept.size:,} bytes at most; raise retention_bytes if such messages must come",
            )

        ended = int(lib.control_count_open_halves(self._tree.control, *self._waiting.halves(topics, end)))
        if ended:
            events.warn(
                f"retention removes the half messages of {ended:,} open transactions, which cannot be committed any more, "
                f"because the log may take {self._kept.size:,} bytes at most; raise retention_bytes if they must stay",
            )

    def _needed(self, topic: Topic, cutoff: int, begin: int, end: int) -> int:
        """Start of the file that holds the topic's oldest message stored after the cutoff (0: the oldest that exists); `end` at
        most."""
        for slot, queue in self._queues(topic):
            if end == begin:
                break
            bounds = self._topics.bounds(slot)
            first = self._first_after(cutoff, slot, queue, bounds) if cutoff else bounds.minimum
            if first < bounds.maximum:
                place = queue.peek(first).physical_offset
                end = max(begin, min(end, place - place % self._files.log_file_size))
        return end

    def _within_bytes(self, end: int, last: int, by: Kept) -> int:
        """Files that are reserved ahead count as well, because the limit is for space on the disk."""
        most, size = by.size, self._files.log_file_size
        allocated = int(self._tree.positions().allocated)
        while most and allocated - end > most and end < last:
            end += size
        return end

    # ---- saying so

    def _publish(self, topics: list[Topic], begin: int) -> None:
        """Readers first: a reader that still comes for what is removed is told the valid range."""
        for topic in topics:
            for slot, queue in self._queues(topic):
                bounds = self._topics.bounds(slot)
                first = queue.search(*bounds, lambda unit: unit.physical_offset < begin)
                if first > bounds.minimum:
                    lib.queue_raise_min(self._tree.topics, slot, first)
                    crash_point("retention_queue_raised")
        lib.control_raise_min_offset(self._tree.control, begin)
        crash_point("retention_published")

    # ---- queues and times

    def _queues(self, topic: Topic) -> Iterator[tuple[int, ConsumeQueue]]:
        """Queue slots and files of the topic's queues."""
        for queue in range(topic.queues):
            yield (
                topic.first_slot + queue,
                ConsumeQueue(self._layout.root, topic.name, queue, self._files.queue_file_units),
            )

    def _newest_before(self, start: int) -> int | None:
        """A time such that no message of the file before `start` is later. None: it is not known."""
        size = self._files.log_file_size
        # Where times rise, the first message of the next file tells. A damaged one tells nothing; that of the file after it
        # may.
        if start - size >= self._rising_from:
            return stored_ms(self._layout, size, start)
        if start not in self._newest:
            newest, whole = newest_ms(self._layout, size, start - size, self._stopping)
            if self._stopping():
                return sys.maxsize
            after = None if whole else stored_ms(self._layout, size, start)
            self._newest[start] = max((each for each in (newest, after) if each is not None), default=None)
        return self._newest[start]

    def _first_after(self, cutoff: int, slot: int, queue: ConsumeQueue, bounds: QueueBounds) -> int:
        """Queue offset of the first message stored after the cutoff; the queue's end if there is none."""
        older, at = self._stored_by(cutoff), bounds.minimum
        known, passed = self._passed.get(slot, (0, 0))
        if known <= cutoff:
            at = max(at, min(passed, bounds.maximum))
        rises = False
        while at < bounds.maximum and not self._stopping():
            unit = queue.peek(at)
            rises = unit.physical_offset >= self._rising_from
            if rises or not older(unit):
                break
            at += 1
        self._passed[slot] = cutoff, at
        return queue.search(at, bounds.maximum, older) if rises else at

    def _stored_by(self, cutoff: int) -> Callable[[Unit], bool]:
        """True if a unit's message was stored at the cutoff or before. An unreadable message counts as later, and stays."""

        def older(unit: Unit) -> bool:
            found = stored_ms(self._layout, self._files.log_file_size, unit.physical_offset)
            return found is not None and found <= cutoff

        return older


def _hours(topic: Topic, kept: Kept) -> int:
    """How long a topic's messages are kept; 0: for ever."""
    return 0 if topic.retention_hours == FOR_EVER else topic.retention_hours or kept.hours
