"""Goal: a service manager such as systemd knows when the broker runs, that it is alive, and when it stops
(cli/service_manager.py), and the units of ops/systemd are such that systemd accepts them.

Method: a socket that plays the manager, and the command `orbitmq up`; for what hangs, a process that ends when it is told."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.cli.service_manager import ServiceManager
from tests.cli.commands import SMALL, Background
from tests.waiting import WATCHDOG_S

UNITS = Path(__file__).parents[2] / "ops" / "systemd"
PERIOD_US = 300_000


class Manager:
    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(WATCHDOG_S)
        self.environment = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": str(PERIOD_US)}

    def hear(self) -> list[str]:
        return self.socket.recv(4096).decode().split("\n")

    def until(self, line: str) -> list[list[str]]:
        """What it hears up to this line."""
        heard = [self.hear()]
        while line not in heard[-1]:
            heard.append(self.hear())
        return heard


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(tmp_path / "notify")
    yield made
    made.socket.close()


def test_a_broker_from_start_to_stop(manager: Manager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in manager.environment.items():
        monkeypatch.setenv(name, value)
    with Background("up", "--store", str(tmp_path / "store"), "--name", f"told-{os.getpid()}", *SMALL) as command:
        before = manager.until("READY=1")
        assert not any("WATCHDOG=1" in each for each in before)
        assert "store" in before[-1][1]
        for _ in range(3):
            assert manager.hear() == ["WATCHDOG=1"]
        while select.select([manager.socket], [], [], 0)[0]:  # a socket that is full takes no more
            manager.hear()
        command.process.send_signal(signal.SIGTERM)
        manager.until("STOPPING=1")
        assert command.end()[0] == 0


def test_nothing_alive_is_said_while_something_hangs(manager: Manager) -> None:
    """Goal: the manager's own watchdog then ends the broker and starts it again."""
    looks = iter([(), ("writer",), ("writer",), ()])
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:

        def hanging() -> tuple[str, ...]:
            names = next(looks, None)
            if names is None:
                assert process.stdin is not None
                process.stdin.close()
            return names or ()

        assert ServiceManager(manager.environment).attend(process, hanging) == 0
    heard = [manager.hear() for _ in range(4)]
    silent = ["STATUS=writer has shown no sign of life for too long"]
    assert heard == [["WATCHDOG=1"], silent, silent, ["WATCHDOG=1"]]


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": "/nowhere/notify"}, {"WATCHDOG_USEC": "1000"}])
def test_a_manager_that_does_not_listen(environment: dict[str, str]) -> None:
    manager = ServiceManager(environment)
    manager.starting("recovering")
    manager.running("runs")
    manager.stopping()
    with subprocess.Popen(["true"]) as process:
        assert manager.attend(process, lambda: ()) == 0


def test_a_sign_that_another_process_owes(manager: Manager) -> None:
    told = ServiceManager(manager.environment | {"WATCHDOG_PID": "1"})
    with subprocess.Popen(["true"]) as process:
        assert told.attend(process, lambda: ()) == 0
    told.stopping()
    assert manager.hear() == ["STOPPING=1", "STATUS=stopping"]


def test_an_abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        name = f"orbitmq-notify-{os.getpid()}"
        listener.bind(f"\0{name}")
        listener.settimeout(WATCHDOG_S)
        ServiceManager({"NOTIFY_SOCKET": f"@{name}"}).running("it runs")
        assert listener.recv(100) == b"READY=1\nSTATUS=it runs"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not there to read the unit")
@pytest.mark.parametrize("name", ["orbitmq.service", "orbitmq-metrics.service"])
def test_the_unit(tmp_path: Path, name: str) -> None:
    """Method: with a command that exists, because systemd looks for it."""
    unit = tmp_path / name
    unit.write_text((UNITS / name).read_text().replace("/opt/orbitmq/bin/orbitmq", shutil.which("true") or ""))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
