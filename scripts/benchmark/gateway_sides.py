"""The two brokers that `gateway` compares, each with a client in a JVM of its own: the same program with another address.

Both pairs live as long as this process, so that their compilers have seen the work.
"""

from __future__ import annotations

import atexit
import itertools
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import orbitmq
from scripts import maven
from scripts.benchmark import jvm
from scripts.benchmark.load import QUEUES
from scripts.benchmark.processor import tree_ns
from scripts.benchmark.stage import scratch

VERSION = "4.9.3"
TOPICS = ("sent", "backlog", "live", "committed")
BACKLOG = 200_000
WARM = (("sync", 16, 4000), ("async", 256, 3000), ("batch", 32, 1000), ("commit", 16, 2000))
_turns: dict[str, itertools.count[int]] = {}


@dataclass(frozen=True, slots=True)
class Did:
    """One job of a client: what it counted, and what each request (or message) took."""

    rate: float
    broker_ns: float
    client_ns: float
    p50_us: float
    p99_us: float


class Side:
    """A broker and its client. broker_pid: the root of the broker's processes."""

    def __init__(self, broker_pid: int, client: jvm.Program) -> None:
        self._broker_pid = broker_pid
        self._client = client

    def does(self, job: str, size: int, *more: int) -> Did:
        before = tree_ns(self._broker_pid)
        count, seconds, client_ns, p50_us, p99_us = self._client.ask(job, size, *more)
        broker_ns = tree_ns(self._broker_pid) - before
        return Did(count / seconds, broker_ns / count, client_ns / count, p50_us, p99_us)


def in_turns(name: str, job: str, size: int, *more: int) -> tuple[Did, Did] | None:
    """The job on OrbitMQ and on RocketMQ, one after the other; who is first changes from one run of a measure to the next."""
    both = _sides()
    if both is None:
        return None
    ours, theirs = both
    if next(_turns.setdefault(name, itertools.count())) % 2:
        behind = theirs.does(job, size, *more)
        return ours.does(job, size, *more), behind
    return ours.does(job, size, *more), theirs.does(job, size, *more)


@cache
def _sides() -> tuple[Side, Side] | None:
    """Both, warm; or None, with a note."""
    try:
        maven.tool("java", "Java (default-jre-headless)")
        classes = jvm.class_path(VERSION)
    except maven.MavenError as error:
        print(f"gateway left out: {error}", file=sys.stderr)
        return None
    open_ = ExitStack()
    atexit.register(open_.close)
    folder = open_.enter_context(scratch())
    sides = tuple(_opened(open_, start, folder / name, classes) for name, start in _STARTS.items())
    for side in sides:
        for job in WARM:
            side.does(*job)
        side.does("fill", BACKLOG)
    return sides[0], sides[1]


def _opened(open_: ExitStack, start: Callable[[ExitStack, Path, str], tuple[int, str]], home: Path, classes: str) -> Side:
    home.mkdir()
    pid, address = start(open_, home, classes)
    client = jvm.Program(classes, "Visitor", home, address)
    open_.callback(client.close)
    return Side(pid, client)


def _orbitmq(open_: ExitStack, home: Path, classes: str) -> tuple[int, str]:
    broker = open_.enter_context(orbitmq.Broker(home / "store", name=f"bench-{os.getpid()}-gateway", listen="127.0.0.1:0"))
    for topic in TOPICS:
        broker.create_topic(topic, queues=QUEUES)
    return broker.pid, broker.status().listens


def _rocketmq(open_: ExitStack, home: Path, classes: str) -> tuple[int, str]:
    names, port, ha_port = jvm.free_ports(3)
    server = jvm.Program(classes, "Server", home, home / "store", names, port, ha_port, *TOPICS)
    open_.callback(server.close)
    while server.line() != b"ready":
        continue
    return server.pid, f"127.0.0.1:{names}"


_STARTS = {"orbitmq": _orbitmq, "rocketmq": _rocketmq}
