"""What workers of the tests take."""

from __future__ import annotations

from orbitmq.client.hand_out import HandOut
from orbitmq.client.work_session import WorkSession
from tests.waiting import WATCHDOG_S


def collect(worker: WorkSession, count: int, most: int = 100) -> list[HandOut]:
    """Exactly so many hand-outs."""
    found: list[HandOut] = []
    while len(found) < count:
        more = worker.take(min(most, count - len(found)), WATCHDOG_S)
        assert more, f"{len(found)} of {count} came"
        found += more
    return found
