"""Spark's queries on a topic: rows counted, bodies summed, everything written to Parquet. Each query runs in turn through
OrbitMQ's source, ready-made batches, and Spark's Kafka source."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.spark.backlog import KAFKA, OURS, READY, Backlog, backlog
from scripts.benchmark.stage import Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MB = 1e6
# Each query with the columns that it asks for.
COLUMNS: dict[str, tuple[str, ...]] = {
    "count": ("offset",),
    "length": ("value",),
    "parquet": ("key", "value", "partition", "offset", "timestamp"),
}
# Number and size of bodies. There are enough of them that starting a query, 0.2 s, is the smaller part of each time.
BACKLOGS = {"100": (4_000_000, 100), "1k": (1_000_000, 1_024)}


def _ask(query: str, rows: DataFrame, folder: Path) -> int:
    """The proof that everything was read: rows, or bytes of bodies."""
    if query == "count":
        return rows.count()
    if query == "length":
        return int(rows.selectExpr("sum(length(value))").collect()[0][0])
    rows.write.mode("overwrite").parquet(str(folder))
    return sum(_parquet_rows(path) for path in folder.glob("*.parquet"))


def _parquet_rows(path: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path).num_rows)


def _seconds(stage: Stage, made: Backlog, query: str, place: str) -> float:
    folder = stage.folder / "parquet"
    begin = time.perf_counter()
    found = _ask(query, made.frame(place, COLUMNS[query]), folder)
    seconds = time.perf_counter() - begin
    expected = made.messages * (made.body if query == "length" else 1)
    if found != expected:
        raise AssertionError(f"{query} of {place}: {found}, expected {expected}")
    return seconds


def _reading(size: str) -> Callable[[Stage], tuple[Sample | None, ...]]:
    messages, body = BACKLOGS[size]

    def run(stage: Stage) -> tuple[Sample | None, ...]:
        made = stage.kept(size, lambda: backlog(stage, messages, body))
        samples: list[Sample | None] = []
        for query in COLUMNS:
            seconds = {place: _seconds(stage, made, query, place) for place in made.places}
            rates = {place: messages / each for place, each in seconds.items()}
            samples.append(Sample(rates[OURS], rates[READY]))
            samples.append(Sample(rates[OURS] * body / MB, rates[READY] * body / MB))
            samples.append(Sample(seconds[KAFKA] / seconds[OURS]) if KAFKA in seconds else None)
        return tuple(samples)

    return run


def _names(size: str) -> tuple[str, ...]:
    return tuple(f"spark_{query}_{size}{kind}" for query in COLUMNS for kind in ("", "_mb", "_kafka_gain"))


def _measure(size: str) -> Measure:
    targets: Sequence[str] = (">= 80 % of ready-made", "", ">= 1.5") * len(COLUMNS)
    return Measure(_names(size), "rows/s", _reading(size), durability="flushed", runs=5, targets=tuple(targets))


MEASURES = tuple(_measure(size) for size in BACKLOGS)
