"""TBW102, the topic after which RocketMQ makes others. It has a route and no messages: a producer that finds no route for its
topic asks for this one, and sends there; the send names it, and how many queues it wants."""

from __future__ import annotations

from orbitmq.shm.topic_table import PERM_READ_WRITE, Topic

QUEUES = 8  # of a topic that is made, at most; RocketMQ's default
_INHERIT = 1  # in the permission: others are made after it
TEMPLATE = Topic("TBW102", 0, QUEUES, PERM_READ_WRITE | _INHERIT, 0, QUEUES, 0, False)


def queues_of(wanted: str) -> int:
    """Of a topic for which a client wants so many. Raises: ValueError: this is no number."""
    return max(1, min(int(wanted), QUEUES))
