"""Planning a query over 10,000 queues, as Spark does it: options are read, the store is looked at, partitions are cut."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orbitmq
from scripts.benchmark import load
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.stage import Stage

QUEUES = 10_000


def _fill(broker: orbitmq.Broker) -> str:
    """A topic with messages in each queue."""
    broker.create_topic("planned", queues=QUEUES)
    with broker.producer(durability="flushed") as producer:
        for number in range(QUEUES):
            producer.send_batch("planned", load.SMALL.bodies[number % 1000 : number % 1000 + 2], tags=load.TAG, queue=number)
    return "planned"


@contextmanager
def _filled(stage: Stage) -> Iterator[str]:
    yield _fill(stage.broker)


@contextmanager
def _stopped(stage: Stage) -> Iterator[Path]:
    folder = stage.folder / "stopped"
    with orbitmq.Broker(folder, name=f"{stage.name}-stopped") as broker:
        _fill(broker)
    yield folder


def _seconds(store: Path) -> float:
    from orbitmq.spark.source.batch_reader import OrbitPartition, OrbitReader
    from orbitmq.spark.source.options import parse

    begin = time.perf_counter()
    reader = OrbitReader(parse({"path": str(store), "subscribe": "planned"}))
    cut = reader.partitions()
    seconds = time.perf_counter() - begin
    queues = sum(len(each.slices) for each in cut if isinstance(each, OrbitPartition))
    if queues != QUEUES:
        raise AssertionError(f"planned {queues} queues, expected {QUEUES}")
    return seconds


def plan(stage: Stage) -> tuple[Sample, ...]:
    """With a running broker, and of a stopped store."""
    stage.kept("filled", lambda: _filled(stage))
    stopped = stage.kept("stopped", lambda: _stopped(stage))
    return Sample(_seconds(stage.folder / "store")), Sample(_seconds(stopped))


MEASURES = (Measure(("spark_plan_running_s", "spark_plan_stopped_s"), "s", plan, durability="flushed", targets=("< 1", "< 1")),)
