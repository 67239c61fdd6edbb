"""OrbitMQ's side: a broker with the requested file sizes, its visitors, and its death."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orbitmq
from tests.interop.judge import Files
from tests.interop.jvm import Jvm
from tests.waiting import dead, until

# A test fills several files of each kind.
SMALL_FILES = Files(log_file_size=256 << 10, queue_file_units=1000, index_slots=1000, index_entries=4000)


def broker_on(store: Path, files: Files, **settings: int) -> orbitmq.Broker:
    return orbitmq.Broker(store, **{name: getattr(files, name) for name in Files.__slots__}, **settings)


def kill_tree(broker: orbitmq.Broker) -> None:
    """SIGKILL to the supervisor, and so to the whole tree. Returns when nothing of it is left."""
    pids = [actor.pid for actor in broker.status().actors]
    os.kill(broker.pid, signal.SIGKILL)
    until(lambda: all(map(dead, pids)), "the tree's end")
    broker.close()


@contextmanager
def visiting(visitor: Jvm, broker: orbitmq.Broker, **how: bool) -> Iterator[None]:
    """Its clients are the broker's, and those of no later test, however this one ends."""
    visitor.ask("visit", names=broker.status().listens, **how)
    try:
        yield
    finally:
        visitor.ask("leave")
