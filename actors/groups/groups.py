"""Consumer groups as data: members, and who has which queue. group_registry.py changes them safely."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orbitmq.actors.groups.assignment import assign
from orbitmq.errors import GroupInUse, GroupNameError
from orbitmq.shm.topic_table import QueueKey

NAME_MAX = 255
EARLIEST = "earliest"
LATEST = "latest"
FROM_LAST = "from last"  # as RocketMQ: the latest, but the earliest of a queue of which no message was removed yet
NOBODY = ""


class Member(NamedTuple):
    """A consumer session in a group. id is "<slot>.<epoch>" of the session; capacity limits its queues.

    poll_ms: how long it may make no call before it counts as hung; 0: for ever.
    revoke_ms: how long it may keep a queue that is to go to another member, in order to commit; 0: not at all.
    """

    id: str
    slot: int
    epoch: int
    pid: int
    topics: tuple[str, ...]
    start: str
    capacity: int
    poll_ms: int = 0
    revoke_ms: int = 0


# What is written down about a member, before its topics.
_MEMBER = ("id", "slot", "epoch", "pid", "start", "capacity", "poll_ms", "revoke_ms")


@dataclass(slots=True)
class Group:
    """A group in one of its epochs. assigned[member id][i] is the queue of the member's interest and offset word i.

    A queue goes from one living member to another in two steps, each with an epoch of its own. First it is `leaving`: it stays
    with the member that has it until that member has released it or its time is over. Then the other member gets it.

    since: the epoch in which the queue's member got it. A member that sees the same number again has had it all along.
    leaving: when the time of a leaving queue is over, milliseconds of CLOCK_MONOTONIC.
    heirs: the members that get the leaving queues; NOBODY, if the group is paused. Until a member comes or goes the plan stays
        as it is, in whatever order queues are released. If it were made anew in the middle of a hand-over, it would move other
        queues as well.
    paused: nobody got a queue in the last assignment, because the group is paused.
    released: queues that were released since the last assignment. Not written down: a successor waits for their time to end.
    """

    name: str
    index: int
    epoch: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    assigned: dict[str, list[QueueKey]] = field(default_factory=dict)
    since: dict[QueueKey, int] = field(default_factory=dict)
    leaving: dict[QueueKey, int] = field(default_factory=dict)
    heirs: dict[QueueKey, str] = field(default_factory=dict)
    paused: bool = False
    released: set[QueueKey] = field(default_factory=set)

    def owners(self) -> dict[QueueKey, str]:
        return {queue: member for member, queues in self.assigned.items() for queue in queues}

    def release(self, member_id: str, queues: Collection[tuple[QueueKey, int]]) -> None:
        """The member releases queues that it has had since these epochs. Queues that it does not have are ignored."""
        mine = self.assigned.get(member_id, [])
        self.released |= {queue for queue, since in queues if queue in mine and self.since.get(queue) == since}

    def due(self, now_ms: int) -> bool:
        """True if queues can be handed over."""
        return bool(self.released) or any(until <= now_ms for until in self.leaving.values())

    def assign(
        self,
        queues: Mapping[str, int],
        now_ms: int = 0,
        *,
        renewed: Collection[QueueKey] = (),
        paused: bool = False,
        locked: Collection[QueueKey] = (),
    ) -> None:
        """Assigns the queues of all topics anew.

        queues: how many each topic has; a topic that is missing has none. renewed: queues in which the group goes on somewhere
            else, so that their members have them as of now. paused: nobody gets a queue. locked: nobody gets these; no member
            has them (queue_locks.py).
        """
        before = {queue: owner for queue, owner in self.owners().items() if queue not in self.released}
        wanted = {} if paused else self._wanted(queues, self._planned(before))
        owners = {queue: member for member, taken in wanted.items() for queue in taken if queue not in locked}
        leaving, heirs = {}, {}
        for queue, owner in before.items():
            holder = self.members.get(owner)
            heir = owners.get(queue, NOBODY if paused else owner)
            if holder is None or queue[0] not in holder.topics or heir == owner:
                continue
            until = self.leaving.get(queue, now_ms + holder.revoke_ms)
            if now_ms < until:
                heirs[queue] = heir
                owners[queue], leaving[queue] = owner, until
        fresh: dict[str, list[QueueKey]] = {member: [] for member in self.members}
        for queue in sorted(owners):
            # Words beyond the session's end do not exist; join refuses sessions that could get there.
            if len(fresh[owners[queue]]) < self.members[owners[queue]].capacity:
                fresh[owners[queue]].append(queue)
        kept = {queue: self.since[queue] for queue in self.since if before.get(queue) == owners.get(queue)}
        for queue in renewed:
            kept.pop(queue, None)
        self.assigned = fresh
        self.paused = paused
        self.since = {queue: kept.get(queue, self.epoch) for queue in self.owners()}
        self.leaving = {queue: until for queue, until in leaving.items() if queue in self.since}
        self.heirs = {queue: heirs[queue] for queue in self.leaving}
        self.released = set()

    def _planned(self, before: Mapping[QueueKey, str]) -> dict[QueueKey, str]:
        """Who has each queue once the leaving ones have gone."""
        readers = {name: member.topics for name, member in self.members.items()}
        return {**before, **{queue: heir for queue, heir in self.heirs.items() if queue[0] in readers.get(heir, ())}}

    def _wanted(self, queues: Mapping[str, int], before: Mapping[QueueKey, str]) -> dict[str, list[QueueKey]]:
        """Who should have which queue when all moves are done."""
        wanted: dict[str, list[QueueKey]] = {member: [] for member in self.members}
        for topic in sorted({topic for member in self.members.values() for topic in member.topics}):
            takers = [member.id for member in self.members.values() if topic in member.topics]
            held = {queue: owner for (name, queue), owner in before.items() if name == topic}
            load = {member: len(taken) for member, taken in wanted.items()}
            for member, taken in assign(queues.get(topic, 0), takers, held, load).items():
                wanted[member] += [(topic, queue) for queue in taken]
        return wanted

    def packed(self) -> dict[str, Any]:
        members = [[*(getattr(member, name) for name in _MEMBER), list(member.topics)] for member in self.members.values()]
        assigned = {member: [list(queue) for queue in queues] for member, queues in self.assigned.items()}
        since = [[*queue, epoch] for queue, epoch in self.since.items()]
        leaving = [[*queue, until, self.heirs[queue]] for queue, until in self.leaving.items()]
        content: dict[str, Any] = {"index": self.index, "epoch": self.epoch, "members": members, "assigned": assigned}
        content["paused"] = self.paused
        return content | {"since": since, "leaving": leaving}

    @classmethod
    def unpacked(cls, name: str, content: dict[str, Any]) -> Group:
        group = cls(name, content["index"], content["epoch"], paused=content["paused"])
        for *fields, topics in content["members"]:
            member = Member(topics=tuple(topics), **dict(zip(_MEMBER, fields, strict=True)))
            group.members[member.id] = member
        for member_id, queues in content["assigned"].items():
            group.assigned[member_id] = [(topic, queue) for topic, queue in queues]
        group.since = {(topic, queue): epoch for topic, queue, epoch in content["since"]}
        for topic, queue, until, heir in content["leaving"]:
            group.leaving[topic, queue], group.heirs[topic, queue] = until, heir
        return group


def check_group_name(name: Any, *, broadcast: bool = False) -> str:
    """broadcast: the name is "<group>@<instance>", which no other group can have. Raises: GroupNameError: has .group."""
    if broadcast and isinstance(name, str):
        for part in name.partition("@")[::2]:
            check_group_name(part)
        return _fitting(name)
    if not isinstance(name, str) or not name:
        raise GroupNameError(f"cannot name a group {name!r}: a name has at least 1 character", group=name)
    for at, character in enumerate(_fitting(name)):
        if not (character.isascii() and (character.isalnum() or character in "%|_-")):
            raise GroupNameError(
                f"cannot name a group {name[:NAME_MAX]!r}: {character!r} is not allowed in a name",
                hint="use letters, digits, and any of % | _ -",
                group=name,
                at=at,
                character=character,
            )
    return name


def _fitting(name: str) -> str:
    """Raises: GroupNameError: it is too long."""
    if len(name.encode(errors="surrogatepass")) > NAME_MAX:
        raise GroupNameError(
            f"cannot name a group {name[:32]!r}...: a name has at most {NAME_MAX} bytes", group=name, limit=NAME_MAX
        )
    return name


def in_use(group: Group, doing: str) -> GroupInUse:
    pids = sorted({member.pid for member in group.members.values()})
    count = len(group.members)
    members = f"{count} member{'s' if count > 1 else ''}, of process{'es' if len(pids) > 1 else ''}"
    return GroupInUse(
        f"cannot {doing} the group {group.name!r}: it has {members} "
        f"{', '.join(map(str, pids[:5]))}{', ...' if len(pids) > 5 else ''}",
        hint="close its consumers first",
        group=group.name,
        members=count,
        pids=pids,
    )


def instance_in_use(name: str, pid: int) -> GroupInUse:
    """The error for a second consumer that is "<group>@<instance>"."""
    broadcast, _, instance = name.partition("@")
    return GroupInUse(
        f"cannot join the broadcast group {broadcast!r} as instance {instance!r}: process {pid} has joined under this name",
        hint="give each instance a name of its own, or close the consumer of that process first",
        group=name,
        members=1,
        pids=[pid],
    )
