"""Goal: what a broker counts is told to Prometheus under stable names, and in its text format. Method: statuses made by hand,
whose text Prometheus' own parser reads back; a broker under load of which a process is killed (client/admin/metrics.py,
cli/metric_text.py)."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from orbitmq.cli.metric_text import text_of
from orbitmq.client.admin.health import Health
from orbitmq.client.admin.metrics import SPREADS, Metric, Sample, look, metrics_of, metrics_of_health
from orbitmq.client.admin.status import GroupQueueStatus, Status
from orbitmq.native._core import lib
from orbitmq.shm.counters import Histogram
from tests.cli.made_status import actor, group, positions, session, status, topic
from tests.trees import actors, kill, small_broker
from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent.parent
NAME = re.compile(r"orbitmq_[a-z][a-z0-9_]*")
ENDINGS = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(text: str) -> Values:
    """Prometheus' own reader, and its rules for names: each once, with help and type; no sample twice. Names differ
    also without `_total`, which OpenMetrics takes off."""
    values: Values = {}
    families = list(text_string_to_metric_families(text))
    names = [family.name for family in families]
    assert len(names) == len(set(names)), sorted(names)
    for family in families:
        assert NAME.fullmatch(family.name) and family.documentation.endswith("."), family
        for sample in family.samples:
            assert sample.name in {family.name + ending for ending in ENDINGS[family.type]}, sample
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in values, key
            values[key] = sample.value
    return values


def of(values: Values, name: str, **labels: str) -> float:
    return values[f"orbitmq_{name}", frozenset(labels.items())]


def busy() -> Status:
    """Something under every name."""
    counters = {"messages": 7, "rejected": 2, "duplicates": 1, "ids": 5, "sessions": 3, "syncs": 4}
    return status(
        positions=positions(wrote=9000, flushed=8000, flushed_error=5),
        actors=(
            actor("writer", counters=counters, epoch=3, quantiles={0.5: 4, 1.0: 9}, refused={"store_full": 2}),
            actor("flush", counters=counters, heartbeat_age_ms=1500, state="failed", quantiles={0.99: 2500}),
        ),
        topics=(topic("orders", (2, 5), (0, 4)), topic("empty", (0, 0))),
        groups=(
            group("g", GroupQueueStatus("orders", 0, 3, 2, 1), GroupQueueStatus("orders", 1, 1, 3, 0)),
            replace(group("h"), paused=True, dead_letters=6),
        ),
        sessions=(session(4), session(0), session(0)),
        open_transactions=2,
        oldest_transaction_ms=1500,
    )


def test_what_is_told() -> None:
    values = read(text_of(metrics_of(busy(), 11, {})).decode())
    assert of(values, "messages_appended_total") == 7 and of(values, "messages_rejected_total") == 2
    assert of(values, "messages_refused_total", reason="store_full") == 2
    assert of(values, "messages_refused_total", reason="fenced") == 0, "it is there before it happens"
    assert of(values, "messages_duplicate_total") == 1 and of(values, "ids_remembered") == 5
    assert of(values, "actor_syncs_total", actor="flush") == 4 and of(values, "actor_sessions", actor="writer") == 3
    assert of(values, "actor_restarts_total", actor="writer") == 2 and of(values, "actor_restarts_total", actor="flush") == 0
    assert of(values, "actor_running", actor="writer") == 1 and of(values, "actor_running", actor="flush") == 0
    assert of(values, "actor_heartbeat_age_seconds", actor="flush") == 1.5
    assert of(values, "log_position_bytes", position="wrote") == 9000 and of(values, "log_unflushed_bytes") == 1000
    assert of(values, "log_position_errno", position="flushed") == 5 and of(values, "health", state="refusing") == 1
    assert of(values, "topic_messages_total", topic="orders") == 9
    assert of(values, "topic_readable_messages", topic="orders") == 7
    assert of(values, "topic_queues", topic="orders") == 2 and of(values, "topic_readable_messages", topic="empty") == 0
    assert of(values, "group_lag_messages", group="g", topic="orders") == 5
    assert of(values, "group_removed_messages", group="g", topic="orders") == 1
    assert of(values, "group_paused", group="h") == 1 and of(values, "group_dead_letters", group="h") == 6
    assert of(values, "sessions", kind="producer") == 1 and of(values, "sessions", kind="consumer") == 2
    assert of(values, "connections") == 11 and of(values, "transactions_open") == 2
    assert of(values, "transaction_oldest_timestamp_seconds") == 1.5


def recorded(*values: int) -> Histogram:
    counts = [0] * lib.HISTOGRAM_BUCKETS
    for value in values:
        counts[lib.histogram_index(value)] += 1
    return Histogram(tuple(counts))


def test_histograms() -> None:
    """Goal: a time that was cut to microseconds lies below its bucket's end, and a number of messages may be it."""
    spread = {"flush": recorded(0, 15, 16, 5_000, 40_000_000), "writer": recorded(1, 1, 3, 4), "scheduler": recorded()}
    values = read(text_of(metrics_of(busy(), 0, spread)).decode())
    ends = {"1.6e-05": 2, "3.2e-05": 3, "0.004096": 3, "0.008192": 4, "16.777216": 4, "+Inf": 5}
    for end, count in ends.items():
        assert of(values, "sync_duration_seconds_bucket", le=end) == count, end
    assert of(values, "sync_duration_seconds_count") == 5
    assert of(values, "sync_duration_seconds_sum") == pytest.approx(40.005031, rel=0.0625)
    for end, count in {"1.0": 2, "3.0": 3, "7.0": 4, "8191.0": 4, "+Inf": 4}.items():
        assert of(values, "write_group_messages_bucket", le=end) == count, end
    assert of(values, "write_group_messages_sum") == 9 and of(values, "delay_lateness_seconds_count") == 0




def test_one_state_at_a_time() -> None:
    stopped = metrics_of_health(Health("stopped", running=False))
    for found, state in ((metrics_of(status(), 0, {}), "ok"), (metrics_of(busy(), 0, {}), "refusing"), (stopped, "stopped")):
        states = {labels: value for (name, labels), value in read(text_of(found).decode()).items() if name == "orbitmq_health"}
        assert {dict(labels)["state"] for labels, value in states.items() if value} == {state} and len(states) == 4


def test_any_label_can_be_read_back() -> None:
    odd = 'a"b\\c\nd,e}= f'
    written = text_of([Metric("orbitmq_x", "gauge", "Help.", (Sample(1, (("topic", odd),)),))]).decode()
    ((_, labels),) = read(written)
    assert dict(labels)["topic"] == odd


@pytest.mark.parametrize(
    ("health", "expected"),
    [
        (Health("ok"), (1, 1, 1)),
        (Health("refusing", ("full",)), (1, 1, 0)),
        (Health("degraded", ("hangs",), silent=("coordinator",)), (1, 0, 0)),
        (Health("stopped", running=False), (0, 0, 0)),
    ],
)
def test_whether_it_runs_lives_and_is_ready(health: Health, expected: tuple[int, int, int]) -> None:
    values = read(text_of(metrics_of_health(health)).decode())
    assert tuple(of(values, name) for name in ("up", "live", "ready")) == expected


def test_the_page_lists_every_metric() -> None:
    """And none that does not exist. Counters of actors are listed by their scheme."""
    page = (ROOT / "docs" / "monitoring.md").read_text()
    named = {name.removesuffix("_bucket") for name in NAME.findall(page)}
    spread = {each.actor: recorded() for each in SPREADS}
    made = {metric.name for metric in metrics_of(busy(), 0, spread)}
    assert made - named == {name for name in made if name.startswith("orbitmq_actor_")} - named
    assert not named - made - {"orbitmq_actor_"}, named - made


def test_under_load_and_over_a_death(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker, broker.producer() as producer:
        broker.create_topic("orders", 2)

        def told() -> Values:
            return read(text_of(look(broker)[1]).decode())

        def told_of(count: int) -> Values | None:
            """The writer counts after its verdicts, and what it has not counted when it is killed nobody does."""
            seen = told()
            reached = of(seen, "topic_messages_total", topic="orders"), of(seen, "messages_appended_total")
            return seen if reached == (count, count) else None

        producer.send_batch("orders", [b"x"] * 500)
        before = until(lambda: told_of(500), "500 messages")
        assert of(before, "connections") >= 1
        assert of(before, "sessions", kind="producer") == 1 and of(before, "actor_restarts_total", actor="writer") == 0
        with broker.consumer("g", ["orders"], start="earliest") as consumer:
            assert consumer.poll_batch(10, 20)
            consumer.commit()
            begun = told()
            assert 0 < of(begun, "group_lag_messages", group="g", topic="orders") < 500
            assert of(begun, "group_members", group="g") == 1
        kill(broker, "writer")
        until(lambda: actors(broker)["writer"].epoch == 2 and actors(broker)["writer"].state == "running", "a successor")
        producer.send_batch("orders", [b"y"] * 100)
        after = until(lambda: told_of(600), "600 messages")
        assert of(after, "actor_restarts_total", actor="writer") == 1 and of(after, "actor_running", actor="writer") == 1
