"""Removes the ConsumeQueue files of deleted topics while the broker runs. Reput does it, because it alone makes and maps these
files; programs that have them mapped keep them until they let go.

    1  the coordinator writes down where the queues' numbers end (store/purged.py), then raises their min offsets to there and
       says that it is worth looking (actors/topics/purges.py)
    2  reput closes the files of a deleted topic all of whose queues hold nothing any more, and removes them
    3  it raises `buried` in the table, so that the flush service syncs the names of what it makes from there on

A message that was on its way when the topic was deleted may come later and make a file again; the coordinator sees the message
and reput the file, and both do it again. The next start removes what a death leaves."""

from __future__ import annotations

from typing import Any

from orbitmq.actors.complaints import Complaints
from orbitmq.actors.tree import Tree
from orbitmq.native._core import lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import Topic, TopicTable


class Burial:
    """Args: reput: a `struct reput *`."""

    def __init__(self, tree: Tree, reput: Any) -> None:
        self._name = tree.settings.name
        self._layout = tree.settings.layout
        self._topics = TopicTable(tree.topics)
        self._reput = reput
        self._complaints = Complaints()
        self._done = 0  # how often the coordinator had asked at the last look that left nothing
        if self._topics.burials:
            lib.topics_raise_buried(tree.topics)  # a predecessor may have died between removing files and this

    def look(self) -> None:
        asked = self._topics.burials
        late = bool(lib.reput_late(self._reput))
        if asked == self._done and not late:
            return
        # A list: each is judged, whatever becomes of the one before it.
        if all([self._bury(topic) for topic in self._topics.deleted()]):
            self._done = asked

    def _bury(self, topic: Topic) -> bool:
        """False: the topic has to be looked at again."""
        slots = range(topic.first_slot, topic.first_slot + topic.slot_capacity)
        bounds = [self._topics.bounds(slot) for slot in slots]
        if any(minimum < maximum for minimum, maximum in bounds):
            return False
        folder = self._layout.consumequeue / topic.name
        if not folder.exists():
            return True
        import shutil  # here: it brings compressors with it

        for slot in slots:
            lib.reput_let_go(self._reput, slot)
        try:
            shutil.rmtree(folder)
        except OSError as error:
            self._complaints.say(f"cannot remove the queues of the deleted topic {topic.name!r}: {error}")
            return False
        finally:
            lib.topics_raise_buried(self._topics.table)
        crash_point("burial_removed")
        return True
