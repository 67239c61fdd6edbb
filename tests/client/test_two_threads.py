"""Goal: whatever two threads do with one consumer, or a caller with the buffers it gave, no foreign memory is read: the answer
is right, or UsageError. Method: where C releases the interpreter lock or runs Python code, a substitute for zlib gives the
other thread its turn; and one process that hammers."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.consumer.consumer import Consumer
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import UsageError
from tests.client.composed_broker import ComposedBroker
from tests.client.thread_broker import ThreadBroker

COMPRESSED = 1  # of RocketMQ's sysFlag; zlib without a type


@pytest.fixture
def broker(tmp_path: Path) -> ComposedBroker:
    return ComposedBroker(tmp_path / "store")


def fill(broker: ComposedBroker, messages: int, size: int = 100) -> None:
    slot = broker.add_topic("t", 1)
    for number in range(messages):
        broker.append("t", slot, zlib.compress(b"%d." % number + bytes(size)), sys_flag=COMPRESSED)
    broker.publish()


def number(body: bytes) -> int:
    return int(body.partition(b".")[0])


def in_the_middle(monkeypatch: pytest.MonkeyPatch, turn: Callable[[], Any], at: int) -> list[Any]:
    """While the C code decompresses its body number `at`, another thread has its turn. Returns the result of that."""
    real, outcomes, count = zlib.decompressobj, [], 0

    def run() -> None:
        try:
            outcomes.append(turn())
        except Exception as error:
            outcomes.append(error)

    def decompressobj(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == at:
            thread = threading.Thread(target=run)
            thread.start()
            thread.join(60)
        return real(*arguments)

    monkeypatch.setattr(zlib, "decompressobj", decompressobj)
    return outcomes


def readers(consumer: Consumer) -> dict[str, Callable[[], list[int]]]:
    """The calls that decompress."""
    return {
        "bodies": lambda: [number(body) for body in consumer.poll_bodies(20, 0)],
        "arrow": lambda: [number(body) for body in consumer.poll_arrow(20, 0)["body"].to_pylist()],
    }


@pytest.mark.parametrize("read", ["bodies", "arrow"])
@pytest.mark.parametrize("other", ["iterate", "gathered", "poll", "close the reader"])
def test_the_other_thread_is_refused(
    broker: ComposedBroker, monkeypatch: pytest.MonkeyPatch, read: str, other: str
) -> None:
    """Goal: what a thread gathered stays until it has delivered it. Method: the other thread calls in the middle."""
    if read == "arrow":
        pytest.importorskip("pyarrow")
    fill(broker, 20)
    consumer = Consumer(broker, None, ["t"])
    iteration = iter(consumer)
    first = number(bytes(next(iteration)))
    turns: dict[str, Callable[[], Any]] = {
        "iterate": lambda: next(iteration),
        "gathered": consumer._reader.gathered,
        "poll": lambda: consumer.poll(0),
        "close the reader": consumer._reader.close,
    }
    outcomes = in_the_middle(monkeypatch, turns[other], at=5)
    got = [first, *readers(consumer)[read]()]
    monkeypatch.undo()
    got += readers(consumer)[read]()
    assert got == list(range(20))
    assert [type(outcome) for outcome in outcomes] == [UsageError]


def test_closing_in_the_middle(broker: ComposedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a consumer closed by another thread delivers what it had begun, and gives its session back afterwards."""
    fill(broker, 20)
    consumer = Consumer(broker, None, ["t"])
    closed_then: list[int] = []

    def close() -> None:
        consumer.close()
        closed_then.extend(broker.closed)

    in_the_middle(monkeypatch, close, at=5)
    assert [number(body) for body in consumer.poll_bodies(20, 0)] == list(range(20))
    assert closed_then == [] and broker.closed == [0]


HAMMER = """
import sys, threading, zlib
from pathlib import Path
from orbitmq.client.consumer.consumer import Consumer
from orbitmq.errors import UsageError
from tests.client.composed_broker import ComposedBroker
from tests.client.test_two_threads import fill, number

broker = ComposedBroker(Path(sys.argv[1]))
fill(broker, 400, 20_000)
consumer = Consumer(broker, None, ["t"], batch=50)
rounds = 6
got = []

def run(take):
    while len(got) < 400 * rounds:
        try:
            got.extend(take())
        except UsageError:
            pass

def iterate():
    for message in consumer:
        yield [message]
        if message.offset == 399:
            return

def by_iteration():
    for found in iterate():
        got.extend(found)
    return []

def by_polls():
    found = [number(body) for body in consumer.poll_bodies(13, 0)]
    if consumer.position()["t", 0] == 400:
        consumer.seek("t", 0, 0)
    return found

threads = [threading.Thread(target=run, args=(take,), daemon=True) for take in (by_iteration, by_polls, by_polls)]
for thread in threads:
    thread.start()
while len(got) < 400 * rounds:
    threads[1].join(0.05)
    consumer.interrupt()
print("alive")
import os
sys.stdout.flush()
os._exit(0)
"""


def test_threads_that_hammer(tmp_path: Path) -> None:
    """Goal: no crash. Method: a process of its own, in which one thread iterates and two poll, all over the same bodies."""
    root = Path(__file__).resolve().parents[2]
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", HAMMER, str(tmp_path / "hammered")],
        cwd=root, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "alive\n"), ended.stderr


# ---- buffers that change


def words(*numbers: int) -> bytearray:
    return bytearray(struct.pack(f"{len(numbers)}q", *numbers))


def test_columns_that_change_while_they_wait_for_room(tmp_path: Path) -> None:
    """Goal: the offsets that were checked are the ones that are used: nothing outside the buffers is read. Method: the batch
    waits for room half-way, while every offset is overwritten with the worst value."""
    rows = 12
    with ThreadBroker(tmp_path) as broker:
        broker.topic("t", queues=1)
        with Producer(broker, window=4) as producer:
            offsets = words(*(3 * row for row in range(rows + 1)))
            none = words(*[0] * (rows + 1))
            queues = bytearray(struct.pack(f"{rows}i", *[0] * rows))
            bodies = b"".join(b"%03d" % row for row in range(rows))
            broker.stall_now()
            outcome: list[Any] = []
            columns = ("t", rows, offsets, bodies, none, b"", queues, None, None, None, False)
            sender = threading.Thread(target=lambda: outcome.append(producer.send_columns(*columns)))
            sender.start()
            while producer.in_flight < 4:
                pass
            for place in range(rows + 1):
                struct.pack_into("q", offsets, 8 * place, 1 << 46)
                struct.pack_into("q", none, 8 * place, (1 << 46) * (place % 2))
            struct.pack_into(f"{rows}i", queues, 0, *[1 << 30] * rows)
            broker.resume()
            sender.join(60)
            outcome[0].result(30)
        assert [bytes(record.body) for record in broker.log()] == [b"%03d" % row for row in range(rows)]
