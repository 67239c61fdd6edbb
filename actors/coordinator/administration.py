"""The questions of people who look after a broker: which groups and clients there are, and changes of groups and topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import cached_property
from typing import Any

from orbitmq.actors.check_backs import CheckBacks
from orbitmq.actors.coordinator.peer import Peer
from orbitmq.actors.groups.group_commits import CommitTable
from orbitmq.actors.groups.group_registry import GroupRegistry
from orbitmq.actors.groups.groups import Group, Member, check_group_name
from orbitmq.actors.groups.offsets import Offsets
from orbitmq.actors.sessions.caller import require_maker
from orbitmq.actors.sessions.process_id import ProcessId
from orbitmq.actors.sessions.sessions import Session, Sessions
from orbitmq.actors.topics.topic_registry import TopicRegistry
from orbitmq.actors.tree import Tree
from orbitmq.actors.work.describe import WorkDescriber
from orbitmq.actors.work.registry import DEAD, RETRY, WorkRegistry
from orbitmq.errors import NoPermission, OffsetOutOfRange, UnknownGroup, UnknownQueue, UsageError
from orbitmq.errors.remedy import hint
from orbitmq.native._core import lib
from orbitmq.shm.topic_table import QueueKey, Topic
from orbitmq.store.halves import HALF_TOPIC


class Administration:
    """A part of Operations, whose rules hold here too."""

    def __init__(
        self, tree: Tree, topics: TopicRegistry, sessions: Sessions, groups: GroupRegistry, offsets: Offsets, work: WorkRegistry
    ) -> None:
        self._tree = tree
        self._topics = topics
        self._sessions = sessions
        self._groups = groups
        self._offsets = offsets
        self._work = work
        self._commits = CommitTable(tree)
        self._describer = WorkDescriber(tree, topics, sessions, offsets)
        self._peers: Callable[[], Iterable[Peer]] = tuple

    def serve(self, peers: Callable[[], Iterable[Peer]]) -> None:
        """Before the first question. peers: gives the connections that there are."""
        self._peers = peers

    def groups(self, peer: Peer, question: dict[str, Any]) -> Any:
        """All groups, or the one that is named, with commits of this moment."""
        name = question.get("group")
        if name is not None:
            self._known(name, "find")
        self._groups.collect()
        self._work.collect()
        return self._group_list() if name is None else [self._group_map(name)]

    def group_work(self, peer: Peer, question: dict[str, Any]) -> Any:
        """How the work on some queues of a group stands; WorkDescriber.queues. after: [topic, queue], or [] to begin."""
        name, after = question["group"], question.get("after", [])
        self._known(name, "find")
        group = self._work.planned(name)
        if group is None:
            return {"queues": [], "hands": [], "after": []}
        return self._describer.queues(name, group, (after[0], after[1]) if after else None)

    def clients(self, peer: Peer, question: dict[str, Any]) -> Any:
        """[{"pid", "uid", "connections", "groups", "sessions"}, ...]. uid: None: the process has no connection now."""
        connections = Counter[ProcessId]()
        users: dict[ProcessId, int] = {}
        for each in self._peers():
            connections[each.process] += 1
            users[each.process] = each.caller.uid
        sessions: dict[ProcessId, list[Session]] = {}
        for session in self._sessions:
            sessions.setdefault(session.process, []).append(session)
        joined: dict[str, list[str]] = {}
        for group in self._groups:
            for member in group.members:
                joined.setdefault(member, []).append(group.name)
        for name in self._groups.names():
            planned = self._work.planned(name)
            for worker in planned.workers if planned is not None else ():
                joined.setdefault(f"{worker.slot}.{worker.epoch}", []).append(name)
        return [
            {
                "pid": process.pid,
                "uid": users.get(process),
                "connections": connections[process],
                "groups": sorted({group for session in sessions.get(process, ()) for group in joined.get(session.key, ())}),
                "sessions": [session_map(session) for session in sessions.get(process, [])],
            }
            for process in sorted(connections.keys() | sessions.keys(), key=lambda process: process.pid)
        ]

    def reset_group(self, peer: Peer, question: dict[str, Any]) -> Any:
        """Moves a group to these offsets: [[topic, queue, offset], ...]. Doing it twice is the same as doing it once. exact:
        [[topic, queue], ...] of these, where the client has stored an offset with an atomic batch
        (client/admin/exact_groups.py); the members are told here.

        Returns [[topic, queue, offset before or None, offset now], ...].
        """
        name = question["group"]
        self._change(peer, name, "reset")
        offsets = {}
        for topic_name, queue, offset in question["offsets"]:
            offsets[topic_name, queue] = self._checked(topic_name, queue, offset)
        moved = {(topic_name, queue) for topic_name, queue in question.get("exact", [])}
        self._refuse_exact(name, "reset", offsets.keys() - moved)
        for each in offsets.keys() & moved:  # a member may have gone on from there already
            now = self._commits.get(name, each)
            offsets[each] = offsets[each] if now is None else now
        working = self._work.collect_of(name)
        if not working:
            self._work.hand_over(name)
        moves = self._groups.reset(name, offsets)
        if working:
            self._work.reset(name, offsets)
        return [[*queue, *moved] for queue, moved in sorted(moves.items())]

    def pause_group(self, peer: Peer, question: dict[str, Any]) -> Any:
        """paused: the group's members get nothing more; or they get messages again. Returns the group."""
        name = question["group"]
        doing = "pause" if question["paused"] else "resume"
        self._change(peer, name, doing)
        self._refuse_read_only(name, doing)
        self._groups.pause(peer.caller, name, question["paused"])
        self._work.pause(name)
        return self._group_map(name)

    def shape_group(self, peer: Peer, question: dict[str, Any]) -> Any:
        """Gives the group these settings: {name: value}, of GroupConfig. Makes the group if there is none. Returns it."""
        name, settings = check_group_name(question["group"]), dict(question["settings"])
        self._refuse_read_only(name, "change")
        self._groups.configs.shape(peer.caller, name, settings)
        self._groups.pause(peer.caller, name, self._groups.paused(name))  # its members hear of it
        self._work.pause(name)
        return self._group_map(name)

    def delete_group(self, peer: Peer, question: dict[str, Any]) -> Any:
        """Forgets a group that has no members."""
        name = question["group"]
        self._change(peer, name, "delete")
        self._refuse_read_only(name, "delete")
        self._work.refuse_while_working(name, "delete")
        self._groups.refuse_in_use(name, "delete")
        self._refuse_exact(name, "delete", self._offsets.of_group(name))
        self._work.hand_over(name)
        self._groups.delete(name)
        return None

    def permit(self, peer: Peer, question: dict[str, Any]) -> Any:
        """Says what may be done with a topic: perm."""
        topic = self._topics.permit(question["name"], question["perm"], caller=peer.caller)
        self._groups.topic_changed(topic.name)
        self._work.topic_changed(topic.name)
        return asdict(topic)

    def purge_topic(self, peer: Peer, question: dict[str, Any]) -> Any:
        """Nobody gets the messages before these offsets any more: [[queue, offset], ...].

        Returns [[queue, first offset before, first offset now], ...].
        """
        topic = self._topics.changeable(question["name"], peer.caller, "purge", letters=True)
        offsets = {queue: self._checked(topic.name, queue, offset, "purge") for queue, offset in question["floors"]}
        before = {queue: self._topics.bounds(topic.first_slot + queue).minimum for queue in offsets}
        self._topics.purges.purge(topic, offsets)
        return [[queue, first, max(first, offsets[queue])] for queue, first in sorted(before.items())]

    def delete_topic(self, peer: Peer, question: dict[str, Any]) -> Any:
        """The topic does not exist any more. A group's retries and dead letters can be deleted once the group is."""
        name = question["name"]
        topic = self._topics.changeable(name, peer.caller, "delete", left=self._left_behind(name))
        self._topics.delete(topic)
        self._groups.topic_changed(topic.name)
        self._work.topic_changed(topic.name)
        return None

    # ---- what may be done

    def _known(self, name: Any, doing: str) -> None:
        if not self._groups.knows(name):
            raise UnknownGroup(
                f"cannot {doing} the group {name!r:.300}: there is no such group",
                hint=f"a group begins when its first consumer joins it; orbitmq group list shows those of the broker "
                f"{self._tree.settings.name!r}",
                group=name,
            )

    def _change(self, peer: Peer, name: Any, doing: str) -> None:
        """Raises: UnknownGroup; NoPermission: another user began it."""
        self._known(name, doing)
        require_maker(peer.caller, self._groups.maker(name), f"{doing} the group {name!r}")

    def _left_behind(self, name: object) -> bool:
        """Whether it is a topic of a group that does not exist any more."""
        of = [name.removeprefix(prefix) for prefix in (RETRY, DEAD) if name.startswith(prefix)] if isinstance(name, str) else []
        return any(not self._groups.knows(group) and self._work.planned(group) is None for group in of)

    def _refuse_read_only(self, name: str, doing: str) -> None:
        if self._tree.settings.read_only:
            raise NoPermission(
                f"cannot {doing} the group {name!r}: the store was opened read-only",
                hint=hint("start the broker without {read_only of broker}"),
                group=name,
            )

    def _refuse_exact(self, name: str, doing: str, queues: Iterable[QueueKey]) -> None:
        """Such offsets are in the log, and only an atomic batch of a member's moves them. Raises: UsageError."""
        exact = sorted(queue for queue in queues if self._commits.get(name, queue) is not None)
        if exact:
            more = "" if len(exact) == 1 else f", and {len(exact) - 1} queues more"
            where = f"{exact[0][0]!r} {exact[0][1]}{more}"
            raise UsageError(
                f"cannot {doing} the group {name!r}: its offsets are committed with atomic batches ({where})",
                hint="a member has committed another batch meanwhile; try it again",
                value=name,
            )

    def _checked(self, topic_name: str, queue: int, offset: int, doing: str = "reset") -> int:
        """An offset that messages had is raised to the first one that is left. Raises: UnknownTopic, UnknownQueue,
        OffsetOutOfRange: the queue has not come to it."""
        self._known_queue(topic_name, queue, doing)
        topic = self._topics.get(topic_name)
        minimum, maximum = self._topics.bounds(topic.first_slot + queue)
        if not 0 <= offset <= maximum:
            raise OffsetOutOfRange(
                f"cannot {doing} queue {queue} of {topic_name!r} to offset {offset}: it holds {minimum} to {maximum}",
                topic=topic_name,
                queue=queue,
                offset=offset,
                minimum=minimum,
                maximum=maximum,
            )
        return max(offset, minimum)

    def _known_queue(self, topic_name: str, queue: int, doing: str) -> QueueKey:
        """Raises: UnknownTopic, UnknownQueue."""
        topic = self._topics.get(topic_name)
        if not 0 <= queue < topic.queues:
            raise UnknownQueue(
                f"cannot {doing} queue {queue} of {topic_name!r}: it has {topic.queues}",
                topic=topic_name,
                queue=queue,
                queues=topic.queues,
            )
        return topic_name, queue

    # ---- what is shown

    def _group_list(self) -> list[dict[str, Any]]:
        return [self._group_map(name) for name in self._groups.names()]

    def _group_map(self, name: str) -> dict[str, Any]:
        group = self._groups.find(name)
        work = self._work.planned(name)
        letters = self._topics.find(f"%DLQ%{name}")
        queues = []
        for (topic_name, queue), offset in sorted(self._offsets.of_group(name).items()):
            topic = self._topics.find(topic_name)
            if topic is None or queue >= topic.queues:
                continue
            bounds = self._topics.bounds(topic.first_slot + queue)
            first = max(offset, bounds.minimum)
            queues.append([topic_name, queue, offset, max(0, bounds.maximum - first), first - offset])
        return {
            "name": name,
            "epoch": 0 if group is None else group.epoch,
            "paused": self._groups.paused(name),
            "members": [] if group is None else [_member_map(group, member) for member in group.members.values()],
            "workers": [] if work is None else self._describer.workers(work),
            "key_ordered": work is not None and work.key_ordered,
            "queue_ordered": work is not None and work.queue_ordered,
            "dead_letters": 0 if letters is None else self._messages_of(letters),
            "queues": queues,
        }

    @cached_property
    def _check_backs(self) -> CheckBacks:
        return CheckBacks(self._tree.settings, self._half_is_open)

    def _half_is_open(self, offset: int) -> bool:
        topic = self._topics.find(HALF_TOPIC)
        if topic is None or not lib.control_halves_ready(self._tree.control):
            return False
        bounds = self._topics.bounds(topic.first_slot)
        return bounds.minimum <= offset < bounds.maximum and lib.control_half_state(self._tree.control, offset) == lib.HALF_OPEN

    def _messages_of(self, topic: Topic) -> int:
        """Messages that there are in its queues."""
        found = [self._topics.bounds(topic.first_slot + queue) for queue in range(topic.queues)]
        return sum(max(0, bounds.maximum - bounds.minimum) for bounds in found)


def _member_map(group: Group, member: Member) -> dict[str, Any]:
    queues = group.assigned.get(member.id, [])
    leaving = [list(queue) for queue in queues if queue in group.leaving]
    described = {"pid": member.pid, "slot": member.slot, "topics": list(member.topics)}
    return described | {"queues": [list(queue) for queue in queues], "leaving": leaving}


def session_map(session: Session) -> dict[str, Any]:
    shape = session.shape
    names = ("slot", "epoch", "pid", "window", "queue_capacity", "sq_capacity", "message_max")
    return {name: int(getattr(shape, name)) for name in names} | {"closing": session.closing_since > 0}
