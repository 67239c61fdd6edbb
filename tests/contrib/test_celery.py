"""Goal: Celery with OrbitMQ as its broker keeps its tasks, whoever is killed, and has what its users know: results, times,
retries, remote control. Method: a real worker (solo pool) of the application in docs/examples/celery_shop.py. It is killed
with -9 in the middle of a task, and so are processes of the broker; at the end it is told to stop."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from tests.trees import kill
from tests.waiting import WATCHDOG_S, dead, until

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"


class Worker:
    """Processes of a worker, one after the other. A folder has what they print, and the ledger of their tasks."""

    def __init__(self, folder: Path, url: str) -> None:
        self._ledger = folder / "ledger"
        self._log = folder / "log"
        path = os.pathsep.join([str(EXAMPLES), str(ROOT)])
        self._environment = {**os.environ, "SHOP_BROKER": url, "SHOP_LEDGER": str(self._ledger), "PYTHONPATH": path}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "celery", "--app", "tests.contrib.celery_tasks", "worker", "--pool", "solo"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command, env=self._environment, cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def lines(self, kind: str) -> list[list[str]]:
        text = self._ledger.read_text() if self._ledger.exists() else ""
        return [line.split()[1:] for line in text.splitlines() if line.split()[0] == kind]

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        print(self._log.read_text() if self._log.exists() else "")


@pytest.fixture
def worker(broker: orbitmq.Broker, tmp_path: Path) -> Iterator[Worker]:
    made = Worker(tmp_path, f"orbitmq://{broker.name}")
    yield made
    made.end()


@pytest.fixture
def tasks(broker: orbitmq.Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The application as a program that sends tasks has it."""
    monkeypatch.setenv("SHOP_BROKER", f"orbitmq://{broker.name}")
    monkeypatch.syspath_prepend(EXAMPLES)
    module = importlib.import_module("tests.contrib.celery_tasks")
    yield module
    module.app.close()
    for name in ("tests.contrib.celery_tasks", "celery_shop"):
        sys.modules.pop(name, None)


def test_a_worker_and_its_broker_are_killed(worker: Worker, tasks: Any, broker: orbitmq.Broker) -> None:
    """Every task is done. Only one that a worker was killed with is begun again."""
    for number in range(10):
        tasks.note.delay(number)
    tasks.hold.delay("first")
    for number in range(10, 20):
        tasks.note.delay(number)
    worker.start()
    ((_, pid),) = until(lambda: worker.lines("begun"), "the task that does not end")
    worker.kill()
    assert dead(int(pid))
    kill(broker, "dispatcher")
    worker.start()
    until(lambda: len(worker.lines("note")) >= 20 and worker.lines("held"), "all tasks")
    kill(broker, "writer")
    assert tasks.charge.delay(7).get(timeout=WATCHDOG_S) == "order 7 is paid"  # also says that the worker goes on
    assert sorted(int(word) for (word,) in worker.lines("note")) == list(range(20))
    assert len(worker.lines("begun")) == 2 and worker.lines("held") == [["first"]]

    # what its users know
    begun = time.time()
    tasks.note.apply_async(("later",), countdown=0.5)
    until(lambda: ["later"] in worker.lines("note"), "the task with a time")
    assert time.time() >= begun + 0.5
    assert tasks.flaky.delay().get(timeout=WATCHDOG_S) == 2
    (answer,) = tasks.app.control.inspect(timeout=WATCHDOG_S, limit=1).active_queues().values()
    assert [queue["name"] for queue in answer] == ["celery"]

    # a stop gives back what was not begun
    assert worker.process is not None
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(WATCHDOG_S) == 0
    tasks.note.delay("waits")
    assert tasks.app.control.purge() == 1
