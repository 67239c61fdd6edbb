"""A client of the gateway beside a crowd of connections that are idle or slow, and what the crowd costs: 1,000 that have asked
something once, 50 that read a byte at a time while large answers wait for them, 30 that send so, and 20 that never end their
handshake of TLS.

What other measures call their ceiling is the same without the crowd, before it came and after it has gone, in the same run.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from scripts.benchmark import remoting_load
from scripts.benchmark.processor import actors, ran_ns
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.stage import Stage, stage

CERTIFICATES = Path(__file__).resolve().parents[2] / "tests" / "actors" / "certificates"
SETTINGS: dict[str, object] = {
    "listen": "127.0.0.1:0",
    "tls_cert": str(CERTIFICATES / "first.pem"),
    "tls_key": str(CERTIFICATES / "first.key"),
}
IDLE, READERS, SENDERS, SHAKERS = 1000, 50, 30, 20
PACE_S = 0.1  # between two bytes of a slow connection
MS = 1000  # of the client, each time
QUIET_S = 2.0
HEARTBEAT, PULL = 34, 11
HELLO = b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" + bytes(500)  # the begin of a handshake that has 16 KiB
_Sender = tuple[socket.socket, bytes]  # and what it sends, again and again
FORK = multiprocessing.get_context("fork")


def _frame(code: int, body: bytes = b"", **fields: object) -> bytes:
    texts = {name: str(value) for name, value in fields.items()}
    told = {"code": code, "flag": 0, "language": "JAVA", "opaque": 1, "version": 407, "extFields": texts}
    header = json.dumps(told).encode()
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


def _connect(port: int, host: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(f"127.0.0.{host}", 0))


def _come(port: int, topic: str, idle: bool, slow: bool) -> tuple[list[socket.socket], list[socket.socket], list[_Sender]]:
    """Those that stay silent, that read, and that send."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    silent = [_connect(port, 2 + number % 2) for number in range(IDLE if idle else 0)]
    beat = _frame(HEARTBEAT, b"{}")
    for each in silent:
        each.sendall(beat)
        each.recv(4096)
    readers = [_connect(port, 4) for _ in range(READERS if slow else 0)]
    fields = {"consumerGroup": "slow", "topic": topic, "queueId": 0, "queueOffset": 0, "maxMsgNums": 32, "sysFlag": 4}
    pull = _frame(PULL, **fields, commitOffset=0, suspendTimeoutMillis=0, subVersion=0, subscription="*")
    for each in readers:
        each.sendall(pull * 100)
    senders = [(_connect(port, 4), beat) for _ in range(SENDERS if slow else 0)]
    senders += [(_connect(port, 4), HELLO) for _ in range(SHAKERS if slow else 0)]
    return silent, readers, senders


def _crowd(line: Connection, port: int, topic: str, idle: bool, slow: bool) -> None:
    _, readers, senders = _come(port, topic, idle, slow)
    line.send("come")
    number = 0
    while not line.poll(PACE_S):
        for reader in readers:
            reader.recv(1)
        for sender, content in senders:
            at = number % len(content)
            sender.sendall(content[at : at + 1])
        number += 1


@contextmanager
def _beside(port: int, topic: str, idle: bool = True, slow: bool = True) -> Iterator[None]:
    """The crowd, in a process of its own."""
    line, far = FORK.Pipe()
    process = FORK.Process(target=_crowd, args=(far, port, topic, idle, slow), daemon=True)
    process.start()
    try:
        assert line.poll(120) and line.recv() == "come"
        yield
    finally:
        line.send("go")
        process.join()


def _port(playing: Stage) -> int:
    return int(playing.broker.status().listens.rpartition(":")[2])


def _topic(playing: Stage) -> str:
    """Its queue 0 has messages for one answer of the largest kind."""
    topic = playing.topic(1)
    with playing.broker.producer() as producer:
        producer.send_batch(topic, [bytes(10_000)] * 30, queue=0)
    return topic


def _own_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private")) << 10


def served(playing: Stage) -> tuple[Sample, ...]:
    """One send after the other of a client in C: p50 and p99."""
    port, topic, sent = _port(playing), _topic(playing), playing.topic()

    def took() -> tuple[float, float]:
        *_, p50, p99 = remoting_load.sends(port, sent, 1, 1, MS)
        return p50, p99

    before = took()
    with _beside(port, topic):
        found = took()
    after = took()
    return tuple(Sample(value, (one + other) / 2) for value, one, other in zip(found, before, after, strict=True))


def busy(playing: Stage) -> tuple[Sample, ...]:
    """Processor time of the gateway in a second in which nobody else asks for anything: with all, and with the idle ones."""
    pid, port, topic = actors(playing.broker, ["gateway"])["gateway"], _port(playing), _topic(playing)

    def ran() -> float:
        time.sleep(1.5)  # what was sent at once has been served
        before, began = ran_ns(pid), time.monotonic()
        time.sleep(QUIET_S)
        return (ran_ns(pid) - before) / (time.monotonic() - began) / 1e6

    alone = ran()
    found = []
    for slow in True, False:
        with _beside(port, topic, slow=slow):
            found.append(Sample(ran(), alone))
    return tuple(found)


def large() -> tuple[Sample, ...]:
    """KiB of a new gateway's own memory for each connection that is idle, and for each that is slow."""
    found = []
    for idle, count in (True, IDLE), (False, READERS + SENDERS + SHAKERS):
        with stage(dict(SETTINGS)) as fresh:
            pid, port, topic = actors(fresh.broker, ["gateway"])["gateway"], _port(fresh), _topic(fresh)
            before = _own_bytes(pid)
            with _beside(port, topic, idle, not idle):
                time.sleep(2.5)
                found.append(Sample((_own_bytes(pid) - before) / count / 1024))
    return tuple(found)


_BROKER: dict[str, Any] = {"settings": SETTINGS, "beside": "without"}

MEASURES = (
    Measure(("gateway_crowd_p50_us", "gateway_crowd_p99_us"), "us", served, runs=9, **_BROKER),
    Measure(("gateway_crowd_busy", "gateway_crowd_busy_idle"), "ms/s", busy, "-", runs=3, **_BROKER),
    Measure(("gateway_crowd_idle_kib", "gateway_crowd_slow_kib"), "KiB", large, "-", runs=3, warm=0, broker=False),
)
