"""Goal: Prometheus and probes get true answers over HTTP, however the broker fares. Method: `orbitmq metrics --listen` as a
process, asked by one and by many, over the death and return of a broker and with a coordinator that hangs
(cli/metric_server.py, cli/broker_looks.py)."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.openmetrics import parser as openmetrics

from orbitmq.client.broker.broker import Broker
from tests.cli.commands import Background, environment, run
from tests.cli.conftest import MESSAGES
from tests.client.restarts import Restarts
from tests.client.test_metrics import Values, of, read
from tests.trees import stopped
from tests.waiting import WATCHDOG_S, until

SHOWN = re.compile(r"metrics at http://(?P<host>\S+):(?P<port>\d+)/metrics")
OPEN = "application/openmetrics-text; version=1.0.0"


class Address:
    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.port, self.host = port, host

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        link = http.client.HTTPConnection(self.host, self.port, timeout=WATCHDOG_S)
        try:
            link.request(method, path, headers=headers)
            answer = link.getresponse()
            return answer.status, answer.read().decode()
        finally:
            link.close()

    def scrape(self) -> Values:
        code, text = self.get("/metrics")
        assert code == 200, text
        return read(text)

    def probes(self) -> tuple[int, int]:
        return self.get("/health")[0], self.get("/ready")[0]


@contextmanager
def listening(*options: str, host: str = "127.0.0.1") -> Iterator[Address]:
    shown = f"[{host}]" if ":" in host else host
    with Background("metrics", "--listen", f"{shown}:0", *options) as command:
        assert command.process.stdout is not None
        line = command.process.stdout.readline().decode()
        found = SHOWN.search(line)
        if found is None:
            command.process.kill()
            raise AssertionError((line, command.process.communicate()))
        assert found["host"] == shown
        yield Address(int(found["port"]), host)
        command.interrupt()
        assert command.end() == (0, "", "")


def test_a_broker_that_runs(flows: Broker) -> None:
    with listening("--name", "flows") as address:
        values = address.scrape()
        assert of(values, "topic_messages_total", topic="flows") == MESSAGES
        assert of(values, "up") == of(values, "live") == of(values, "ready") == of(values, "health", state="ok") == 1
        assert address.get("/health") == address.get("/ready") == (200, "ok\n")
        code, text = address.get("/metrics", Accept=OPEN)
        assert code == 200 and text.endswith("# EOF\n")
        names = {family.name for family in openmetrics.text_string_to_metric_families(text)}
        assert names >= {"orbitmq_up", "orbitmq_topic_messages"}
        assert address.get("/")[0] == address.get("/metrics/more")[0] == 404
        assert address.get("/metrics", "POST")[0] == address.get("/health", "DELETE")[0] == 405
        assert address.get("/health", "HEAD") == (200, "")


def test_many_at_once(flows: Broker) -> None:
    """Goal: they get the same numbers as one alone, and a connection that says nothing holds up nobody."""
    with listening("--name", "flows") as address, ThreadPoolExecutor(12) as askers:
        silent = http.client.HTTPConnection("127.0.0.1", address.port, timeout=WATCHDOG_S)
        silent.connect()
        for values in askers.map(lambda _: address.scrape(), range(60)):
            assert of(values, "topic_messages_total", topic="flows") == MESSAGES and of(values, "up") == 1
            assert of(values, "connections") == 1 + 1  # the broker's own client, and one for all who ask
        silent.close()


def test_a_coordinator_that_hangs(flows: Broker) -> None:
    """Goal: everybody gets an answer, which says so; and it is over when it goes on."""
    with listening("--name", "flows") as address, ThreadPoolExecutor(8) as askers:
        assert of(address.scrape(), "live") == 1
        with stopped(flows, "coordinator"):
            for values in askers.map(lambda _: address.scrape(), range(8)):
                assert of(values, "up") == 1 and of(values, "health", state="degraded") == 1
                assert of(values, "live") == of(values, "ready") == 0
            code, said = address.get("/health")
            assert code == 503 and said.startswith("degraded\n") and "did not answer" in said
        until(lambda: of(address.scrape(), "live") == 1, "an answer of the coordinator")
        assert of(address.scrape(), "topic_messages_total", topic="flows") == MESSAGES


@pytest.mark.parametrize("by", ["name", "store"])
def test_a_broker_that_is_killed_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    with Restarts(tmp_path / "store") as broker:
        options = ("--name", broker.name) if by == "name" else ("--store", str(broker.store))
        with listening(*options) as address:
            assert of(address.scrape(), "up") == 0 and address.probes() == (503, 503)
            for life in (1, 2):
                broker.start()
                until(lambda: of(address.scrape(), "ready") == 1, "the broker")
                assert address.probes() == (200, 200)
                with broker.connect() as client, client.producer() as producer:
                    if life == 1:
                        client.create_topic("orders", 1)
                    producer.send("orders", b"x", durability="flushed")
                    until(lambda: of(address.scrape(), "topic_messages_total", topic="orders") == life, "the message")
                broker.kill()
                values = until(lambda: (seen if of(seen := address.scrape(), "up") == 0 else None), "the news")
                assert of(values, "health", state="stopped") == 1 and len(values) == 3 + 4
                assert address.probes() == (503, 503) and address.get("/ready")[1].startswith("stopped\n")


def test_an_address_of_ipv6(flows: Broker) -> None:
    with listening("--name", "flows", host="::1") as address:
        assert of(address.scrape(), "up") == 1


@pytest.mark.parametrize("wrong", ["", "nowhere", "::1:9464", "127.0.0.1:99999"])
def test_no_address(wrong: str) -> None:
    assert run("metrics", "--listen", wrong).returncode == 2


def test_not_both(tmp_path: Path) -> None:
    assert run("metrics", "--listen", "127.0.0.1:0", "--textfile", str(tmp_path / "f")).returncode == 2


def test_an_address_that_is_taken(flows: Broker) -> None:
    with listening("--name", "flows") as address:
        done = run("metrics", "--listen", f"127.0.0.1:{address.port}")
        assert done.returncode == 1 and "could not listen" in done.stderr and "Address already in use" in done.stderr


def test_without_the_library(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['prometheus_client'] = None; from orbitmq.cli.__main__ import main; main()"
    for options in (("--listen", "127.0.0.1:0"), ("--textfile", str(tmp_path / "f")), ()):
        command = [sys.executable, "-c", hidden, "metrics", *options]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
        assert done.returncode == 1 and "Traceback" not in done.stderr and "pip install 'orbitmq[metrics]'" in done.stderr
