"""Goal: programs with RocketMQ's other clients find in OrbitMQ what they find in RocketMQ: ali-ons, the client of Node.js, and
RocketMQ's oldest Java client, of version 3.

Method: a program of each (scripted/visit.js, oldest/Oldest.java) sends and consumes beside local producers and consumers."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from scripts import maven
from tests.interop import toolchain
from tests.interop.jvm import QUICK
from tests.interop.ours import SMALL_FILES, broker_on
from tests.interop.toolchain import KEPT
from tests.trees import everything
from tests.waiting import until

ALI_ONS = "ali-ons@3.12.0"
SCRIPT = Path(__file__).parent / "scripted" / "visit.js"
INSTALL_S = 240  # a watchdog
BODIES = ("one", "two", "three")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with broker_on(tmp_path / "store", SMALL_FILES, name="visited", listen="127.0.0.1:0") as broker:  # type: ignore[arg-type]
        yield broker


Visit = Callable[[Sequence[str]], Callable[[], list[str]]]


@pytest.fixture
def visit(tmp_path: Path) -> Iterator[Visit]:
    """Starts a program; returns what tells all the lines that it has said so far."""
    started: list[subprocess.Popen[bytes]] = []

    def start(command: Sequence[str]) -> Callable[[], list[str]]:
        errors = tmp_path / "errors"
        with errors.open("wb") as into:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=into, env={**os.environ, "HOME": str(tmp_path)}
            )
        started.append(process)
        said = bytearray()

        def look() -> list[str]:
            assert process.stdout is not None
            while select.select([process.stdout], [], [], 0)[0] and (some := os.read(process.stdout.fileno(), 1 << 16)):
                said.extend(some)
            assert process.poll() is None, errors.read_text()
            return said.decode().rpartition("\n")[0].splitlines()

        return look

    yield start
    for process in started:
        process.kill()
        process.wait()




@pytest.fixture(scope="session")
def packages() -> Path:
    """The folder of ali-ons and of what it needs."""
    try:
        npm = maven.tool("npm", "Node.js (nodejs, npm)")
    except maven.MavenError as why:
        pytest.skip(str(why))

    def install(folder: Path) -> None:
        command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts", ALI_ONS]
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            pytest.skip(f"npm could not install {ALI_ONS}: {' '.join(done.stderr.split())[:400]}")

    return maven.kept(KEPT, "npm", [Path(__file__)], install)


def test_node_js(visit: Visit, packages: Path, broker: orbitmq.Broker) -> None:
    """Tags, keys, properties of any characters, and a body that it compresses. It makes no topics, at RocketMQ neither."""
    broker.create_topic("orders", queues=4)
    large = "large" * 4000
    look = visit(["node", str(SCRIPT), str(packages), str(broker.status().listens), "orders", "readers", *BODIES, large])

    def came() -> list[dict[str, Any]]:
        return [each for each in map(json.loads, look()) if each["kind"] == "came"]

    until(lambda: {each["body"] for each in came()} >= {*BODIES, large}, "all messages")
    with broker.producer() as producer:
        producer.send("orders", b"ours", tags="paid", keys=["key-ours"], properties={"colour": "blå"})
    until(lambda: "ours" in {each["body"] for each in came()}, "what is sent here")
    for each in came():
        assert (each["tags"], each["keys"], each["colour"]) == ("paid", f"key-{each['body'][:9]}", "blå"), each
    assert {body.decode() for body, *_ in everything(broker, "orders")} == {*BODIES, large, "ours"}


def test_the_oldest(visit: Visit, broker: orbitmq.Broker, tmp_path: Path) -> None:
    """Its first send makes the topic; of two transactions the committed one comes; what is given back comes again."""
    try:
        tools = toolchain.provide_oldest()
    except toolchain.MavenError as why:
        pytest.skip(f"RocketMQ 3's client cannot be had: {why}")
    command = [tools.java, *QUICK, f"-Duser.home={tmp_path}", "-cp", tools.class_path, "Oldest", str(broker.status().listens)]
    look = visit([*command, "orders", "readers", *BODIES])

    def came() -> list[list[str]]:
        return [words[1:] for words in map(str.split, look()) if words[0] == "came"]

    wanted = {*BODIES, "COMMIT_MESSAGE"}
    until(lambda: {body for body, _, _ in came()} == wanted, "all messages")
    until(lambda: [tries for _, _, tries in came()].count("1") == 1, "what was given back")
    assert all(key == f"key-{body}" for body, key, _ in came())
    assert look()[: len(BODIES)] == ["sent SEND_OK"] * len(BODIES)
    with broker.producer() as producer:
        producer.send("orders", b"ours", tags="paid", keys=["key-ours"])
    until(lambda: ["ours", "key-ours", "0"] in came(), "what is sent here")
