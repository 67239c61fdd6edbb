"""OrbitMQ's side: a broker with the requested file sizes, its death, and waiting for something of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import orbitmq
from tests.interop.judge import Files
from tests.waiting import dead, until


def broker_on(store: Path, files: Files, **settings: int) -> orbitmq.Broker:
    return orbitmq.Broker(store, **{name: getattr(files, name) for name in Files.__slots__}, **settings)


def kill_tree(broker: orbitmq.Broker) -> None:
    """SIGKILL to the supervisor, and so to the whole tree. Returns when nothing of it is left."""
    pids = [actor.pid for actor in broker.status().actors]
    os.kill(broker.pid, signal.SIGKILL)
    until(lambda: all(map(dead, pids)), "the tree's end")
    broker.close()
