"""Two looks at a tree, and what happened between them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from orbitmq.client.admin.status import ActorStatus, Status


@dataclass(frozen=True, slots=True)
class Look:
    """A status and when it was taken, seconds of the monotonic clock."""

    status: Status
    at: float = field(default_factory=time.monotonic)

    def actor(self, name: str) -> ActorStatus | None:
        return next((actor for actor in self.status.actors if actor.name == name), None)

    def count(self, name: str, counter: str) -> int:
        """A counter of an actor's; 0 for an actor that does not exist."""
        actor = self.actor(name)
        return actor.counters.get(counter, 0) if actor is not None else 0

    def committed(self, group: str) -> int:
        """Sum of a group's committed queue offsets."""
        return sum(queue.committed for each in self.status.groups if each.name == group for queue in each.queues)

    def reached(self, topic: str) -> int:
        """Sum of a topic's next queue offsets: messages it ever got."""
        return sum(queue.max_offset for each in self.status.topics if each.name == topic for queue in each.queues)


@dataclass(frozen=True, slots=True)
class Between:
    """Rates between two looks. A number that went back, as a group's offsets may, counts as unchanged."""

    before: Look
    now: Look

    def per_second(self, earlier: float, later: float) -> float:
        passed = self.now.at - self.before.at
        return max(0.0, later - earlier) / passed if passed > 0 else 0.0

    def of_actor(self, name: str, counter: str) -> float:
        """Per second. A restarted actor's page continues to count where its predecessor stopped."""
        return self.per_second(self.before.count(name, counter), self.now.count(name, counter))

    def of_topic(self, topic: str) -> float:
        """Messages a second that became readable."""
        return self.per_second(self.before.reached(topic), self.now.reached(topic))

    def of_group(self, group: str) -> float:
        """Messages a second that the group committed."""
        return self.per_second(self.before.committed(group), self.now.committed(group))

    def of_position(self, name: str) -> float:
        """Bytes a second."""
        return self.per_second(getattr(self.before.status.positions, name), getattr(self.now.status.positions, name))
