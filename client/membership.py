"""A consumer's place in its group: joining, taking the queues that it is given, and committing.

What it would commit belongs to the session that delivered it. When that session is gone (the broker's tree died, or this is
a forked child), or a queue went to another member, what was delivered since the last commit is lost to it: the next commit
says so."""

from __future__ import annotations

import mmap
import os
from typing import Any

from orbitmq.client.assignment import Assignment
from orbitmq.client.session import ConsumerOpener, SessionHandle
from orbitmq.errors import Fenced
from orbitmq.native._core import lib
from orbitmq.shm.crash_point import crash_point


class Membership:
    def __init__(self, opener: ConsumerOpener, group: str, topics: list[str], start: str) -> None:
        self.group = group
        self.rebalances = 0
        self._opener = opener
        self._topics = topics
        self._start = start
        self._handle: SessionHandle
        self._assignment: Assignment
        self._joined = False
        self._lost = False  # messages were delivered that can no longer be committed
        self._untold = False  # and no error has said so

    def enter(self, handle: SessionHandle, assignment: Assignment) -> None:
        """Joins with a fresh session. Raises: what the coordinator answers."""
        self._handle = handle
        self._assignment = assignment
        self._take(self._join())

    def lose(self, told: bool = False) -> None:
        """Before queues go. told: an error has said already that messages come again."""
        if self._assignment.uncommitted():
            self._lost = True
            self._untold = self._untold or not told

    def rebalance(self) -> None:
        """The group's epoch has moved: takes what is ours now."""
        try:
            # Without a file to commit in, for which there were no means, we are a member by half.
            answer = self._opener.ask("assignment", **self._names()) if self._joined else self._join()
        except Fenced:
            answer = self._join()  # the group forgot us
        self._take(answer)
        self.rebalances += 1

    def commit(self) -> bool:
        """Keeps the positions for the group. False: the tree has died or stopped, and has perhaps not taken them.

        Raises: Fenced: what was delivered cannot be committed, or not all of it; the rest was.
        """
        assignment, waiter = self._assignment, self._assignment.waiter
        while True:
            # A tree that has died need not be asked: what is put into a file that is not closed, the next start takes.
            if waiter.check() == lib.WAITER_GONE:
                return False
            if waiter.commit(positions := assignment.reader.positions()):
                break
            crash_point("membership_commit_refused")
            if waiter.current() and waiter.closed():
                return False
            self.rebalance()
        moved, assignment.marks = positions != assignment.marks, positions
        lost, untold = self._lost, self._untold
        self._lost = self._untold = False
        # Whoever was told, and has read on since, expects them to come again.
        if lost and (untold or not moved):
            raise Fenced(
                f"could not commit for the group {self.group!r}: messages came from queues that are not its any more",
                hint="go on polling; messages that were not committed come again",
                group=self.group,
            )
        return True

    def committed(self) -> dict[tuple[str, int], int]:
        """By queue of the assignment the offset that the group goes on at."""
        kept = {(topic, queue): offset for topic, queue, offset in self._opener.ask("committed", group=self.group)}
        return {key: kept[key] for key in self._assignment.keys if key in kept}

    def _take(self, answer: dict[str, Any]) -> None:
        self.lose()
        assignment = self._assignment
        assignment.replace(((topic, queue), slot, offset or 0) for topic, queue, slot, offset in answer["queues"])
        crash_point("membership_assigned")
        assignment.waiter.join(answer["group"], answer["epoch"])
        assignment.announce()

    def _join(self) -> dict[str, Any]:
        """Becomes a member, with a file to commit in (native/commit_words.h)."""
        self._joined = False
        wish = {"topics": self._topics, "start": self._start}
        answer, descriptor = self._opener.ask_for_file("join_group", **self._names(), **wish)
        try:
            # Populated: the first commit should cost no more than the others.
            self._assignment.waiter.words(mmap.mmap(descriptor, 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE))
        finally:
            os.close(descriptor)
        self._joined = True
        assert isinstance(answer, dict)
        return answer

    def _names(self) -> dict[str, Any]:
        handle = self._handle
        return {"generation": handle.generation, "slot": handle.slot, "epoch": handle.epoch, "group": self.group}
