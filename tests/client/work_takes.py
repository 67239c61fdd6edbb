"""What workers of the tests get and take."""

from __future__ import annotations

import orbitmq
from orbitmq.client.work.hand_out import HandOut
from orbitmq.client.work.session import WorkSession
from tests.waiting import WATCHDOG_S


def collect(worker: WorkSession, count: int, most: int = 100) -> list[HandOut]:
    """Exactly so many hand-outs."""
    found: list[HandOut] = []
    while len(found) < count:
        more = worker.take(min(most, count - len(found)), WATCHDOG_S)
        assert more, f"{len(found)} of {count} came"
        found += more
    return found


def fill(broker: orbitmq.Client, name: str, count: int, queues: int = 2, first: int = 0) -> None:
    broker.create_topic(name, queues=queues)
    with broker.producer() as producer:
        for begin in range(first, first + count, 1000):
            bodies = [b"%d" % number for number in range(begin, min(begin + 1000, first + count))]
            assert len(producer.send_batch(name, bodies)) == len(bodies)


def number(hand_out: HandOut) -> int:
    return int(bytes(hand_out.message.body))


def lag(broker: orbitmq.Client, group: str) -> int:
    return sum(queue.lag_messages for queue in broker.group(group).queues)
