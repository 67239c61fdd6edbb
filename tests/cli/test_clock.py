"""Goal: an operator whose machine's clock has jumped is told so, nothing is removed until the operator confirms the clock, and
then it is. Method: a whole tree whose processes have a clock that the test controls (clock_shim.c), and the commands as a user
runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from tests.waiting import until

HOUR_MS = 3_600_000
FILE = 1 << 20
SHIM = Path(__file__).with_name("clock_shim.c")


class Machine:
    """A store, and a broker of its own whose clock can be set. shim: the folder with the library and the file of the clock."""

    def __init__(self, folder: Path, shim: Path) -> None:
        self.store, self.runtime, self.clock = folder / "store", folder / "run", shim / "clock"
        self.runtime.mkdir(mode=0o700)
        self.shim = shim / "shim.so"
        self.set_ahead(0)

    def set_ahead(self, ms: int) -> None:
        descriptor = os.open(self.clock, os.O_WRONLY)
        os.pwrite(descriptor, ms.to_bytes(8, sys.byteorder, signed=True), 0)
        os.close(descriptor)

    def run(self, *arguments: str, code: int = 0) -> str:
        environment = {
            **os.environ,
            "ORBITMQ_RUNTIME_DIR": str(self.runtime),
            "COLUMNS": "200",
            "NO_COLOR": "1",
            "LD_PRELOAD": str(self.shim),
            "ORBITMQ_TEST_CLOCK": str(self.clock),
        }
        command = [sys.executable, "-m", "orbitmq.cli.main", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == code and "Traceback" not in done.stderr, (arguments, done)
        return done.stdout

    def up(self) -> None:
        self.run("up", "--store", str(self.store), "--detach", "--log-file-size", "1M", "--retention-hours", "10")

    def log_files(self) -> list[int]:
        return sorted(int(path.name) // FILE for path in (self.store / "commitlog").iterdir())

    def ahead_ms(self) -> int:
        with orbitmq.connect() as client:
            return client.status().clock_ahead_ms


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clock")
    command = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", str(SHIM)]
    subprocess.run([*command, "-o", str(folder / "shim.so"), "-ldl"], check=True)
    (folder / "clock").write_bytes(bytes(4096))
    return folder


@pytest.fixture
def machine(tmp_path: Path, shim: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made = Machine(tmp_path, shim)
    monkeypatch.setenv("ORBITMQ_RUNTIME_DIR", str(made.runtime))
    made.up()
    yield made
    made.run("down")


def test_a_clock_that_jumps(machine: Machine) -> None:
    with orbitmq.connect() as client, client.producer() as producer:
        client.create_topic("t", 1)
        producer.send_batch("t", [bytes(4000)] * 1000)
    until((machine.store / "orbitmq" / "clock").exists, "the broker to note where the clock stands")
    assert "messages expire by the machine's clock" in machine.run("clock")
    held = machine.log_files()
    assert held[0] == 0 and len(held) >= 4

    machine.set_ahead(72 * HOUR_MS)
    until(machine.ahead_ms, "the broker to see the jump")
    assert 71.9 * HOUR_MS < json.loads(machine.run("clock", "--json"))["ahead_ms"] < 72.1 * HOUR_MS
    said = machine.run("clock")
    assert "ahead of the time that has passed: nothing is removed by age" in said and "orbitmq clock --believe" in said
    status = machine.run("status", code=4)
    assert "degraded: the clock has jumped ahead, nothing expires by age" in status, status
    assert "ahead of the time that has passed, nothing expires by age (orbitmq clock)" in status, status
    assert json.loads(machine.run("status", "--json", code=4))["clock_ahead_ms"] > 0

    # Also for a broker that is started under that clock.
    machine.run("down")
    machine.up()
    until(machine.ahead_ms, "the next broker to see the jump")
    assert machine.log_files()[:4] == held[:4]

    said = machine.run("clock", "--believe")
    assert "the clock is believed, within seconds: messages expire by it" in said
    until(lambda: machine.ahead_ms() == 0 and machine.log_files()[0] > 0, "messages to expire")
    assert "ahead" not in machine.run("status") and "messages expire by the machine's clock" in machine.run("clock")


def test_a_clock_that_comes_back(machine: Machine) -> None:
    until((machine.store / "orbitmq" / "clock").exists, "the broker to note where the clock stands")
    machine.set_ahead(72 * HOUR_MS)
    until(machine.ahead_ms, "the broker to see the jump")
    machine.set_ahead(0)
    until(lambda: machine.ahead_ms() == 0, "the broker to believe the clock again")
    assert "ahead" not in machine.run("status")
