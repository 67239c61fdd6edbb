"""Consumer groups: members, and who has which queue, as data. What it costs to change that is in group_registry.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orbitmq.actors.assignment import assign
from orbitmq.errors import GroupNameError
from orbitmq.shm.topic_table import QueueKey

NAME_MAX = 255
EARLIEST = "earliest"
LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Member:
    """A consumer session in a group. id is "<slot>.<epoch>" of the session; capacity bounds its queues."""

    id: str
    slot: int
    epoch: int
    pid: int
    topics: tuple[str, ...]
    start: str
    capacity: int


@dataclass(slots=True)
class Group:
    """A group in one of its epochs. assigned[member id][i] is the queue of the member's interest and offset word i."""

    name: str
    index: int
    epoch: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    assigned: dict[str, list[QueueKey]] = field(default_factory=dict)

    def owners(self) -> dict[QueueKey, str]:
        return {queue: member for member, queues in self.assigned.items() for queue in queues}

    def assign(self, queues: Mapping[str, int]) -> None:
        """Hands out the queues of all topics anew. queues: how many each topic has; a topic that is missing has
        none."""
        before = self.owners()
        fresh: dict[str, list[QueueKey]] = {member: [] for member in self.members}
        for topic in sorted({topic for member in self.members.values() for topic in member.topics}):
            takers = [member.id for member in self.members.values() if topic in member.topics]
            held = {queue: owner for (name, queue), owner in before.items() if name == topic}
            load = {member: len(taken) for member, taken in fresh.items()}
            for member, taken in assign(queues.get(topic, 0), takers, held, load).items():
                fresh[member] += [(topic, queue) for queue in taken]
        for member_id, queues_taken in fresh.items():
            # Words beyond the session's end do not exist; join refuses sessions that could come to this.
            fresh[member_id] = queues_taken[: self.members[member_id].capacity]
        self.assigned = fresh

    def packed(self) -> dict[str, Any]:
        members = [
            [member.id, member.slot, member.epoch, member.pid, list(member.topics), member.start, member.capacity]
            for member in self.members.values()
        ]
        assigned = {member: [list(queue) for queue in queues] for member, queues in self.assigned.items()}
        return {"index": self.index, "epoch": self.epoch, "members": members, "assigned": assigned}

    @classmethod
    def unpacked(cls, name: str, content: dict[str, Any]) -> Group:
        group = cls(name, content["index"], content["epoch"])
        for member_id, slot, epoch, pid, topics, start, capacity in content["members"]:
            group.members[member_id] = Member(member_id, slot, epoch, pid, tuple(topics), start, capacity)
        for member_id, queues in content["assigned"].items():
            group.assigned[member_id] = [(topic, queue) for topic, queue in queues]
        return group


def check_group_name(name: Any) -> str:
    """Raises: GroupNameError: has .group."""
    if not isinstance(name, str) or not name:
        raise GroupNameError(f"cannot name a group {name!r}, a name has at least 1 character", group=name)
    if len(name.encode()) > NAME_MAX:
        raise GroupNameError(f"cannot name a group {name[:32]!r}..., the limit is {NAME_MAX} bytes", group=name, limit=NAME_MAX)
    for at, character in enumerate(name):
        if not (character.isascii() and (character.isalnum() or character in "%|_-")):
            raise GroupNameError(
                f"cannot name a group {name!r}, {character!r} is not allowed in it",
                hint="use letters, digits, and any of % | _ -",
                group=name,
                at=at,
                character=character,
            )
    return name
