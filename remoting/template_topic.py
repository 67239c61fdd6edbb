"""TBW102, the topic after which RocketMQ makes others. It has a route and no messages: a producer that finds no route for its
topic asks for this one, and sends there; the send names it, and how many queues it wants."""

from __future__ import annotations

from orbitmq.shm.topic_table import PERM_READ_WRITE, Topic

QUEUES = 8  # of a topic that is made, at most; RocketMQ's default
_INHERIT = 1  # in the permission: others are made after it
TEMPLATE = Topic("TBW102", 0, QUEUES, PERM_READ_WRITE | _INHERIT, 0, QUEUES, 0, False)


def of_broker(broker: str) -> Topic:
    """RocketMQ's brokers have a topic of their own name each, and clients were seen that ask for its route to learn where the
    broker is. Here too it has a route, and is made by the first send."""
    return Topic(broker, 0, 1, TEMPLATE.perm, 0, 1, 0, False)


def queues_of(wanted: str) -> int:
    """Of a topic for which a client wants so many. Raises: ValueError: this is no number."""
    return max(1, min(int(wanted), QUEUES))
