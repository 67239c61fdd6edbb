"""A consumer's place in its group: it joins, takes the queues that it is assigned, releases those that others are to have, and
commits.

Messages belong to the session that delivered them. If that session is gone (the broker died, or this is a forked child), or a
queue went to another member, messages delivered since the last commit can no longer be committed. The next commit says so.

A queue that is to go is marked in the assignment as leaving. It is not read any more, and its commits still count. If the
program has a callback for it, the queue is released when that has returned. Otherwise it is released as soon as all messages
delivered from it are committed. A member that takes longer than its `revoke_timeout` loses the queue."""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from orbitmq.client.connection.session import ConsumerOpener, SessionHandle
from orbitmq.client.consumer.assignment import Assignment, Move, Place
from orbitmq.client.consumer.listener import Listener, QueuesEvent
from orbitmq.client.consumer.offset_range import check_commit
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.errors import Fenced, OrbitError, SettingError, UsageError
from orbitmq.native._core import lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import QueueKey

POLL_S_MIN = 1.0  # how often a waiting member reports that it is alive: ten times a second
SECONDS_MAX = 1e9
NO_OFFSET: int = lib.PULL_HOLD_NO_OFFSET


@dataclass(frozen=True, slots=True)
class JoinSettings:
    """What a member says when it joins: its topics, where to begin in a queue that is new to the group, how long it may make no
    call (0: for ever), how long it may keep a queue that is to go, and whether it is an instance of a broadcast group, which is
    alone in a group of its own."""

    topics: list[str]
    start: str
    poll_ms: int
    revoke_ms: int
    broadcast: bool

    def fields(self) -> dict[str, Any]:
        fields = {"topics": self.topics, "start": self.start, "poll_ms": self.poll_ms, "revoke_ms": self.revoke_ms}
        return {**fields, "broadcast": True} if self.broadcast else fields


def join_settings(asked: ConsumerSettings, topics: list[str], listener: Listener) -> JoinSettings | None:
    """None without a group. Raises: SettingError."""
    _check_seconds("max_poll_interval", POLL_S_MIN if asked.max_poll_interval is None else asked.max_poll_interval, POLL_S_MIN)
    _check_seconds("revoke_timeout", asked.revoke_timeout, 0.0)
    if asked.group is None:
        if listener.hears:
            what = "on_assigned, on_revoked or on_lost"
            raise SettingError(f"could not take {what}: a consumer without a group keeps its queues", setting="group")
        return None
    poll_ms, revoke_ms = int((asked.max_poll_interval or 0) * 1000), int(asked.revoke_timeout * 1000)
    return JoinSettings(topics, asked.start, poll_ms, revoke_ms, asked.broadcast)


def _check_seconds(name: str, value: float, least: float) -> None:
    if not least <= value <= SECONDS_MAX:
        what = f"it lies outside {least:g} to {SECONDS_MAX:g} seconds"
        raise SettingError(f"could not set {name} to {value!r}: {what}", setting=name, value=value)


def fenced(group: str, queues: Sequence[QueueKey]) -> Fenced:
    """The error for offsets of an atomic batch."""
    names = ", ".join(f"{topic!r} {queue}" for topic, queue in queues[:3]) + (", ..." if len(queues) > 3 else "")
    return Fenced(
        f"could not commit offsets of the group {group!r} with an atomic batch: its offsets have changed since this consumer "
        f"began, or messages came from queues that are no longer the consumer's ({names})",
        hint="nothing of the batch is stored; go on polling: messages that were not committed come again, here or elsewhere",
        group=group,
        queues=list(queues),
    )


class Membership:
    """pending: there is something to tell the program, see `next_event`."""

    def __init__(self, opener: ConsumerOpener, group: str, settings: JoinSettings, listener: Listener) -> None:
        self.group = group
        self.rebalances = 0
        self.pending = False
        self._opener = opener
        self._settings = settings
        self._listener = listener
        self._handle: SessionHandle
        self._assignment: Assignment
        self._joined = False
        self._lost: dict[QueueKey, bool] = {}  # delivered, and no longer possible to commit; True: an error has said so
        self._new: list[QueueKey] = []  # queues that the program was not told about
        self._gone: list[QueueKey] = []
        self._parting = False
        self.doubt = False  # an atomic batch with offsets was not stored, or perhaps not: see `look_back`
        # Not committed because a new assignment was being taken and did not complete: those places may be gone.
        self._torn: set[QueueKey] = set()

    # ---- the assignment

    def enter(self, handle: SessionHandle, assignment: Assignment) -> None:
        """Joins with a fresh session. Raises: what the coordinator answers."""
        self._handle = handle
        self._assignment = assignment
        assignment.hold.check()  # counts as a call, so that the group does not take this member for hung
        self._take(self._join())

    def lose(self, *, told: bool, silent: bool) -> None:
        """The session is gone, and all queues with it. told: an error has already said that messages come again. silent: the
        program need not be told that the queues are gone."""
        self._note_lost({*self._assignment.uncommitted(), *self._torn}, told)
        self._torn.clear()
        if not silent:
            self._gone += [place.key for place in self._assignment.places if place.key not in self._new and not place.told]
        self._new = []
        self._look()

    def rebalance(self) -> None:
        """The group's epoch has moved: takes the new assignment."""
        try:
            # Without a file to commit in, because this process lacked the means, it is only half a member.
            answer = self._ask("assignment") if self._joined else self._join()
        except Fenced:
            answer = self._join()  # the group no longer knows this member
        self._take(answer)
        self.rebalances += 1

    def _take(self, answer: dict[str, Any]) -> None:
        """Continues at its own position in queues that it had all along, and at the group's in the others."""
        assignment = self._assignment
        bases = answer.get("bases") or [None] * len(answer["queues"])
        self._torn.update(assignment.uncommitted())
        positions = assignment.positions()
        stayed: set[QueueKey] = set()
        before = {place.key: place for place in assignment.places}
        untold, unknown, self._new = set(self._new), frozenset(self._new), []
        fresh: list[tuple[Place, int]] = []
        for index, (topic, queue, slot, offset) in enumerate(answer["queues"]):
            key, since = (topic, queue), answer["since"][index]
            place = before.get(key)
            if place is not None and place.since == since:
                del before[key]
                stayed.add(key)
                position = positions[key]
            else:
                base = bases[index]
                position = (offset or 0) if base is None else base
                place = Place(key, slot, since, mark=position, base=base)
                untold.add(key)
            place.leaving = self._parting or index in answer["leaving"]
            if place.told and not place.leaving:
                place.told = place.released = False
                untold.add(key)  # it was to go, and stays after all
            if key in untold:
                self._new.append(key)
            fresh.append((place, position))
        self._note_lost(self._torn - stayed, told=False)
        self._gone += [key for key, place in before.items() if not place.told and key not in unknown]
        assignment.replace(fresh)
        crash_point("membership_assigned")
        assignment.hold.join(answer["group"], answer["epoch"])
        self._torn.clear()
        assignment.announce()
        self._let_go()
        self._look()

    # ---- what the program is told

    def next_event(self) -> QueuesEvent | None:
        """The next thing to tell the program. Call `done` once it has been told."""
        event = None
        if self._gone:
            event, self._gone = QueuesEvent("lost", self._gone), []
        elif self._new:
            event, self._new = QueuesEvent("assigned", self._new), []
        elif self._listener.on_revoked is not None and (going := self._going()):
            for place in going:
                place.told = True
            event = QueuesEvent("revoked", [place.key for place in going])
        self._look()
        return event

    def done(self, event: QueuesEvent) -> None:
        if event.kind == "revoked":
            self._release([place for place in self._assignment.places if place.leaving and place.told])

    def part(self) -> None:
        """The consumer is about to be closed: all its queues go."""
        self._parting = True
        for place in self._assignment.places:
            place.leaving = True
        self._look()

    def _going(self) -> list[Place]:
        return [place for place in self._assignment.places if place.leaving and not place.told]

    def _look(self) -> None:
        if not self._listener.hears:
            self._new, self._gone = [], []
        going = self._listener.on_revoked is not None and self._going()
        self.pending = bool(self._gone or self._new or going)

    def _let_go(self) -> None:
        """Releases queues that are leaving and committed, unless the program must be told first."""
        if self._listener.on_revoked is None and (going := self._going()):
            uncommitted = self._assignment.uncommitted()
            self._release([place for place in going if place.key not in uncommitted])

    def _release(self, places: Collection[Place]) -> None:
        released = [place for place in places if not place.released]
        if not released:
            return
        crash_point("membership_releasing")
        # What cannot be released now goes when its time is over.
        with suppress(OrbitError):
            self._ask("release_queues", released=[[*place.key, place.since] for place in released])
            for place in released:
                place.told = place.released = True
            crash_point("membership_released")

    # ---- commits

    def commit(self, offsets: Mapping[QueueKey, int] | None) -> bool:
        """Stores the positions, or these offsets, for the group. False: the broker has died or stopped, and may not have taken
        them.

        Raises: Fenced: some of what was delivered cannot be committed; the rest was. UnknownQueue, OffsetOutOfRange: nothing
            was committed.
        """
        self._refuse_exact()
        since = None if offsets is None else self._had_since(offsets)
        assignment, waiter = self._assignment, self._assignment.hold
        while True:
            # There is no need to ask whether the broker has died: the next start takes what is in a file that is not closed.
            if waiter.check() == lib.PULL_HOLD_GONE:
                return False
            if waiter.commit(words := self._words(offsets, since)):
                break
            crash_point("membership_commit_refused")
            if waiter.current() and waiter.closed():
                return False
            self.rebalance()
        moved = False
        for place, word in zip(assignment.places, words, strict=True):
            if word != NO_OFFSET:
                moved |= place.mark != word
                place.mark = word
        self._let_go()
        self._complain(offsets, since, moved)
        return True

    def _refuse_exact(self) -> None:
        """Raises: UsageError: the group's offsets are committed with atomic batches."""
        for place in self._assignment.places:
            if place.base is not None:
                topic, queue = place.key
                raise UsageError(
                    f"could not commit for the group {self.group!r}: its offsets are committed with atomic batches "
                    f"({topic!r} {queue})",
                    hint="with producer.batch() as batch: batch.commit(consumer)",
                    value=self.group,
                )

    # ---- commits with an atomic batch

    def moves(self) -> list[Move]:
        """What has been delivered and not been committed. Raises: Fenced, once: some of it came from queues that are not this
        member's any more."""
        lost, self._lost = sorted(self._lost), {}
        if lost:
            raise fenced(self.group, lost)
        places, positions = self._assignment.places, self._assignment.reader.positions()
        read = zip(places, positions, strict=False)
        return [Move(place, place.base, position) for place, position in read if position != place.mark]

    def moved(self, moves: Collection[Move]) -> None:
        """They are stored."""
        for move in moves:
            move.place.base = move.place.mark = move.to

    def let_go(self) -> None:
        """After that: queues that are leaving may go."""
        self._let_go()

    def step_back(self) -> None:
        """They are not, or perhaps not: what has been delivered since the last commit comes again."""
        self.doubt = True
        for index, place in enumerate(self._assignment.places):
            self._assignment.reader.seek(index, place.mark)

    def look_back(self) -> None:
        """Goes on where the group is, as far as `doubt` says that this member may not know it."""
        try:
            answer = self._ask("assignment")
        except Fenced:
            answer = self._join()
        self._take(answer)
        bases = answer.get("bases") or ()
        for index, (place, base) in enumerate(zip(self._assignment.places, bases, strict=False)):
            if base is not None:
                place.base = place.mark = base
            self._assignment.reader.seek(index, place.mark)
        self.doubt = False

    def committed(self) -> dict[QueueKey, int]:
        """For each assigned queue, the offset at which the group continues."""
        answer = self._opener.ask("committed", generation=self._handle.generation, group=self.group)
        kept = {(topic, queue): offset for topic, queue, offset in answer}
        return {key: kept[key] for key in self._assignment.keys if key in kept}

    def _had_since(self, offsets: Mapping[QueueKey, int]) -> dict[QueueKey, int]:
        """For each queue to be committed, the epoch since which this member has it. -1 for a queue whose messages were lost, if
        those are meant."""
        since = {}
        for (topic, queue), offset in offsets.items():
            if (topic, queue) in self._lost:
                since[topic, queue] = -1
                continue
            index = self._assignment.place(topic, queue, "commit an offset of")
            check_commit(topic, queue, offset, self._assignment.reader.bounds(index)[1])
            since[topic, queue] = self._assignment.places[index].since
        return since

    def _words(self, offsets: Mapping[QueueKey, int] | None, since: Mapping[QueueKey, int] | None) -> list[int]:
        """One for each assigned queue that this member has had all along."""
        if offsets is None or since is None:
            return self._assignment.reader.positions()
        places = self._assignment.places
        return [offsets[place.key] if since.get(place.key) == place.since else NO_OFFSET for place in places]

    def _complain(self, offsets: Mapping[QueueKey, int] | None, since: Mapping[QueueKey, int] | None, moved: bool) -> None:
        """Raises: Fenced, once for the messages that were lost."""
        if offsets is None or since is None:
            lost, self._lost = self._lost, {}
            # A program that was told, and has read on since, expects them to come again.
            gone = [] if moved and all(lost.values()) else sorted(lost)
        else:
            held = {place.key: place.since for place in self._assignment.places}
            gone = sorted(key for key in offsets if held.get(key) != since[key])
            for key in gone:
                self._lost.pop(key, None)
        if gone:
            names = ", ".join(f"{topic!r} {queue}" for topic, queue in gone[:3]) + (", ..." if len(gone) > 3 else "")
            raise Fenced(
                f"could not commit for the group {self.group!r}: messages came from queues that are not its any more ({names})",
                hint="go on polling; messages that were not committed come again, and all others were committed",
                group=self.group,
                queues=gone,
            )

    def _note_lost(self, queues: Collection[QueueKey], told: bool) -> None:
        for key in queues:
            self._lost[key] = told and self._lost.get(key, True)

    # ---- questions

    def _join(self) -> dict[str, Any]:
        """Becomes a member, with a file to commit in (native/shared/commit_words.h)."""
        self._joined = False
        answer, descriptor = self._opener.ask_for_file("join_group", **self._names(), **self._settings.fields())
        try:
            # Populated, so that the first commit costs no more than the others.
            self._assignment.hold.words(mmap.mmap(descriptor, 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE))
        finally:
            os.close(descriptor)
        self._joined = True
        assert isinstance(answer, dict)
        return answer

    def _ask(self, operation: str, **fields: Any) -> Any:
        return self._opener.ask(operation, **self._names(), **fields)

    def _names(self) -> dict[str, Any]:
        handle = self._handle
        return {"generation": handle.generation, "slot": handle.slot, "epoch": handle.epoch, "group": self.group}
