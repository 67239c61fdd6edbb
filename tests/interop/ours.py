"""OrbitMQ's side: a broker with the files that were asked for, its death, and waiting for something of it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from judge import Files

import orbitmq

PATIENCE_S = 90  # a watchdog: what has not happened by then never will


def broker_on(store: Path, files: Files, **settings: int) -> orbitmq.Broker:
    return orbitmq.Broker(store, **{name: getattr(files, name) for name in Files.__slots__}, **settings)


def kill_tree(broker: orbitmq.Broker) -> None:
    """SIGKILL to the supervisor, and so to the whole tree; returns when nothing of it is left."""
    pids = [actor.pid for actor in broker.status().actors]
    os.kill(broker.pid, signal.SIGKILL)
    until(lambda: not any(map(_lives, pids)), "the tree's end")
    broker.close()


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits for a condition, looking again whenever the processor is free."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"still waiting for {what}"
        os.sched_yield()


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
