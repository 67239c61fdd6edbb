"""What a program is told about its consumer's queues: which have come, which are about to go, which have gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from orbitmq.shm.topic_table import QueueKey

# (consumer, queues); for an asyncio consumer the callable may return something to await.
QueuesCallback = Callable[[Any, list[QueueKey]], Any]


@dataclass(frozen=True, slots=True)
class QueuesEvent:
    kind: Literal["assigned", "revoked", "lost"]
    queues: list[QueueKey]


@dataclass(frozen=True, slots=True)
class Listener:
    on_assigned: QueuesCallback | None = None
    on_revoked: QueuesCallback | None = None
    on_lost: QueuesCallback | None = None

    @property
    def hears(self) -> bool:
        return any((self.on_assigned, self.on_revoked, self.on_lost))

    def callback(self, event: QueuesEvent) -> QueuesCallback | None:
        if event.kind == "assigned":
            return self.on_assigned
        return self.on_revoked if event.kind == "revoked" or self.on_lost is None else self.on_lost
