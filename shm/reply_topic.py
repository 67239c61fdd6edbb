"""The topic in which replies are kept, RocketMQ's, and the queue of it that a requester reads."""

from __future__ import annotations

import zlib

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
REPLY_QUEUES = 8
REPLY_HOURS = 1  # a reply is of use for seconds


def reply_queue(client_id: str, queues: int) -> int:
    """Requester and responder both ask. The topic may have more queues, but a requester reads the same one all its life."""
    return zlib.crc32(client_id.encode()) % min(queues, REPLY_QUEUES)
