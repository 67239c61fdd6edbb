"""Small broker trees for tests, and waiting for conditions about them."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orbitmq
from orbitmq.client.status import ActorStatus, read_actors
from orbitmq.shm import runtime
from orbitmq.shm.segment import MOUNT, segment_prefix

WATCHDOG_S = 30.0
LOOK_MS = 2
SMALL: dict[str, Any] = {
    "handlers": 2,
    "log_file_size": 1 << 20,
    "lane_capacity": 1 << 18,
    "index_slots": 1000,
    "index_entries": 4000,
    "queue_file_units": 1000,
    "topic_capacity": 64,
    "queue_capacity": 512,
}


@contextmanager
def small_broker(store: Path, **settings: Any) -> Iterator[orbitmq.Broker]:
    with orbitmq.Broker(store, **{**SMALL, **settings}) as broker:
        yield broker


def until(condition: Callable[[], Any], what: str) -> Any:
    """Waits for a condition, and returns what it found; the watchdog only ends a test that would hang."""
    deadline = time.monotonic() + WATCHDOG_S
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {WATCHDOG_S:g} s for {what}"
        select.poll().poll(LOOK_MS)


def actors(client: orbitmq.Client) -> dict[str, ActorStatus]:
    """By name. Read from shared memory alone, so that it works without a coordinator."""
    return {actor.name: actor for actor in read_actors(client.connection.attachment)}


def kill(client: orbitmq.Client, name: str) -> ActorStatus:
    """Kills an actor and waits for its end; returns what it was. Between two lives its page has the pid of a process that
    is gone, then pid 0, which to kill(2) is every process of the caller's group."""

    def struck() -> ActorStatus | None:
        seen = actors(client)[name]
        with suppress(ProcessLookupError):
            if seen.pid > 0:
                os.kill(seen.pid, signal.SIGKILL)
                return seen
        return None

    victim: ActorStatus = until(struck, f"{name} to live")
    until(lambda: dead(victim.pid), f"the death of {name}")
    return victim


def dead(pid: int) -> bool:
    return runtime.start_ticks(pid) is None


def segments(generation: int) -> set[str]:
    """What stands in /dev/shm of one tree; others on this machine come and go."""
    return {path.name for path in MOUNT.glob(segment_prefix(generation) + "*")}
