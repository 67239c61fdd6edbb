"""A broker's status, made by hand."""

from __future__ import annotations

from typing import Any

from orbitmq.client.admin.status import (
    ActorStatus,
    GroupQueueStatus,
    GroupStatus,
    MemberStatus,
    Positions,
    QueueStatus,
    SessionStatus,
    Status,
    TopicStatus,
)


def positions(**changed: int) -> Positions:
    usual = {name: 0 for name in Positions.__slots__} | {"wrote": 4096, "flushed": 4096, "reput": 4096, "allocated": 1 << 20}
    return Positions(**{**usual, **changed})


def actor(name: str, **changed: Any) -> ActorStatus:
    usual: dict[str, Any] = {"state": "running", "pid": 42, "epoch": 1, "error": 0, "heartbeat_age_ms": 3}
    return ActorStatus(name, **{**usual, "counters": {}, "quantiles": {}, **changed})


def topic(name: str, *ends: tuple[int, int], **changed: Any) -> TopicStatus:
    queues = tuple(QueueStatus(queue, *bounds) for queue, bounds in enumerate(ends))
    usual: dict[str, Any] = {"perm": 6, "retention_hours": None, "durability": "appended"}
    return TopicStatus(name, **{**usual, "queues": queues, **changed})


def group(name: str, *queues: GroupQueueStatus, members: tuple[MemberStatus, ...] = ()) -> GroupStatus:
    return GroupStatus(name, 1, members, queues)


def session(window: int) -> SessionStatus:
    return SessionStatus(0, 1, 42, window, 1 << 16, 0 if window else 8, 1 << 10, False)


def status(**changed: Any) -> Status:
    """A broker that is well and empty, except for what the arguments say."""
    usual: dict[str, Any] = {
        "name": "default",
        "state": "running",
        "pid": 41,
        "generation": 7,
        "store": "/store",
        "version": "0.1.0",
        "flush": "timed",
        "flush_interval_ms": 500,
        "after_failed_sync": "refuse",
        "clock_ahead_ms": 0,
        "retention_hours": 72,
        "retention_bytes": 0,
        "message_max": 4 << 20,
        "read_only": False,
        "oldest_ms": 0,
        "positions": positions(),
        "actors": (),
        "topics": (),
        "groups": (),
        "sessions": (),
        "notes": (),
    }
    return Status(**{**usual, **changed})
