"""The groups of a running tree: epochs in shared memory, offset words in the members' sessions, membership in a file.

A rebalance goes: raise the epoch; fence; read every member's offset words that carry the epoch before; hand out
queues; write orbitmq/groups; wake the members. A commit stores its word, fences and rereads the epoch, so that either
it is read here or its member learns that it did not count.

The file is a coordinator's memory, not a store's: it holds for one generation, and is not synced. It names the epoch
it was written for. A successor that finds another one in shared memory knows that the rebalance was cut short: it
reads the words that carry the file's epoch, which nobody could overwrite since, and goes through it again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack

from orbitmq.actors.events import say
from orbitmq.actors.group_configs import GroupConfigs
from orbitmq.actors.groups import EARLIEST, LATEST, Group, Member, check_group_name
from orbitmq.actors.offsets import Offsets
from orbitmq.actors.sessions import Session, Sessions
from orbitmq.actors.topic_registry import TopicRegistry
from orbitmq.actors.tree import Tree
from orbitmq.errors import Fenced, Full, SettingError
from orbitmq.native._core import lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import QueueKey

GROUPS_MAX: int = lib.GROUPS_MAX


class GroupRegistry:
    def __init__(self, tree: Tree, topics: TopicRegistry, offsets: Offsets) -> None:
        self._tree = tree
        self._topics = topics
        self._offsets = offsets
        self._path: Path = tree.settings.layout.own / "groups"
        self._groups: dict[str, Group] = {}
        self._configs = GroupConfigs(tree.settings.layout)
        self.sessions: Sessions | None = None

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    # ---- a coordinator's beginning

    def load(self) -> None:
        """What a predecessor of the same generation knew."""
        self._configs.load()
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError, msgpack.UnpackException):
            content = msgpack.unpackb(self._path.read_bytes())
            if content["generation"] != self._tree.generation:
                return
            for name, packed in content["groups"].items():
                group = Group.unpacked(name, packed["group"])
                for topic, queue, offset in packed["offsets"]:
                    self._offsets.set(name, (topic, queue), offset)
                self._groups[name] = group

    def resume(self) -> None:
        """With the sessions restored: takes the newest offsets, and finishes what a predecessor had begun."""
        for group in self._groups.values():
            self._collect(group)
            gone = [member.id for member in group.members.values() if self._session(member) is None]
            if gone or self._shared_epoch(group) != group.epoch:
                for member_id in gone:
                    del group.members[member_id]
                self._rebalance(group)

    # ---- what members ask for

    def join(self, session: Session, name: Any, topics: list[str], start: str) -> dict[str, Any]:
        """Makes the session a member, or changes its topics; answers with its assignment.

        Raises: GroupNameError, UnknownTopic, SettingError, Full.
        """
        check_group_name(name)
        if start not in (EARLIEST, LATEST):
            raise SettingError(f"cannot start at {start!r}: it is neither earliest nor latest", name="start", value=start)
        wanted = tuple(sorted({self._topics.get(topic).name for topic in topics}))
        queues = sum(self._topics.get(topic).queues for topic in wanted)
        capacity = session.shape.queue_capacity
        if queues > capacity:
            raise SettingError(
                f"cannot join the group {name!r}: its topics have {queues} queues, the session has room for {capacity}",
                name="queue_capacity",
                value=capacity,
                need=queues,
            )
        for other in self._groups.values():
            if session.key in other.members and other.name != name:
                raise SettingError(
                    f"cannot join the group {name!r}: the session is a member of {other.name!r}", name="group", value=name
                )
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(name, self._free_index())
            self._describe(name)
        pid = session.process.pid
        group.members[session.key] = Member(session.key, session.slot, session.epoch, pid, wanted, start, capacity)
        self._rebalance(group)
        return self.assignment(session, name)

    def _describe(self, name: str) -> None:
        if self._tree.settings.read_only:
            return
        try:
            self._configs.add(name)
        except OSError as error:
            # Only RocketMQ asks for it. Tried again when the group begins the next time.
            say(self._tree.settings.name, f"cannot write down the group {name!r}: {error}")

    def assignment(self, session: Session, name: Any) -> dict[str, Any]:
        """{"group": index, "epoch":, "queues": [[topic, queue, queue slot, start offset], ...]}; word i belongs to
        the i-th.

        Raises: Fenced: the session is no member of the group.
        """
        group = self._groups.get(name)
        if group is None or session.key not in group.members:
            raise Fenced(f"cannot go on in the group {name!r}: this session is no member of it", group=name)
        queues = []
        for topic, queue in group.assigned.get(session.key, []):
            slot = self._topics.get(topic).first_slot + queue
            queues.append([topic, queue, slot, self._offsets.get(name, (topic, queue))])
        return {"group": group.index, "epoch": group.epoch, "queues": queues}

    def leave(self, session: Session, name: Any = None) -> None:
        """Takes the session out of the group, or of whichever it is in. Its last commits count."""
        for group in self._groups.values():
            if session.key in group.members and name in (None, group.name):
                self._rebalance(group, without=session.key)

    def topic_grew(self, topic: str) -> None:
        for group in self._groups.values():
            if any(topic in member.topics for member in group.members.values()):
                self._rebalance(group)

    # ---- offsets

    def collect(self) -> None:
        """Reads every member's commits into the table of offsets."""
        for group in self._groups.values():
            self._collect(group)

    def _collect(self, group: Group) -> None:
        """Offset words count only with the epoch that the assignment was made for: an older one belongs to a queue
        that the member had before."""
        for member in group.members.values():
            session = self._session(member)
            if session is None:
                continue
            for index, queue in enumerate(group.assigned.get(member.id, [])):
                epoch, offset = session.offset_word(index)
                if epoch == group.epoch & 0xFFFF and self._shows(queue, offset):
                    self._offsets.set(group.name, queue, offset)

    def _shows(self, queue: QueueKey, offset: int) -> bool:
        """Words are the client's to write: one past the queue's end is none."""
        topic = self._topics.find(queue[0])
        return topic is not None and offset <= self._topics.bounds(topic.first_slot + queue[1]).maximum

    # ---- rebalancing

    def _rebalance(self, group: Group, without: str | None = None) -> None:
        fresh = lib.group_raise_epoch(self._tree.control, group.index)
        while fresh & 0xFFFF == 0:  # a word of 0 means that nothing was committed
            fresh = lib.group_raise_epoch(self._tree.control, group.index)
        crash_point("group_registry_raised")
        self._collect(group)
        if without is not None:
            crash_point("group_registry_collected")
            del group.members[without]
        group.epoch = fresh
        group.assign({topic.name: topic.queues for topic in self._topics_of(group)})
        self._fix_starts(group)
        crash_point("group_registry_assigned")
        self._store()
        crash_point("group_registry_stored")
        for member in group.members.values():
            session = self._session(member)
            if session is not None:
                session.ring()
                crash_point("group_registry_rang")

    def _fix_starts(self, group: Group) -> None:
        """Gives each queue that the group has never seen its start, once: were it left to whoever gets the queue
        next, "latest" would skip what came between two members."""
        # A queue that a topic got later holds nothing that the group chose not to see, so it starts at its beginning.
        known = {topic.name for topic in self._topics_of(group) if self._offsets.knows(group.name, topic.name)}
        for member_id, queues in group.assigned.items():
            for queue in queues:
                if self._offsets.get(group.name, queue) is not None:
                    continue
                bounds = self._topics.bounds(self._topics.get(queue[0]).first_slot + queue[1])
                latest = group.members[member_id].start == LATEST and queue[0] not in known
                self._offsets.set(group.name, queue, bounds.maximum if latest else bounds.minimum)

    def _topics_of(self, group: Group) -> list[Any]:
        names = {topic for member in group.members.values() for topic in member.topics}
        return [self._topics.get(name) for name in sorted(names)]

    def _session(self, member: Member) -> Session | None:
        assert self.sessions is not None
        return self.sessions.mapped(member.slot, member.epoch)

    def _shared_epoch(self, group: Group) -> int:
        return int(lib.group_epoch(self._tree.control, group.index))

    def _free_index(self) -> int:
        """An index that no group has; else that of a group without members, whose offsets are in the table of
        offsets."""
        used = {group.index for group in self._groups.values()}
        for index in range(GROUPS_MAX):
            if index not in used:
                return index
        for group in list(self._groups.values()):
            if not group.members:
                del self._groups[group.name]
                return group.index
        raise Full(
            f"cannot begin another group, {GROUPS_MAX} have members now",
            hint="close consumers that are not needed",
            limit="groups",
        )

    def _store(self) -> None:
        groups = {}
        for group in self._groups.values():
            offsets = [[topic, queue, offset] for (topic, queue), offset in self._offsets.of_group(group.name).items()]
            groups[group.name] = {"group": group.packed(), "offsets": offsets}
        fresh = self._path.with_suffix(".tmp")
        try:
            fresh.write_bytes(msgpack.packb({"generation": self._tree.generation, "groups": groups}))
            crash_point("group_registry_written")
            fresh.replace(self._path)
        except OSError as error:
            # Without it a successor has the members join again; this life needs no file.
            say(self._tree.settings.name, f"cannot write {self._path}: {error}")
