"""Goal: the programs of docs/rocketmq.md do what the page says, for a reader who copies them. Method: each is taken out of the
page, told where the test's broker is, and run with RocketMQ's own client for its language; what it prints is compared with what
the broker has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from scripts import maven
from tests.interop import gopher
from tests.interop.jvm import PATIENT, QUICK
from tests.interop.test_python_client import package  # noqa: F401
from tests.interop.toolchain import Toolchain
from tests.sources import ROOT
from tests.trees import everything, small_broker

PAGE = (ROOT / "docs" / "rocketmq.md").read_text()
PORT = "127.0.0.1:9876"
WATCHDOG_S = 240
FREE: dict[str, Any] = {"gateway": True, "name_server_port": 0, "broker_port": 0}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path / "store", **FREE) as broker:
        yield broker


def program(language: str, broker: orbitmq.Broker) -> str:
    """The page's program. Only the port is another one, because the usual one may be taken on this machine."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert PORT in found
    return str(found).replace(PORT, broker.status().listens)


def output(command: Sequence[str], folder: Path, **environment: str) -> list[str]:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=WATCHDOG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def bodies(broker: orbitmq.Broker) -> list[bytes]:
    return [body for body, _, _, _ in everything(broker, "orders")]


def test_java(tools: Toolchain, broker: orbitmq.Broker, tmp_path: Path) -> None:
    """Java's client gives up what it sends and asks after 3 s, in which a JVM of a busy machine has hardly loaded its classes;
    and then the program does not end, for a producer's threads live on."""
    text = program("java", broker)
    limits = {"producer": ("SendMsgTimeout", "MqClientApiTimeout"), "consumer": ("MqClientApiTimeout",)}
    for client, names in limits.items():
        started = f"{client}.start();"
        assert started in text
        calls = [f"{client}.set{name}({1000 * WATCHDOG_S});" for name in names]
        text = text.replace(started, " ".join([*calls, started]), 1)
    (tmp_path / "Orders.java").write_text(text)
    logs = ["-Djudge.log=log", "-Drocketmq.client.logRoot=logs"]
    said = output([tools.java, *QUICK, PATIENT, *logs, "-cp", tools.class_path, "Orders.java"], tmp_path)
    assert said == ["SEND_OK", "hello from Java, keys order-17"]
    assert bodies(broker) == [b"hello from Java"]


def test_go(broker: orbitmq.Broker, tmp_path: Path) -> None:
    try:
        gopher.provide()  # with it, everything is here
    except gopher.GoError as why:
        pytest.skip(f"RocketMQ's Go client cannot be had: {why}")
    (tmp_path / "main.go").write_text(program("go", broker))
    for name in ("go.mod", "go.sum"):
        shutil.copy(gopher.SOURCES / name, tmp_path)
    gopher.build(maven.tool("go", "Go (golang-go)"), tmp_path, tmp_path)
    said = output([str(tmp_path / "gopher")], tmp_path, ROCKETMQ_GO_LOG_LEVEL="error")
    assert said == ["true <nil>", "hello from Go"]
    assert bodies(broker) == [b"hello from Go"]


def test_python(package: Path, broker: orbitmq.Broker, tmp_path: Path) -> None:  # noqa: F811
    said = output([sys.executable, "-c", program("python", broker)], tmp_path, PYTHONPATH=str(package))
    assert said == ["OK", "b'hello from Python'"]
    assert bodies(broker) == [b"hello from Python"]
