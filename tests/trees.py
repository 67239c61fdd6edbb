"""Small broker trees for tests, and how to observe and control their processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orbitmq
from orbitmq.client.admin.status import ActorStatus, read_actors, read_positions
from orbitmq.native._core import ffi, lib
from orbitmq.shm.counters import ActorCounters, ActorPage
from orbitmq.shm.segment import MOUNT, segment_prefix
from tests.waiting import WATCHDOG_S, dead, until

SMALL: dict[str, Any] = {
    "handlers": 2,
    "placement": "spread",
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


def actors(client: orbitmq.Client) -> dict[str, ActorStatus]:
    """The actors by name. Read from shared memory alone, so that it works without a coordinator."""
    return {actor.name: actor for actor in read_actors(client.connection.attachment)}


def actor(client: orbitmq.Client, name: str) -> ActorCounters:
    """One actor, read at a small part of what all of them cost: for what a test looks at again and again."""
    control, view = client.connection.attachment.control, ffi.new("struct actor_view *")
    for index in range(lib.ACTORS_MAX):
        page = lib.control_actor(control, index)
        lib.actor_page_view(page, view)
        if view.epoch and ffi.string(view.name) == name.encode():
            return ActorPage(page).read()
    raise KeyError(name)


def kill(client: orbitmq.Client, name: str) -> ActorStatus:
    """Kills an actor and waits for its end. Returns its state before. Between two lives its page has the pid of a process that
    is gone, then pid 0, which to kill(2) means every process of the caller's group."""

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


@contextmanager
def stopped(client: orbitmq.Client, name: str) -> Iterator[None]:
    """The actor hangs. It may be killed meanwhile."""
    process = os.pidfd_open(actors(client)[name].pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGCONT)
    finally:
        os.close(process)


def segments(generation: int) -> set[str]:
    """The files of one tree in /dev/shm; those of others on this machine come and go."""
    return {path.name for path in MOUNT.glob(segment_prefix(generation) + "*")}


def indexed(client: orbitmq.Client) -> None:
    """Waits until reput has reached the end of the log: remote clients see no further."""
    until(lambda: (seen := read_positions(client.connection.attachment)).reput == seen.wrote, "reput")


def stored(broker: orbitmq.Broker, topic: str = "t") -> list[Any]:
    """All messages of the topic, in the order of the log."""
    indexed(broker)
    count = sum(queue.max_offset for known in broker.status().topics if known.name == topic for queue in known.queues)
    with broker.consumer(None, topics=[topic], start="earliest") as consumer:
        found = []
        while len(found) < count:
            found += consumer.poll_batch(1000, timeout=10)
    return sorted(found, key=lambda message: message.physical_offset)


def everything(client: orbitmq.Client, topic: str) -> list[tuple[bytes, int, int, int]]:
    """(body, queue, queue offset, physical offset) of every message of a topic, once reput has reached the end of the log."""
    indexed(client)
    known = next(found for found in client.status().topics if found.name == topic)
    expected = sum(queue.max_offset - queue.min_offset for queue in known.queues)
    found: list[tuple[bytes, int, int, int]] = []
    with client.consumer(None, topics=[topic], start="earliest") as consumer:
        while len(found) < expected:
            # few: those of a sparse topic may lie in a file of the log each, and live messages hold 64 files at most
            batch = consumer.poll_batch(60, timeout=WATCHDOG_S)
            assert batch, f"{len(found)} of {expected} messages came"
            found += [(bytes(each), each.queue, each.offset, each.physical_offset) for each in batch]
    return found
