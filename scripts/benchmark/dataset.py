"""A topic as Arrow batches by orbitmq.dataset, beside a consumer that drains the same topic with poll_arrow; both with the ten
columns that poll_arrow gives by itself."""

from __future__ import annotations

from collections.abc import Callable

import orbitmq
from scripts.benchmark import load
from scripts.benchmark.drain import MESSAGES, arrow, backlog
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.roles import Role, together
from scripts.benchmark.stage import Stage

COLUMNS = (
    "topic", "partition", "offset", "physical_offset", "tags", "keys", "value", "born_timestamp", "timestamp", "flag",
)  # fmt: skip


def _batches(name: str, topic: str, messages: int) -> Callable[[], tuple[int, int]]:
    next(iter(orbitmq.dataset(name, [topic], columns=COLUMNS)))  # loads pyarrow

    def act() -> tuple[int, int]:
        count = size = 0
        for batch in orbitmq.dataset(name, [topic], columns=COLUMNS):
            count += batch.num_rows
            size += batch.column("value").nbytes
        return count, size

    return act


def _read(of: load.Load) -> Callable[[Stage], tuple[Sample, ...]]:
    messages = of.messages(MESSAGES)

    def run(stage: Stage) -> tuple[Sample, ...]:
        topic = backlog(stage, of, messages)
        rates = []
        for how in (_batches, arrow):
            ((begin, end, (count, size)),) = together(Role(how, stage.name, topic, messages), warm=stage.folder)
            if count != messages or size < messages * of.size:
                raise AssertionError(f"read {count} messages with {size} bytes, expected {messages} of {of.size} bytes")
            rates.append(count / ((end - begin) / 1e9))
        return (Sample(*rates),)

    return run


MEASURES = tuple(Measure((f"dataset{of.suffix}",), "messages/s", _read(of), beside="poll_arrow") for of in load.SIZES[:2])
