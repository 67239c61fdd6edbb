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
from scripts.benchmark import jvm, remoting_load
from scripts.benchmark.load import QUEUES
from scripts.benchmark.processor import tree_ns
from scripts.benchmark.stage import scratch

VERSION = "4.9.3"
TOPICS = ("sent", "backlog", "live", "committed")
BACKLOG = 200_000
WARM = (  # a cold broker may refuse sends (RocketMQ: what waits for 200 ms), so it begins with few
    ("sync", 1, 1000), ("commit", 1, 1000), ("sync", 16, 4000), ("async", 256, 3000), ("batch", 32, 1000), ("commit", 16, 2000),
)  # fmt: skip
Start = Callable[[ExitStack, Path, str], tuple[int, int, int]]  # the broker's pid, and the ports for names and for messages
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
    """A broker and its client. broker_pid: the root of the broker's processes; port: the broker's own."""

    def __init__(self, broker_pid: int, port: int, client: jvm.Program) -> None:
        self._broker_pid = broker_pid
        self._port = port
        self._client = client

    def does(self, job: str, *sizes: int) -> Did:
        """A job of the Java client; `bare`: sends of the one in C, whose connections, window and ms are the sizes."""
        before = tree_ns(self._broker_pid)
        told = remoting_load.sends(self._port, TOPICS[0], *sizes) if job == "bare" else self._client.ask(job, *sizes)
        count, seconds, client_ns, p50_us, p99_us = told
        broker_ns = tree_ns(self._broker_pid) - before
        return Did(count / seconds, broker_ns / count, client_ns / count, p50_us, p99_us)


def in_turns(name: str, job: str, *sizes: int) -> tuple[Did, Did] | None:
    """The job on OrbitMQ and on RocketMQ, one after the other; who is first changes from one run of a measure to the next."""
    both = _sides()
    if both is None:
        return None
    ours, theirs = both
    if next(_turns.setdefault(name, itertools.count())) % 2:
        behind = theirs.does(job, *sizes)
        return ours.does(job, *sizes), behind
    return ours.does(job, *sizes), theirs.does(job, *sizes)


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


def _opened(open_: ExitStack, start: Start, home: Path, classes: str) -> Side:
    home.mkdir()
    pid, names, port = start(open_, home, classes)
    client = jvm.Program(classes, "Visitor", home, f"127.0.0.1:{names}")
    open_.callback(client.close)
    return Side(pid, port, client)


def _orbitmq(open_: ExitStack, home: Path, classes: str) -> tuple[int, int, int]:
    broker = open_.enter_context(orbitmq.Broker(home / "store", name=f"bench-{os.getpid()}-gateway", listen="127.0.0.1:0"))
    for topic in TOPICS:
        broker.create_topic(topic, queues=QUEUES)
    port = int(broker.status().listens.rpartition(":")[2])
    return broker.pid, port, port


def _rocketmq(open_: ExitStack, home: Path, classes: str) -> tuple[int, int, int]:
    names, port, ha_port = jvm.free_ports(3)
    server = jvm.Program(classes, "Server", home, home / "store", names, port, ha_port, *TOPICS)
    open_.callback(server.close)
    while server.line() != b"ready":
        continue
    return server.pid, names, port


_STARTS = {"orbitmq": _orbitmq, "rocketmq": _rocketmq}
