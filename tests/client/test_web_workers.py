"""Goal: the web service of docs/web-frameworks.md stores what it says it has stored, also when its workers are killed. Method:
real servers with two worker processes run docs/examples/web_orders.py; workers are killed with -9 between requests."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import orbitmq
from tests.trees import everything
from tests.waiting import dead, until

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "docs" / "examples"
SERVERS = {
    "uvicorn": ["uvicorn", "web_orders:app", "--workers", "2", "--fd", "{fd}", "--timeout-worker-healthcheck", "20"],
    "gunicorn": ["gunicorn", "web_orders:app", "--workers", "2", "--worker-class", "asgi", "--bind", "fd://{fd}"],
}


@pytest.fixture(scope="module")
def orders(work_broker: orbitmq.Broker) -> orbitmq.Broker:
    work_broker.create_topic("orders", 2)
    return work_broker


@pytest.fixture(params=sorted(SERVERS))
def port(request: pytest.FixtureRequest, orders: orbitmq.Broker, tmp_path: Path) -> Iterator[int]:
    """Of a server that runs, in a session of processes of its own. It inherits the socket, so that nobody takes the port."""
    environment = {**os.environ, "ORBITMQ_BROKER": orders.name}
    with (tmp_path / "log").open("wb") as log, socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
        server = subprocess.Popen(
            [sys.executable, "-m", *(word.format(fd=listener.fileno()) for word in SERVERS[request.param])],
            cwd=EXAMPLES, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            pass_fds=[listener.fileno()],
        )  # fmt: skip
    try:
        yield port
    finally:
        server.terminate()
        try:
            server.wait(60)
        finally:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()
            print((tmp_path / "log").read_text())


def ask(port: int, body: bytes) -> dict[str, int] | None:
    """What the service says of an order; None if it does not answer, or could not store it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", "/orders", body)
        answer = connection.getresponse()
        said: dict[str, int] = json.loads(answer.read())
        return said if answer.status == 201 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def test_workers_are_killed(port: int, orders: orbitmq.Broker) -> None:
    """Every order that was answered is stored at the place that the answer names. The third worker that is killed began after
    the death of another, since there are two at a time."""
    answered: dict[bytes, dict[str, int]] = {}

    def placed() -> int:
        body = os.urandom(16)
        answered[body] = until(lambda: ask(port, body), "an answer")
        return answered[body]["worker"]

    killed = set()
    for _ in range(3):
        for _ in range(10):
            placed()
        victim = placed()
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        until(lambda: dead(victim), "the end of the worker")
        killed.add(victim)
    assert len(killed) == 3 and placed() not in killed
    stored = {(queue, offset): body for body, queue, offset, _ in everything(orders, "orders")}
    for body, said in answered.items():
        assert stored[said["queue"], said["offset"]] == body
