"""Goal: the supervisor has imported what its actors need, and nothing that this tree does not need. Method: a broker that runs
from a copy of the program, which is then removed; and what Python says that it imports from a start to the end of the stop. Of
actors/supervisor/spec.py."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.broker.launch import start_tree
from tests.trees import SMALL, actors, kill, small_broker
from tests.waiting import WATCHDOG_S, until
from tests.warm import COLD

ROOT = Path(__file__).resolve().parents[2]
CERTIFICATE = ROOT / "tests" / "actors" / "certificates" / "first.pem"
KEY = CERTIFICATE.with_suffix(".key")
# What was once imported in each start, and is not needed there.
NOT_NEEDED = {
    "asyncio", "bz2", "decimal", "fractions", "hashlib", "hmac", "lzma", "multiprocessing", "platform",
    "secrets", "shutil", "ssl", "subprocess", "tempfile", "tomlkit", "tomllib", "uuid",
    "orbitmq.actors.gateway", "orbitmq.client", "orbitmq.remoting",
}  # fmt: skip


@pytest.mark.parametrize("gateways", [0, 2])
def test_actors_restart_without_the_files_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gateways: int
) -> None:
    program = tmp_path / "program"
    shutil.copytree(ROOT / "orbitmq", program / "orbitmq", ignore=shutil.ignore_patterns("__pycache__", "spark", "cli", "*.c"))
    monkeypatch.chdir(program)  # where Python looks first
    monkeypatch.setenv("PYTHONPATH", str(program))
    monkeypatch.setenv(COLD, "1")
    settings: dict[str, Any] = {}
    if gateways:
        settings = {"listen": "127.0.0.1:0", "gateways": gateways, "tls_cert": str(CERTIFICATE), "tls_key": str(KEY)}
    with small_broker(tmp_path / "store", **settings) as broker:
        assert str(program) in Path(f"/proc/{broker.pid}/maps").read_text()
        monkeypatch.chdir(ROOT)
        shutil.rmtree(program)
        names = actors(broker).keys() - {"supervisor"}
        assert len([name for name in names if name.startswith("gateway")]) == gateways
        for name in sorted(names):
            before = kill(broker, name).epoch
            until(lambda: actors(broker)[name].epoch > before and actors(broker)[name].state == "running", f"a new {name}")
        broker.create_topic("orders", 1)
        with broker.producer() as producer, broker.consumer("readers", topics=["orders"]) as consumer:
            producer.send("orders", b"one")
            assert [bytes(each) for each in consumer.poll_batch(1, timeout=WATCHDOG_S)] == [b"one"]


@pytest.mark.parametrize(
    ("settings", "needed", "not_needed"),
    [
        ({}, {"orbitmq.actors.coordinator.coordinator", "msgpack"}, NOT_NEEDED),
        (
            {"listen": "127.0.0.1:0"},
            {"orbitmq.actors.gateway.gateway", "orbitmq.actors.gateway.front"},
            {"ssl", "orbitmq.actors.gateway.certificate"},
        ),
    ],
    ids=["plain", "gateway"],
)
def test_nothing_is_imported_that_the_tree_does_not_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], needed: set[str], not_needed: set[str]
) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    monkeypatch.setenv(COLD, "1")
    options = {**SMALL, **settings, "name": f"imports-{os.getpid()}"}
    said = tmp_path / "said"
    with said.open("wb") as errors:
        process = start_tree(str(tmp_path / "store"), options, errors_to=errors).process
    process.terminate()
    assert process.wait(WATCHDOG_S) == 0
    lines = [line for line in said.read_text().splitlines() if line.startswith("import time:")]
    imported = {line.rpartition("|")[2].strip() for line in lines}
    assert needed < imported
    assert not sorted(imported & not_needed)
