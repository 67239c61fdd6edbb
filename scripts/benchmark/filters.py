"""Draining a backlog through a filter: how many messages a second are looked at, and what each costs the processor."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import orbitmq
from scripts.benchmark import load
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.roles import Role, together
from scripts.benchmark.stage import Stage

MESSAGES = 1_000_000
REGIONS = ("eu", "us", "asia", "africa")
FILTERS = {  # of each, how many messages pass
    "filter_none": ("price > 2000 AND region IN ('eu', 'us')", 0.0),
    "filter_few": ("price > 900 AND region IN ('eu', 'us')", 0.05),
    "filter_half": ("price >= 0 AND region IN ('eu', 'us')", 0.5),
}
_backlogs: dict[str, str] = {}


def _produce(name: str, topic: str, messages: int) -> Callable[[], int]:
    """Bodies of 100 bytes, each with a price below 1,000 and a region."""
    producer = orbitmq.connect(name).producer()
    source = random.Random(20211201)
    kinds = [{"price": str(source.randrange(1000)), "region": source.choice(REGIONS)} for _ in range(1000)]

    def act() -> int:
        bodies = load.SMALL.bodies
        for number in range(messages):
            producer.send_oneway(topic, bodies[number % len(bodies)], properties=kinds[number % len(kinds)])
        producer.flush()
        return int(producer.failed)

    return act


def _filtered(name: str, topic: str, sql: str) -> Callable[[], tuple[int, float]]:
    """Bodies as `bytes`. Returns how many passed, and the processor time, in seconds."""
    consumer = orbitmq.connect(name).consumer(None, topics=[topic], start="earliest", sql=sql)

    def act() -> tuple[int, float]:
        count, began = 0, time.process_time()
        while found := consumer.poll_bodies(1000, timeout=0):
            count += len(found)
        return count, time.process_time() - began

    return act


def _filter(sql: str, share: float) -> Callable[[Stage], tuple[Sample, ...]]:
    def run(stage: Stage) -> tuple[Sample, ...]:
        if stage.name not in _backlogs:
            topic = stage.topic()
            ((_, _, failed),) = together(Role(_produce, stage.name, topic, MESSAGES))
            if failed:
                raise AssertionError(f"{failed} messages were not stored")
            _backlogs[stage.name] = topic
        role = Role(_filtered, stage.name, _backlogs[stage.name], sql)
        ((begin, end, (count, spent)),) = together(role, warm=stage.folder)
        if abs(count / MESSAGES - share) > 0.05:
            raise AssertionError(f"{count} messages passed {sql}, expected about {share:.0%} of {MESSAGES}")
        return Sample(MESSAGES / ((end - begin) / 1e9)), Sample(spent / MESSAGES * 1e9)

    return run


MEASURES = tuple(
    Measure((name, f"{name}_cpu_ns"), "messages/s", _filter(sql, share), targets=(">= 1 M", ""), runs=5)
    for name, (sql, share) in FILTERS.items()
)
