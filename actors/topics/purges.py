"""Purges and deletions: somebody wants messages of a queue, or a topic, gone before retention removes them. Their bytes stay in
the log until its files expire; the queue's min offset rises above them, as retention raises it.

    1  orbitmq/purged says so, durably
    2  the min offsets rise: nobody gets these messages any more; a deleted topic's place in the table says that it is deleted
    3  the caller is told

After a death between 1 and 2 the next coordinator, or the next start, does 2. A start does it before anybody can read: for what
recovery found, and again when reput has indexed the rest of the log. Where a power cut has cost messages that were purged, it
lowers the file's offsets first, because the next messages get the same numbers.

What comes to a deleted topic is gone at once: messages that were under way when it was deleted, and old ones that reput finds
in the log. Where its queues' numbers end is written down before their files are removed, by reput (actors/burial.py) or by a
start.

The topic may be made again: its queues' numbers continue after all that the old one got.

    0  reput has passed all that; until then the answer is "not yet", and nothing is written
    1  orbitmq/purged says that all of it is purged, and that the topic is deleted unless topics.json names it
    2  topics.json names it: from here on it exists
    3  the min offsets rise, and the place in the table says that it exists
    4  orbitmq/purged says that it is not deleted

After a death between 2 and 4 the next coordinator, or the next start, does the rest. If 2 fails, the topic is still deleted,
and the next try begins at 0: what came meanwhile is purged too."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from orbitmq.native._core import lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import QueueKey, Topic, TopicTable
from orbitmq.store import purged
from orbitmq.store.layout import StoreLayout

_Value = TypeVar("_Value")


class Purges:
    """Raises (from the constructor): OSError."""

    def __init__(self, layout: StoreLayout, topics: TopicTable) -> None:
        self._layout = layout
        self._topics = topics
        self._purged = purged.load(layout)
        self._asked = not self._purged.deleted  # a predecessor may have died before it said that files may go
        self._behind = False  # the file still says AGAIN of a topic of which this is not true any more

    @property
    def deleted(self) -> Mapping[str, int]:
        """Topics that do not exist, whatever log and queues hold; and the counter of topics.json at their deletion."""
        return self._purged.deleted

    def ends(self, topic: str) -> Mapping[int, int]:
        """By queue, where the numbers of a topic continue that was deleted at some time."""
        return self._purged.ends.get(topic, {})

    def start(self, found: Mapping[QueueKey, int], *, store: bool) -> None:
        """For a start. found: the next offset of each queue, as queues and log have it. Raises: OSError."""
        ends = {topic: dict(queues) for topic, queues in self._purged.ends.items()}
        floors = {topic: dict(queues) for topic, queues in self._purged.floors.items()}
        for (topic, queue), offset in found.items():
            if topic in self.deleted:
                known = ends.setdefault(topic, {})
                known[queue] = max(known.get(queue, 0), offset)
        for topic, queues in floors.items():
            for queue, offset in queues.items():
                queues[queue] = min(offset, max(found.get((topic, queue), 0), ends.get(topic, {}).get(queue, 0)))
        fitting = replace(self._purged, floors=floors, ends=ends)
        if fitting != self._purged:
            self._purged = fitting
            if store:
                purged.store(self._layout, fitting)

    def apply(self) -> None:
        """Raises the min offsets, as far as the queues reach now."""
        for name, queues in self._purged.floors.items():
            topic = self._topics.find(name)
            if topic is not None:
                self._raise(topic, queues)

    def apply_to(self, place: Topic) -> None:
        """The same for one topic, which may be marked as deleted."""
        self._raise_all(place, self._purged.floors.get(place.name, {}))

    def purge(self, topic: Topic, offsets: Mapping[int, int]) -> None:
        """offsets: by queue, the first one that is left; the queue holds it, or ends there. Raises: OSError: nothing has
        changed."""
        before = self._purged.floors.get(topic.name, {})
        queues = {**before, **{queue: max(offset, before.get(queue, 0)) for queue, offset in offsets.items()}}
        if queues != before:
            self._store(replace(self._purged, floors={**self._purged.floors, topic.name: queues}))
        self._raise(topic, queues)

    def delete(self, topic: Topic, counter: int) -> None:
        """The topic does not exist from here on. counter: of topics.json, which still names it. Raises: OSError: nothing has
        changed."""
        deleted = {**self.deleted, topic.name: counter}
        self._store(replace(self._purged, deleted=deleted, ends={**self._purged.ends, topic.name: self._ends_now(topic)}))
        lib.topic_set_deleted(self._topics.table, topic.index, True)
        crash_point("purges_deleted")

    def bury(self) -> None:
        """Called from time to time: what deleted topics have got is gone too, and their queues' files may go. Raises: OSError:
        nothing has changed; the next call tries again."""
        places = self._topics.unburied()
        if not places and self._asked and not self._behind:
            return
        ends = {**self._purged.ends, **{place.name: self._ends_now(place) for place in places}}
        if ends != self._purged.ends or self._behind:
            self._store(replace(self._purged, ends=ends))
        for place in places:
            self._raise_all(place, ends[place.name])
        crash_point("purges_buried")
        lib.topics_bury(self._topics.table)
        self._asked = True

    def hides(self, name: str) -> bool:
        """The topic is deleted, and nobody is making it again."""
        return self.deleted.get(name, purged.AGAIN) != purged.AGAIN

    def begin_again(self, name: str) -> bool:
        """A topic of this name is about to be made: once topics.json names it, call `made`; if that fails, `stay_deleted`. All
        that the old one got is purged. False: reput has not passed that, and nothing has changed; it would appear in the new
        one. Raises: OSError: nothing has changed."""
        if name not in self.deleted:
            return True
        place = self._topics.find_even_deleted(name)
        ends = self.ends(name) if place is None else self._ends_now(place)
        if place is not None and not self._passed(place, ends):
            return False
        parts = self._purged
        deleted = {**parts.deleted, name: purged.AGAIN}
        floors = {**parts.floors, name: dict(ends)}
        self._store(purged.Purged(floors, deleted, {**parts.ends, name: dict(ends)}))
        return True

    def made(self, name: str, *, store: bool = True) -> None:
        """topics.json names the topic again."""
        if name in self.deleted:
            self._say(_without(self.deleted, name), store=store)

    def stay_deleted(self, name: str, counter: int) -> None:
        """It could not be made again. counter: as `delete`."""
        if self.deleted.get(name) == purged.AGAIN:
            self._say({**self.deleted, name: counter})

    def forget(self, name: str, *, store: bool) -> None:
        """Another program has made the topic again, in its own way: what it made counts as it is. Raises: OSError."""
        parts = self._purged
        wanted = purged.Purged(_without(parts.floors, name), _without(parts.deleted, name), _without(parts.ends, name))
        if store:
            purged.store(self._layout, wanted)
        self._purged = wanted

    def _ends_now(self, place: Topic) -> dict[int, int]:
        known = self.ends(place.name)
        found = {queue: self._topics.next_offset(place.first_slot + queue) for queue in range(place.slot_capacity)}
        ends = {queue: max(known.get(queue, 0), found.get(queue, 0)) for queue in known.keys() | found.keys()}
        return {queue: end for queue, end in sorted(ends.items()) if end}

    def _say(self, deleted: Mapping[str, int], *, store: bool = True) -> None:
        """What the file says means the same. If it cannot be written now, `bury` tries again."""
        self._purged = replace(self._purged, deleted=deleted)
        self._behind = store
        if store:
            with suppress(OSError):
                self._store(self._purged)

    def _store(self, wanted: purged.Purged) -> None:
        purged.store(self._layout, wanted)
        self._purged = wanted
        self._behind = False

    def _passed(self, place: Topic, ends: Mapping[int, int]) -> bool:
        """The queues that the place has room for reach so far."""
        slots = {place.first_slot + queue: end for queue, end in ends.items() if queue < place.slot_capacity}
        return all(end <= self._topics.bounds(slot).maximum for slot, end in slots.items())

    def _raise_all(self, place: Topic, queues: Mapping[int, int]) -> None:
        """In all queues that the place has room for."""
        for queue, offset in queues.items():
            if queue < place.slot_capacity:
                self._raise_to(place.first_slot + queue, offset)

    def _raise(self, topic: Topic, queues: Mapping[int, int]) -> None:
        for queue, offset in queues.items():
            if queue < topic.queues:
                self._raise_to(topic.first_slot + queue, offset)
                crash_point("purges_raised")

    def _raise_to(self, slot: int, offset: int) -> None:
        """As far as the queue reaches now."""
        lib.queue_raise_min(self._topics.table, slot, min(offset, self._topics.bounds(slot).maximum))


def _without(table: Mapping[str, _Value], name: str) -> dict[str, _Value]:
    return {key: value for key, value in table.items() if key != name}
