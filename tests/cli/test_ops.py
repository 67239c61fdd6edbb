"""Goal: the alerts and the dashboard of ops/ work with what a broker really tells. Method: every name and label in them is
looked up in the metrics of a broker (client/admin/metrics.py); promtool judges the rules and runs their own tests; panels do
not overlap."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.admin.metrics import Metric, look
from tests.client.test_metrics import ENDINGS
from tests.tools import tool
from tests.trees import small_broker
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
PROMETHEUS, GRAFANA = ROOT / "ops" / "prometheus", ROOT / "ops" / "grafana"
RULES = PROMETHEUS / "orbitmq-alerts.yml"
DASHBOARD = GRAFANA / "dashboards" / "orbitmq.json"
# A name of a metric, and what stands in braces behind it. Names of alerts and of files have other forms.
USED = re.compile(r"\b(orbitmq_[a-z_]+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'([a-z_]+)(=~?)"([^"]*)"')
OF_PROMETHEUS = {"instance", "job"}  # labels that it adds


def parts(panels: list[dict[str, Any]]) -> list[str]:
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def expressions() -> list[str]:
    """Of the rules, whose comments and texts name none; of the dashboard."""
    dashboard = json.loads(DASHBOARD.read_text())
    asked = [each["definition"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    return [RULES.read_text(), (PROMETHEUS / "orbitmq-alerts-test.yml").read_text(), *asked, *parts(dashboard["panels"])]


def real(tmp_path: Path) -> list[Metric]:
    """Of a broker with a topic, a group that reads, and everything else."""
    with small_broker(tmp_path) as broker, broker.producer() as producer:
        broker.create_topic("orders", 1)
        producer.send("orders", b"x", durability="flushed")
        with broker.consumer("g", ["orders"], start="earliest") as consumer:
            assert consumer.poll_batch(1)
            return until(lambda: told if named(told := look(broker)[1], "orbitmq_group_lag_messages") else None)


def named(metrics: list[Metric], name: str) -> Metric | None:
    """With a sample."""
    return next((each for each in metrics if each.name == name and each.samples), None)


def test_every_name_and_label_is_told(tmp_path: Path) -> None:
    metrics, used = real(tmp_path), 0
    for expression in expressions():
        for name, braces in USED.findall(expression):
            ending = next((ending for ending in ENDINGS["histogram"] if name.endswith(ending)), "")
            metric = named(metrics, name.removesuffix(ending))
            assert bool(ending) == (metric is not None and metric.kind == "histogram"), name
            assert metric is not None, name
            used += 1
            for label, how, value in MATCHER.findall(braces):
                if label in OF_PROMETHEUS:
                    continue
                values = {dict(sample.labels).get(label) for sample in metric.samples}
                assert None not in values, f"{name} has no label {label}"
                assert how == "=" and (label in ("group", "topic") or value in values), f"{name}: no {label} is {value}"
    assert used > 60


def test_the_dashboard_is_whole() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) and len({panel["title"] for panel in panels}) > 15
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"], (one, other)
    variables = {each["name"] for each in dashboard["templating"]["list"]}
    for panel in panels:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        assert panel["type"] == "row" or (panel["targets"] and panel["datasource"]["uid"] == "${datasource}"), panel["title"]
    for expression in parts(panels):
        assert 'instance=~"$instance"' in expression
        assert set(re.findall(r"\$([a-z]+)", expression)) <= variables, expression


def test_each_alert_says_what_and_what_to_do() -> None:
    alerts = RULES.read_text().split("- alert: ")[1:]
    names = [alert.split("\n")[0] for alert in alerts]
    assert len(set(names)) == len(names) > 10 and all(name.startswith("Orbitmq") for name in names)
    page = (ROOT / "docs" / "monitoring.md").read_text()
    for alert in alerts:
        for part in ("expr: ", "labels: {severity: ", "summary: ", "description: "):
            assert part in alert, alert
    assert {name for name in names if name not in page} == set()


@pytest.mark.parametrize(
    "question",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "orbitmq-alerts.yml"),
        ("test", "rules", "orbitmq-alerts-test.yml"),
    ],
)
def test_prometheus_takes_them(question: tuple[str, ...]) -> None:
    promtool = tool("promtool", package="prometheus")
    done = subprocess.run([promtool, *question], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
