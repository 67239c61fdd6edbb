"""The groups of a running tree: epochs in shared memory, offset words and membership in files (orbitmq/commits/).

If a queue is to go from one member to another, this is announced first, in an epoch in which the queue still belongs to the old
member, so that it can commit. groups.py says how, group_clock.py when.

A rebalance has these steps: raise the epoch; fence; read every member's offset words that carry the epoch before; assign the
queues; write it all down; wake the members. A commit stores its word, fences and reads the epoch again. So either the word is
read here, or its member learns that it did not count.

What is written down (store/group_memory.py) is a coordinator's memory. It names the epoch that it was written for. If a
successor finds another epoch in shared memory, it knows that the rebalance was cut short. It then reads the words that carry
the memory's epoch, which nobody could overwrite since, and does the rebalance again. When the whole tree has died or stopped,
memory and words together say where each group is (store/commits.py)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from orbitmq.actors import events
from orbitmq.actors.groups.commit_files import CommitFiles
from orbitmq.actors.groups.group_configs import GroupConfigs
from orbitmq.actors.groups.groups import EARLIEST, LATEST, Group, Member, check_group_name, in_use, instance_in_use
from orbitmq.actors.groups.offsets import Offsets
from orbitmq.actors.groups.queue_locks import QueueLocks
from orbitmq.actors.sessions.caller import Caller, Share
from orbitmq.actors.sessions.sessions import Session, Sessions
from orbitmq.actors.topics.topic_registry import TopicRegistry
from orbitmq.actors.tree import Tree
from orbitmq.errors import Fenced, Full, SettingError
from orbitmq.native._core import lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import PERM_READ, QueueKey
from orbitmq.store import config, positions
from orbitmq.store.group_memory import GroupMemory, Remembered, packed

GROUPS_MAX: int = lib.GROUPS_MAX


class GroupRegistry:
    def __init__(
        self, tree: Tree, topics: TopicRegistry, offsets: Offsets, clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._tree = tree
        self._topics = topics
        self._offsets = offsets
        self._clock_ns = clock_ns
        self._memory = GroupMemory(tree.settings.layout)
        self._vouched: tuple[int, ...] = ()
        self._forgetful = False  # what is in memory is not written down yet
        self._files = CommitFiles(tree.settings.layout)
        self._groups: dict[str, Group] = {}
        self.locks = QueueLocks(tree.settings.layout, tree.settings.user_share_percent, clock_ns)
        self._moving: set[str] = set()  # groups with queues that are leaving
        share = Share("consumer groups", GROUPS_MAX, tree.settings.user_share_percent)
        self.configs = GroupConfigs(tree.settings.layout, share, tree.settings.shared_groups)
        self.sessions: Sessions | None = None

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    # ---- a coordinator's beginning

    def load(self) -> None:
        """Restores what a predecessor of the same generation knew."""
        self.configs.load()
        self._vouched = config.offset_crcs(self._tree.settings.layout)
        remembered = self._memory.load()
        if remembered is None or remembered.generation != self._tree.generation:
            return
        for name, entry in remembered.groups.items():
            for topic, queue, offset in entry["offsets"]:
                self._offsets.set(name, (topic, queue), offset)
            if "group" in entry:
                self._groups[name] = Group.unpacked(name, entry["group"])
                self._moving.add(name)

    def resume(self) -> None:
        """Called when the sessions are restored: takes the newest offsets, and finishes what a predecessor had begun."""
        for group in self._groups.values():
            gone = self._collect(group)
            gone += [member.id for member in group.members.values() if self._session(member) is None]
            if gone or self._shared_epoch(group) != group.epoch or self.configs.paused(group.name) != group.paused:
                for member_id in gone:
                    del group.members[member_id]
                self._rebalance(group)
        self._files.remove_others({key for group in self._groups.values() for key in group.members})

    # ---- what members ask for

    def join(
        self, session: Session, name: Any, topics: list[str], start: str, *, broadcast: bool = False, poll_ms: int = 0,
        revoke_ms: int = 0,
    ) -> dict[str, Any]:  # fmt: skip
        """Makes the session a member, or changes its topics. Returns its assignment. Its file of commits exists then. poll_ms,
        revoke_ms: see groups.Member. broadcast: the name is "<group>@<instance>"; each instance is a group of one member.

        Raises: GroupNameError, UnknownTopic, SettingError, Full; NoPermission: the group is another user's; StoreFull: the disk
            has no room for its commits; GroupInUse: another session is this instance.
        """
        check_group_name(name, broadcast=broadcast)
        if broadcast:
            self._check_alone(session, name)
        caller = Caller.marked(session.user)
        self.configs.admit(caller, name)
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
                limit=queues,
            )
        for other in self._groups.values():
            if session.key in other.members and other.name != name:
                raise SettingError(
                    f"cannot join the group {name!r}: the session is a member of {other.name!r}", name="group", value=name
                )
        self._make_room(session, name, wanted)
        if (group := self._groups.get(name)) is None:
            index = self._free_index()
            self._describe(caller, name)
            group = self._groups[name] = Group(name, index)
        group.members[session.key] = Member(
            session.key, session.slot, session.epoch, session.process.pid, wanted, start, capacity, poll_ms, revoke_ms
        )
        self._rebalance(group)
        return self.assignment(session, name)

    def _check_alone(self, session: Session, name: str) -> None:
        """Raises: GroupInUse."""
        assert self.sessions is not None
        group = self._groups.get(name)
        for member in list(group.members.values()) if group is not None else ():
            other = self._session(member)
            # A dead process may not have been noticed yet.
            if member.id != session.key and other is not None and not self.sessions.reap(other.process):
                raise instance_in_use(name, member.pid)

    def _make_room(self, session: Session, name: str, topics: tuple[str, ...]) -> None:
        """Before anything changes: reserves room for what the member commits, and for what is noted about it."""
        made = self._files.make(session, name)
        # Its present size, and for each queue who has it, since when, until when, and where the group continues. A number takes
        # up to 9 bytes.
        need = len(packed(self._content())) + 9 * sum(len(self._offsets.of_group(group)) for group in self._names()) + 512
        need += sum(len(topic) + 24 for group in self._groups.values() for topic, _ in group.since)
        need += sum(4 * self._topics.get(topic).queues * (len(topic) + 24) + len(topic) + 8 for topic in topics) + 2 * len(name)
        try:
            self._memory.reserve(need)
        except OSError as error:
            if made:
                self._files.remove(session.key)
            raise self._files.refused(error, need, name) from error
        crash_point("group_registry_reserved")

    def begin(self, caller: Caller, name: str) -> None:
        """For a group of workers: it is known from now on. Raises: NoPermission, Full; OSError."""
        self.configs.admit(caller, name)
        self._describe(caller, name)

    def words_descriptor(self, session: Session) -> int:
        """A descriptor of the file in which a member commits, for the member. The caller closes it. Raises: OSError."""
        return self._files.descriptor(session)

    def _describe(self, caller: Caller, name: str) -> None:
        if self._tree.settings.read_only:
            return
        try:
            self.configs.add(caller, name)
        except OSError as error:
            if not caller.rules:
                raise  # otherwise nobody would know who owns it
            # Only RocketMQ needs this. It is tried again when the group begins the next time.
            events.warn(f"cannot write down the group {name!r}: {error}", group=name)

    def assignment(self, session: Session, name: Any) -> dict[str, Any]:
        """{"group": index, "epoch":, "queues": [[topic, queue, queue slot, start offset], ...], "since": [epoch, ...],
        "leaving": [index, ...]}
        Word i belongs to queue i, which the member has had since the epoch since[i]. Those in "leaving" are to be released.

        Raises: Fenced: the session is not a member of the group. UnknownTopic: one of its topics was deleted.
        """
        group = self._joined(session, name)
        for topic in group.members[session.key].topics:
            self._topics.get(topic)
        mine = group.assigned.get(session.key, [])
        queues = []
        for topic, queue in mine:
            slot = self._topics.get(topic).first_slot + queue
            queues.append([topic, queue, slot, self._offsets.get(name, (topic, queue))])
        since = [group.since[queue] for queue in mine]
        leaving = [index for index, queue in enumerate(mine) if queue in group.leaving]
        return {"group": group.index, "epoch": group.epoch, "queues": queues, "since": since, "leaving": leaving}

    def release(self, session: Session, name: Any, queues: Collection[tuple[QueueKey, int]]) -> None:
        """Releases queues of the member, each named with its epoch from `since`. The next `settle` hands them over.

        Raises: Fenced: the session is not a member of the group.
        """
        self._joined(session, name).release(session.key, queues)
        self._moving.add(name)

    def settle(self) -> None:
        """Hands over queues that were released, leaving queues whose time is over, and queues whose lock is over."""
        self.share_again(self.locks.expire())
        for group in [self._groups[name] for name in sorted(self._moving)]:
            if group.due(self._now_ms()):
                self._rebalance(group)

    @property
    def moving(self) -> bool:
        """True while queues are on their way from one member to another."""
        return bool(self._moving)

    def _joined(self, session: Session, name: Any) -> Group:
        group = self._groups.get(name)
        if group is None or session.key not in group.members:
            raise Fenced(f"cannot go on in the group {name!r}: this session is no member of it", group=name)
        return group

    def leave(self, session: Session, name: Any = None) -> None:
        """Takes the session out of the group, or of any group it is in. Its last commits count."""
        for group in self._groups.values():
            if session.key in group.members and name in (None, group.name):
                self._rebalance(group, without=session.key)
                self._files.remove(session.key)

    def topic_changed(self, topic: str) -> None:
        """It has more queues, or may be read now, or may no longer be read."""
        for group in self._groups.values():
            if any(topic in member.topics for member in group.members.values()):
                self._rebalance(group)

    # ---- locks of consumers that are no members

    def owned(self, caller: Caller, name: Any) -> Collection[QueueKey]:
        """Queues that members have, which cannot be locked. Raises: GroupNameError; NoPermission: it is not the user's."""
        self.configs.admit(caller, check_group_name(name))
        group = self._groups.get(name)
        return () if group is None else group.owners().keys()

    def share_again(self, names: Collection[str]) -> None:
        """Queues of these groups were locked, and are free."""
        for group in [self._groups[name] for name in sorted(names) if name in self._groups]:
            if group.members:
                self._rebalance(group)

    # ---- what those who look after it ask for

    def names(self) -> list[str]:
        """Groups with members, an offset, or a pause that somebody may want to end."""
        return sorted(self._groups.keys() | set(self._offsets.groups()) | self.configs.all_paused())

    def knows(self, name: Any) -> bool:
        return isinstance(name, str) and (name in self.names() or self.configs.knows(name))

    def find(self, name: str) -> Group | None:
        """A group that has had members since the broker started."""
        return self._groups.get(name)

    def maker(self, name: str) -> int | None:
        """Mark of the user who began the group (sessions/caller.py)."""
        return self.configs.maker(name)

    def paused(self, name: str) -> bool:
        return self.configs.paused(name)

    def reset(self, name: str, offsets: Mapping[QueueKey, int]) -> dict[QueueKey, tuple[int | None, int]]:
        """The group goes on at these offsets. Members continue there; a commit of what they got before raises Fenced.

        Returns where it was, with the last commits, and where it is now. Raises: OSError.
        """
        # Written down before anybody is told, so there must be room for it. A number takes up to 9 bytes.
        need = len(packed(self._content(self._names() | {name}))) + sum(len(topic) + 33 for topic, _ in offsets) + 512
        self._memory.reserve(need + 9 * len(self._offsets.of_group(name)))
        group = self._groups.get(name)
        if group is not None and group.members:
            before = self._rebalance(group, moved=offsets)
        else:
            before = self._offsets.of_group(name)
            for queue, offset in offsets.items():
                self._offsets.set(name, queue, offset)
            self._store()
            crash_point("group_registry_reset")
        return {queue: (before.get(queue), offset) for queue, offset in offsets.items()}

    def commit(self, name: str, offsets: Mapping[QueueKey, int]) -> None:
        """For members that are no sessions of the broker's. A successor knows it, as long as there is room to write it down."""
        for queue, offset in offsets.items():
            self._offsets.set(name, queue, offset)
        self._store()

    def pause(self, caller: Caller, name: str, paused: bool) -> None:
        """The file comes first: a successor that finds another assignment there makes it fit. Raises: OSError."""
        self.configs.pause(caller, name, paused)
        group = self._groups.get(name)
        if group is not None and group.paused != paused:
            self._rebalance(group)

    def refuse_in_use(self, name: str, doing: str) -> None:
        """Raises: GroupInUse: it has members."""
        group = self._groups.get(name)
        if group is not None and group.members:
            raise in_use(group, doing)

    def delete(self, name: str) -> None:
        """Forgets where the group was. Raises: GroupInUse: it has members. OSError: the group is still there."""
        self.refuse_in_use(name, "delete")
        stored = config.load_offsets(self._tree.settings.layout)
        left = {key: queues for key, queues in stored.items() if key[1] != name}
        try:
            # The file comes first. As long as the memory has the group, a successor takes from there where it is.
            if left != stored:
                self._vouched = (*self._vouched, config.offsets_crc(left))
                self._memory.write(self._content())
                config.store_offsets(self._tree.settings.layout, left)
                crash_point("group_registry_unstored")
            self._memory.write(self._content(self._names() - {name}))
            crash_point("group_registry_forgotten")
            self.configs.remove(name)
        except OSError:
            self._offsets.unstored(name)
            self._forgetful = True
            raise
        finally:
            self._vouched = config.offset_crcs(self._tree.settings.layout)
        self._offsets.remove(name)
        self._groups.pop(name, None)
        self._moving.discard(name)

    # ---- offsets

    def collect(self) -> None:
        """Reads every member's commits into the table of offsets. A member that has damaged its own file leaves the group."""
        for group in self._groups.values():
            for member_id in self._collect(group):
                self._rebalance(group, without=member_id)
                self._files.remove(member_id)

    def _collect(self, group: Group) -> list[str]:
        """An offset word counts only if it carries the epoch of the assignment; an older one belongs to a queue that the member
        had before. Returns members whose words cannot be read any more. Raises: OSError."""
        faulty = []
        for member in group.members.values():
            session = self._session(member)
            queues = group.assigned.get(member.id, [])
            if session is None:
                continue
            try:
                words = self._files.read(session, len(queues))
            except ValueError as error:
                self._complain(f"process {member.pid} cannot commit for the group {group.name!r} any more: its file {error}")
                faulty.append(member.id)
                continue
            for queue, (epoch, offset) in zip(queues, words, strict=True):
                if epoch == group.epoch & 0xFFFF and self._shows(queue, offset):
                    self._offsets.set(group.name, queue, offset)
        return faulty

    def _shows(self, queue: QueueKey, offset: int) -> bool:
        """The client writes these words: one past the queue's end does not count."""
        topic = self._topics.find(queue[0])
        return topic is not None and offset <= self._topics.bounds(topic.first_slot + queue[1]).maximum

    # ---- rebalancing

    def _rebalance(
        self, group: Group, without: str | None = None, moved: Mapping[QueueKey, int] | None = None
    ) -> dict[QueueKey, int]:
        """without: a member that leaves. moved: offsets at which the group is to go on. Returns where it was, with the last
        commits."""
        fresh = lib.group_raise_epoch(self._tree.control, group.index)
        while fresh & 0xFFFF == 0:  # a word of 0 means that nothing was committed
            fresh = lib.group_raise_epoch(self._tree.control, group.index)
        crash_point("group_registry_raised")
        try:
            self._collect(group)
        except OSError as error:
            # Half a rebalance helps nobody: a successor does it again, with the same words.
            raise SystemExit(f"cannot read what the group {group.name!r} has committed: {error}") from error
        if without is not None:
            crash_point("group_registry_collected")
            del group.members[without]
        before = self._offsets.of_group(group.name)
        for queue, offset in (moved or {}).items():
            self._offsets.set(group.name, queue, offset)
        group.epoch = fresh
        queues = {topic.name: topic.queues if topic.perm & PERM_READ else 0 for topic in self._topics_of(group)}
        paused, locked = self.configs.paused(group.name), self.locks.held(group.name)
        group.assign(queues, self._now_ms(), renewed=moved or (), paused=paused, locked=locked)
        (self._moving.add if group.leaving else self._moving.discard)(group.name)
        self._fix_starts(group)
        crash_point("group_registry_assigned")
        self._store()
        crash_point("group_registry_stored")
        for member in group.members.values():
            session = self._session(member)
            if session is not None:
                session.ring()
                crash_point("group_registry_rang")
        return before

    def _fix_starts(self, group: Group) -> None:
        """Gives each queue that is new to the group its start, once. If the next owner of the queue decided, "latest" would
        skip what came between two members."""
        # A queue that a topic got later holds nothing that the group chose to skip, so it starts at its beginning.
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
        return [topic for topic in map(self._topics.find, sorted(names)) if topic is not None]

    def _session(self, member: Member) -> Session | None:
        assert self.sessions is not None
        return self.sessions.mapped(member.slot, member.epoch)

    def _now_ms(self) -> int:
        return self._clock_ns() // 1_000_000

    def _shared_epoch(self, group: Group) -> int:
        return int(lib.group_epoch(self._tree.control, group.index))

    def _free_index(self) -> int:
        """An index that no group has; else that of a group without members, whose offsets are in the table of offsets."""
        used = {group.index for group in self._groups.values()}
        for index in range(GROUPS_MAX):
            if index not in used:
                return index
        for group in list(self._groups.values()):
            if not group.members:
                del self._groups[group.name]
                self._moving.discard(group.name)
                return group.index
        raise Full(
            f"cannot begin another group: {GROUPS_MAX} groups have members now, the most that the broker can serve",
            hint="close consumers that are not needed",
            limit="groups",
        )

    # ---- what is written down

    def persist(self, snapshot: config.Offsets) -> bool:
        """Replaces consumerOffset.json by what Offsets.take has returned. False: a group was deleted since. Raises: OSError."""
        if self._offsets.outdated:
            self._offsets.give_back()
            return False
        vouched = self._vouched
        self._vouched = (*vouched, config.offsets_crc(snapshot))
        try:
            # The memory first: a start that finds a file which the memory does not know takes it for another program's.
            self._memory.write(self._content())
            self._offsets.store(snapshot)
        except OSError:
            self._offsets.give_back()
            raise
        finally:
            self._vouched = config.offset_crcs(self._tree.settings.layout)
        return True

    def remember(self) -> None:
        """Writes down what could not be written before because the disk was full."""
        if self._forgetful:
            self._store()

    def _names(self) -> set[str]:
        return self._groups.keys() | self._offsets.behind

    def _content(self, names: Collection[str] | None = None) -> Remembered:
        """names: groups, of which all is written down; None: those of which the files do not say it all."""
        groups: dict[str, dict[str, Any]] = {}
        for name in self._names() if names is None else names:
            offsets = [[topic, queue, offset] for (topic, queue), offset in self._offsets.of_group(name).items()]
            group = self._groups.get(name)
            groups[name] = {"offsets": offsets} if group is None else {"offsets": offsets, "group": group.packed()}
        return Remembered(self._tree.generation, positions.boot_id(), self._vouched, groups)

    def _store(self) -> None:
        try:
            self._memory.write(self._content())
            self._forgetful = False
        except OSError as error:
            # A join has reserved what it needs, so either a topic grew, or the disk fails.
            text = f"cannot write down who has which queue: {error}"
            self._complain(f"{text}; if the broker dies before it can, groups do again what they have done since")
            self._forgetful = True

    def _complain(self, text: str) -> None:
        events.warn(text)
