"""The same stream over few and many queues."""

from __future__ import annotations

from collections.abc import Callable

from scripts.benchmark import ceiling, load
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.stage import Stage
from scripts.benchmark.stream import run_stream

MESSAGES = 2_000_000
RUNS = 5


def _over(queues: int) -> Callable[[Stage], tuple[Sample, ...]]:
    def run(stage: Stage) -> tuple[Sample, ...]:
        value = run_stream(stage, MESSAGES, queues=queues)
        return (Sample(value, ceiling.throughput(MESSAGES, load.BODY_BYTES, load.BATCH, stage.folder)),)

    return run


MEASURES = tuple(
    Measure((f"queues_{queues}",), "messages/s", _over(queues), runs=RUNS, targets=(target,))
    for queues, target in ((1, ""), (72, ""), (600, "within 5 % of 72"), (10_000, "within 25 % of 72"))
)
