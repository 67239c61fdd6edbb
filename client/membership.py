"""A consumer's place in its group: joining, taking the queues that it is given, and committing.

What it would commit belongs to the session that delivered it. When that session is gone (the broker's tree died, or this is
a forked child), or a queue went to another member, what was delivered since the last commit is lost to it: the next commit
says so."""

from __future__ import annotations

from typing import Any

from orbitmq.client.assignment import Assignment
from orbitmq.client.session import ConsumerOpener, SessionHandle
from orbitmq.errors import Fenced
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
            answer = self._ask("assignment")
        except Fenced:
            answer = self._join()  # the group forgot us
        self._take(answer)
        self.rebalances += 1

    def commit(self) -> bool:
        """Keeps the positions for the group. False: the tree has died, so nothing counts.

        Raises: Fenced: what was delivered cannot be committed, or not all of it; the rest was.
        """
        assignment = self._assignment
        while not assignment.waiter.commit(positions := assignment.reader.positions()):
            crash_point("membership_commit_refused")
            self.rebalance()
        # A tree that lived after the words were written has them; one that died has perhaps not read them.
        if assignment.waiter.dead():
            return False
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
        return self._ask("join_group", topics=self._topics, start=self._start)

    def _ask(self, operation: str, **fields: Any) -> dict[str, Any]:
        answer = self._opener.ask(operation, slot=self._handle.slot, epoch=self._handle.epoch, group=self.group, **fields)
        assert isinstance(answer, dict)
        return answer
