"""Goal: what ops/ gives to Prometheus and Grafana works in a real Prometheus: it scrapes a broker, takes the rules, answers
each question of the dashboard with numbers, and notices that the broker is gone. Method: its own program on the configuration
of ops/, at shorter intervals; Grafana asks it nothing but the dashboard's questions."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.cli.test_metric_server import Address, listening
from tests.cli.test_ops import DASHBOARD, PROMETHEUS, RULES, parts
from tests.client.restarts import Restarts
from tests.tools import tool
from tests.waiting import until

LISTENS = re.compile(r'msg="Listening on" address=127\.0\.0\.1:(\d+)')
# What Grafana puts in for its variables: every broker, and an interval of several scrapes.
VARIABLES = {"$instance": ".*", "$__rate_interval": "10s"}
NEEDS_TROUBLE = "> 0"  # shown only while there is some


class Server:
    """A Prometheus that runs."""

    def __init__(self, port: int) -> None:
        self._address = Address(port)

    def ask(self, path: str, **parameters: str) -> Any:
        code, text = self._address.get(f"/api/v1/{path}?{urlencode(parameters)}")
        answer = json.loads(text)
        assert code == 200 and answer["status"] == "success", (path, parameters, answer)
        return answer["data"]

    def values(self, expression: str) -> list[Any]:
        found: list[Any] = self.ask("query", query=expression)["result"]
        return found

    def alerts(self) -> dict[str, dict[str, Any]]:
        return {rule["name"]: rule for group in self.ask("rules", type="alert")["groups"] for rule in group["rules"]}


@contextmanager
def prometheus(folder: Path, metrics: Address) -> Iterator[Server]:
    program = tool("prometheus", package="prometheus")
    folder.mkdir()
    shutil.copy(RULES, folder)
    configured = (PROMETHEUS / "prometheus.yml").read_text()
    for ours, here in (("127.0.0.1:9464", f"127.0.0.1:{metrics.port}"), (": 15s", ": 1s")):
        assert ours in configured
        configured = configured.replace(ours, here)
    (folder / "prometheus.yml").write_text(configured)
    said = folder / "said"
    options = {"config.file": "prometheus.yml", "storage.tsdb.path": "data", "web.listen-address": "127.0.0.1:0"}
    command = [program, *(f"--{name}={value}" for name, value in options.items())]
    with said.open("w") as output, subprocess.Popen(command, cwd=folder, stdout=output, stderr=output) as process:
        try:
            found = until(lambda: LISTENS.search(said.read_text()) or process.poll() is not None, "Prometheus to listen")
            assert process.poll() is None, said.read_text()
            yield Server(int(found[1]))
        finally:
            process.terminate()


def asked() -> list[str]:
    """The dashboard's questions."""
    questions = parts(json.loads(DASHBOARD.read_text())["panels"])
    for name, value in VARIABLES.items():
        questions = [question.replace(name, value) for question in questions]
    return questions


@pytest.mark.timeout(600)
def test_what_it_sees_of_a_broker(tmp_path: Path) -> None:
    with (
        Restarts(tmp_path / "store") as tree,
        listening("--name", tree.name) as metrics,
        prometheus(tmp_path / "prometheus", metrics) as server,
    ):
        tree.start()
        with tree.connect() as client:
            client.create_topic("orders", 1)
            with client.producer() as producer, client.consumer("g", ["orders"], start="earliest") as consumer:
                producer.send("orders", b"x", durability="flushed", delay_level=1)
                for question in asked():

                    def answered(question: str = question) -> bool:
                        producer.send("orders", b"x", durability="flushed")
                        consumer.poll_batch(1)
                        return NEEDS_TROUBLE in question or bool(server.values(question))

                    until(answered, question)
                until(lambda: all(rule["health"] == "ok" for rule in server.alerts().values()), "every rule to be evaluated")
                assert len(server.alerts()) > 10
                firing = {name for name, rule in server.alerts().items() if rule["state"] == "firing"}
                assert not firing
        tree.stop()
        until(lambda: server.alerts()["OrbitmqDown"]["state"] == "pending", "the alert")
