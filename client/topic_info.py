"""A topic as its users see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """perm: 2 may be written, 4 may be read. retention_hours: how long messages are kept; 0: for ever; None: as the
    broker keeps others."""

    name: str
    queues: int
    perm: int
    retention_hours: int | None = None
