"""Delayed messages as a client sees them: how many wait, and which have come."""

from __future__ import annotations

from orbitmq.client.client import Client
from orbitmq.shm.topic_table import TopicTable
from tests.waiting import WATCHDOG_S

DAY_S = 86_400
TIMER = "rmq_sys_wheel_timer"


def stored(client: Client, topic: str = TIMER) -> int:
    """Messages of the topic's first queue, with those that cancel."""
    table = TopicTable(client.connection.attachment.topics)
    found = table.find(topic)
    return table.bounds(found.first_slot).maximum if found is not None else 0


def comes(client: Client, last: bytes) -> list[bytes]:
    """The bodies of "t" up to this one."""
    found: list[bytes] = []
    with client.consumer(None, ["t"], start="earliest") as consumer:
        while last not in found:
            batch = consumer.poll_batch(100, timeout=WATCHDOG_S)
            assert batch, f"{found} came"
            found += [bytes(each) for each in batch]
    return found
