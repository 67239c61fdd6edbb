"""Goal: a Python program with RocketMQ's C++ client (the package `rocketmq`, which brings the library along for x86-64) sends
to OrbitMQ and consumes from it, beside local producers and consumers on the same topic.

Method: pythonic/visit.py in a process of its own, with the package in a folder of its own, as pip brings it."""

from __future__ import annotations

import json
import os
import platform
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from scripts import maven
from tests.interop.ours import SMALL_FILES, broker_on
from tests.interop.toolchain import KEPT
from tests.waiting import until

PACKAGE = "rocketmq==0.4.4"
PROGRAM = Path(__file__).parent / "pythonic" / "visit.py"
INSTALL_S = 120  # a watchdog


@pytest.fixture(scope="session")
def package() -> Path:
    """The folder of the package."""
    if platform.machine() != "x86_64":
        pytest.skip(f"{PACKAGE} brings its library for x86-64 only")

    def install(folder: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--only-binary=:all:",
            "--target",
            str(folder),
            PACKAGE,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        if done.returncode != 0:
            pytest.skip(f"pip could not install {PACKAGE}: {' '.join(done.stderr.split())[:400]}")

    return maven.kept(KEPT, "python", [Path(__file__)], install)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with broker_on(tmp_path / "store", SMALL_FILES, name="judged", listen="127.0.0.1:0") as broker:  # type: ignore[arg-type]
        broker.create_topic("orders", queues=4)
        yield broker


Visit = Callable[..., Callable[[], list[dict[str, Any]]]]


@pytest.fixture
def visit(package: Path, broker: orbitmq.Broker, tmp_path: Path) -> Iterator[Visit]:
    """Starts the program; returns what tells all that it has said so far."""
    started: list[subprocess.Popen[bytes]] = []

    def start(group: str, *bodies: str) -> Callable[[], list[dict[str, Any]]]:
        command = [sys.executable, str(PROGRAM), str(package), broker.status().listens, "orders", group, *bodies]
        errors = (tmp_path / f"errors-{group}").open("wb")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env={**os.environ, "HOME": str(tmp_path)})
        started.append(process)
        said = bytearray()

        def look() -> list[dict[str, Any]]:
            assert process.stdout is not None
            while select.select([process.stdout], [], [], 0)[0] and (some := os.read(process.stdout.fileno(), 1 << 16)):
                said.extend(some)
            assert process.poll() is None, (tmp_path / f"errors-{group}").read_text()
            return [json.loads(line) for line in said.decode().splitlines(keepends=True) if line.endswith("\n")]

        return look

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_sends_and_consumes(visit: Visit, broker: orbitmq.Broker) -> None:
    """With and without waiting for the receipts; tags, keys and properties; and its group's offsets are kept."""
    with broker.producer() as producer:
        producer.send("orders", b"ours", tags="a", keys=["k"], properties={"colour": "red"}, queue=3)
    theirs = [f"body {number}" for number in range(6)]
    look = visit("readers", *theirs)

    def came() -> dict[tuple[int, int], dict[str, Any]]:
        """By queue and offset."""
        return {(each["queue"], each["offset"]): each for each in look() if each["kind"] == "came"}

    def bodies() -> set[str]:
        return {each["body"] for each in came().values()}

    until(lambda: bodies() == {"ours", *theirs}, "all messages")
    assert [each["status"] for each in look() if each["kind"] == "sent"] == [0, 0, 0]
    with broker.producer() as producer:
        producer.send("orders", b"later", tags="a", keys=["k"], properties={"colour": "red"})
    until(lambda: "later" in bodies(), "what is sent while it waits")
    with broker.consumer(None, topics=["orders"], start="earliest") as consumer:
        found: list[Any] = []

        def all_found() -> bool:
            found.extend(consumer.poll_batch(100, timeout=0.1))
            return {(each.queue, each.offset) for each in found} == came().keys()

        until(all_found, "the same, here")
    for message in found:
        seen = came()[message.queue, message.offset]
        assert (seen["body"], seen["tags"]) == (bytes(message).decode(), message.tags)
        assert (seen["keys"], seen["colour"]) == (" ".join(message.keys), message.properties["colour"])
    ends = {
        queue.queue: queue.max_offset for topic in broker.status().topics if topic.name == "orders" for queue in topic.queues
    }

    def committed() -> dict[int, int]:
        found = [each for each in broker.groups() if each.name == "readers"]
        return {queue.queue: queue.committed for each in found for queue in each.queues if queue.topic == "orders"}

    until(lambda: {**dict.fromkeys(ends, 0), **committed()} == ends, "the offsets")
