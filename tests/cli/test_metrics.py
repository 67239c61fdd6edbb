"""Goal: probes and Prometheus get their answers from a broker that runs and from one that
is gone. Method: the commands (cli/metrics.py, cli/health.py) on a broker of the test's."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from orbitmq.client.admin.health import Health
from orbitmq.client.broker.broker import Broker
from tests.cli.commands import run
from tests.cli.conftest import MESSAGES
from tests.client.test_metrics import of, read
from tests.trees import actors

NAME = ("--name", "flows")


def test_a_broker_that_runs(flows: Broker, tmp_path: Path) -> None:
    assert flows.health() == Health("ok")
    for question in ((), ("--ready",), ("--live",)):
        done = run("health", *question, *NAME)
        assert (done.returncode, done.stdout) == (0, "ok\n")
    content = json.loads(run("health", "--json", *NAME).stdout)
    assert content == {"well": True, "state": "ok", "reasons": [], "ready": True, "live": True}
    printed = run("metrics", *NAME)
    assert printed.returncode == 0 and of(read(printed.stdout), "topic_messages_total", topic="flows") == MESSAGES
    file = tmp_path / "orbitmq.prom"
    file.write_text("old")
    done = run("metrics", "--textfile", str(file), *NAME)
    assert (done.returncode, done.stdout) == (0, "") and of(read(file.read_text()), "health", state="ok") == 1
    assert [each.name for each in tmp_path.glob("orbitmq.prom*")] == [file.name]


def test_a_coordinator_that_hangs(flows: Broker) -> None:
    """Goal: the answer has its form then, too."""
    pid = actors(flows)["coordinator"].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        done = run("health", "--json", *NAME)
    finally:
        os.kill(pid, signal.SIGCONT)
    content = json.loads(done.stdout)
    assert done.returncode == 1 and content["state"] == "degraded" and "did not answer" in content["reasons"][0]
    assert not content["well"] and not content["ready"] and not content["live"]


def test_no_broker(flows: Broker, tmp_path: Path) -> None:
    file = tmp_path / "orbitmq.prom"
    flows.close()
    for question in ((), ("--ready",), ("--live",)):
        done = run("health", *question, *NAME)
        assert done.returncode == 1 and done.stdout.startswith("stopped\n") and len(done.stdout.splitlines()) == 2
    content = json.loads(run("health", "--json", *NAME).stdout)
    assert not content["well"] and not content["ready"] and not content["live"] and content["state"] == "stopped"
    done = run("metrics", "--textfile", str(file), *NAME)
    assert done.returncode == 3 and of(read(file.read_text()), "health", state="stopped") == 1


@pytest.mark.parametrize("wrong", [("--ready", "--live"), ("--redy",), ("more",)])
def test_not_understood(wrong: tuple[str, ...]) -> None:
    assert run("health", *wrong).returncode == 2


def test_a_file_that_cannot_be_written(flows: Broker, tmp_path: Path) -> None:
    done = run("metrics", "--textfile", str(tmp_path / "absent" / "orbitmq.prom"), *NAME)
    assert done.returncode == 1 and "absent" in done.stderr
