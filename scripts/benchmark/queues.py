"""The same stream over few and many queues, in turn on one broker, because only runs of the same minute can be compared."""

from __future__ import annotations

from scripts.benchmark import ceiling, load
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.stage import Stage
from scripts.benchmark.stream import run_stream

MESSAGES = 2_000_000
QUEUES = (1, 72, 600, 10_000)
BASE = 72


def queues(stage: Stage) -> tuple[Sample, ...]:
    """Messages a second by number of queues, then the two larger ones as a share of BASE."""
    found = {count: run_stream(stage, MESSAGES, queues=count)[0] for count in QUEUES}
    best = ceiling.throughput(MESSAGES, load.SMALL.size, load.SMALL.batch, stage.folder)
    rates = [Sample(found[count], best) for count in QUEUES]
    return (*rates, *(Sample(found[count] / found[BASE]) for count in QUEUES if count > BASE))


MEASURES = (
    Measure(
        ("queues_1", "queues_72", "queues_600", "queues_10000", "queues_600_share", "queues_10000_share"),
        "messages/s",
        queues,
        targets=("", "", "", "", ">= 0.95 of queues_72", ">= 0.75 of queues_72"),
    ),
)
