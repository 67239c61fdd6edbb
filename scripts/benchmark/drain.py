"""Draining a backlog: into bytes, into views of the log, and into Arrow batches."""

from __future__ import annotations

from collections.abc import Callable

import orbitmq
from scripts.benchmark import load
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.roles import Role, together
from scripts.benchmark.stage import Stage
from scripts.benchmark.stream import consume, produce

MESSAGES = 3_000_000
Drain = Callable[[str, str, int], Callable[[], tuple[int, int]]]
TARGETS = {
    "drain_objects": ">= 5 M",
    "drain_arrow": ">= 10 M",
    "drain_objects_1k": ">= 1.5 M",
    "drain_views_1k": ">= 2.5 M",
    "drain_arrow_1k": ">= 2.5 M",
}
_backlogs: dict[str, str] = {}


def _objects(name: str, topic: str, messages: int) -> Callable[[], tuple[int, int]]:
    """Copies of the bodies, as `bytes`."""
    return consume(name, topic, messages, start="earliest", value=len)


def _views(name: str, topic: str, messages: int) -> Callable[[], tuple[int, int]]:
    """Messages, which are views of the log; the length of each is looked at."""
    consumer = orbitmq.connect(name).consumer(None, topics=[topic], start="earliest")

    def act() -> tuple[int, int]:
        count = size = 0
        while count < messages:
            found = consumer.poll_batch(1000, timeout=60)
            count += len(found)
            size += sum(map(len, found))
        return count, size

    return act


def arrow(name: str, topic: str, messages: int) -> Callable[[], tuple[int, int]]:
    """Record batches with the usual columns."""
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


def backlog(stage: Stage, of: load.Load, messages: int) -> str:
    """One topic a stage, filled once; draining does not change it."""
    if stage.name not in _backlogs:
        topic = stage.topic()
        together(Role(produce, stage.name, topic, of, messages, False, "appended"))
        _backlogs[stage.name] = topic
    return _backlogs[stage.name]


def _drain(how: Drain, of: load.Load) -> Callable[[Stage], tuple[Sample, ...]]:
    messages = of.messages(MESSAGES)

    def run(stage: Stage) -> tuple[Sample, ...]:
        topic = backlog(stage, of, messages)
        ((begin, end, (count, size)),) = together(Role(how, stage.name, topic, messages), warm=stage.folder)
        if count != messages or size < messages * of.size:
            raise AssertionError(f"drained {count} messages with {size} bytes, expected {messages} of {of.size} bytes")
        return (Sample(count / ((end - begin) / 1e9)),)

    return run


MEASURES = tuple(
    Measure((name + of.suffix,), "messages/s", _drain(how, of), targets=(TARGETS.get(name + of.suffix, ""),))
    for of in load.SIZES
    for name, how in (("drain_objects", _objects), ("drain_views", _views), ("drain_arrow", arrow))
)
