"""A topic as its users see it."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.shm.durability import APPENDED, Durability
from orbitmq.shm.topic_table import Topic, default_durability, own_retention


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """perm: 2: may be written, 4: may be read. retention_hours: how long messages are kept; 0: for ever; None: as long as the
    broker's setting.
    durability: what a receipt waits for if neither the send nor its producer says so."""

    name: str
    queues: int
    perm: int
    retention_hours: int | None = None
    durability: Durability = APPENDED

    @classmethod
    def of(cls, topic: Topic) -> TopicInfo:
        """Made from an entry of the topic table."""
        kept, safe = own_retention(topic.retention_hours), default_durability(topic.durable)
        return cls(topic.name, topic.queues, topic.perm, kept, safe)
