"""Reading a backlog: into Python objects, and into Arrow batches."""

from __future__ import annotations

from collections.abc import Callable

import orbitmq
from scripts.benchmark import load
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.roles import Role, together
from scripts.benchmark.stage import Stage
from scripts.benchmark.stream import produce

MESSAGES = 3_000_000
_backlogs: dict[str, str] = {}


def _objects(name: str, topic: str, messages: int) -> Callable[[], tuple[int, int]]:
    consumer = orbitmq.connect(name).consumer(None, topics=[topic], start="earliest")

    def act() -> tuple[int, int]:
        count = size = 0
        while count < messages:
            bodies = consumer.poll_bodies(8192, timeout=60)
            count += len(bodies)
            size += sum(map(len, bodies))
        return count, size

    return act


def _arrow(name: str, topic: str, messages: int) -> Callable[[], tuple[int, int]]:
    consumer = orbitmq.connect(name).consumer(None, topics=[topic], start="earliest")
    consumer.poll_arrow(1, timeout=0)  # loads pyarrow
    consumer.seek_to_time(0)

    def act() -> tuple[int, int]:
        count = size = 0
        while count < messages:
            batch = consumer.poll_arrow(65536, timeout=60)
            count += batch.num_rows
            size += batch.column("body").nbytes
        return count, size

    return act


def _backlog(stage: Stage) -> str:
    """One topic a stage, filled once. Reading it does not change it."""
    if stage.name not in _backlogs:
        topic = stage.topic()
        together(Role(produce, stage.name, topic, MESSAGES, False, "appended"))
        _backlogs[stage.name] = topic
    return _backlogs[stage.name]


def _drain(stage: Stage, how: Callable[..., Callable[[], tuple[int, int]]]) -> tuple[Sample, ...]:
    ((begin, end, (count, size)),) = together(Role(how, stage.name, _backlog(stage), MESSAGES), warm=stage.folder)
    if count != MESSAGES or size < MESSAGES * load.BODY_BYTES:
        raise AssertionError(f"drained {count} messages with {size} bytes, expected {MESSAGES}")
    return (Sample(count / ((end - begin) / 1e9)),)


def drain_objects(stage: Stage) -> tuple[Sample, ...]:
    return _drain(stage, _objects)


def drain_arrow(stage: Stage) -> tuple[Sample, ...]:
    return _drain(stage, _arrow)


MEASURES = (
    Measure(("drain_objects",), "messages/s", drain_objects, targets=(">= 5 M",)),
    Measure(("drain_arrow",), "messages/s", drain_arrow, targets=(">= 10 M",)),
)
