"""A topic as its users see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """perm: 2 may be written, 4 may be read."""

    name: str
    queues: int
    perm: int
