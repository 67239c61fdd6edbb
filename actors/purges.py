"""Purges: somebody wants messages of a queue gone before retention does. Their bytes stay in the log until its files expire;
the queue's min offset rises above them, as retention raises it.

    1  orbitmq/purged says so, durably
    2  the min offsets rise: nobody gets these messages any more
    3  the caller is told

After a death between 1 and 2 the next coordinator, or the next start, does 2. A start does it before anybody can read: for what
recovery found, and again when reput has indexed the rest of the log. Where a power cut has cost messages that were purged, it
lowers the file's offsets first, because the next messages get the same numbers."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.native._core import lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import QueueKey, Topic, TopicTable
from orbitmq.store import purged
from orbitmq.store.layout import StoreLayout


class Purges:
    """Raises (from the constructor): OSError."""

    def __init__(self, layout: StoreLayout, topics: TopicTable) -> None:
        self._layout = layout
        self._topics = topics
        self._purged = purged.load(layout)

    def lower(self, ends: Mapping[QueueKey, int], *, store: bool) -> None:
        """For a start. ends: the offset that each queue's next message gets. Raises: OSError."""
        fitting = {
            topic: {queue: min(offset, ends.get((topic, queue), 0)) for queue, offset in queues.items()}
            for topic, queues in self._purged.items()
        }
        if fitting != self._purged:
            self._purged = fitting
            if store:
                purged.store(self._layout, fitting)

    def apply(self) -> None:
        """Raises the min offsets, as far as the queues reach now."""
        for name, queues in self._purged.items():
            topic = self._topics.find(name)
            if topic is not None:
                self._raise(topic, queues)

    def purge(self, topic: Topic, offsets: Mapping[int, int]) -> None:
        """offsets: by queue, the first one that is left; the queue holds it, or ends there. Raises: OSError: nothing has
        changed."""
        before = self._purged.get(topic.name, {})
        queues = {**before, **{queue: max(offset, before.get(queue, 0)) for queue, offset in offsets.items()}}
        if queues != before:
            wanted = {**self._purged, topic.name: queues}
            purged.store(self._layout, wanted)
            self._purged = wanted
        self._raise(topic, queues)

    def _raise(self, topic: Topic, queues: Mapping[int, int]) -> None:
        for queue, offset in queues.items():
            if queue < topic.queues:
                slot = topic.first_slot + queue
                lib.queue_raise_min(self._topics.table, slot, min(offset, self._topics.bounds(slot).maximum))
                crash_point("purges_raised")
