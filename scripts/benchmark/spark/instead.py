"""What Spark was started for, and the same without it: a topic as one Arrow table, and an export to Parquet. Spark's session is
there already; its start is not counted."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import orbitmq
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.spark.backlog import send
from scripts.benchmark.spark.session import session
from scripts.benchmark.stage import Stage

MESSAGES, BODY = 1_000_000, 100
COLUMNS = ("key", "value", "partition", "offset", "timestamp")


@contextmanager
def _filled(stage: Stage) -> Iterator[str]:
    topic = stage.topic()
    send(stage, topic, MESSAGES, BODY)
    yield topic


def _rate(act: Callable[[], int]) -> float:
    begin = time.perf_counter()
    rows = act()
    seconds = time.perf_counter() - begin
    if rows != MESSAGES:
        raise AssertionError(f"{rows} rows, expected {MESSAGES}")
    return MESSAGES / seconds


def _compare(stage: Stage) -> tuple[Sample, ...]:
    from orbitmq.spark.export import export as with_spark
    from orbitmq.tables.export.topics import export

    topic = stage.kept("filled", lambda: _filled(stage))
    spark = session()
    out = stage.folder / "out"

    def table() -> int:
        return int(orbitmq.dataset(stage.name, [topic], columns=COLUMNS).to_table().num_rows)

    def sparks_table() -> int:
        options = {"broker": stage.name, "subscribe": topic, "columns": ",".join(COLUMNS)}
        return int(spark.read.format("orbitmq").options(**options).load().toArrow().num_rows)

    def files() -> int:
        return export(stage.name, out, [topic]).rows

    def sparks_files() -> int:
        return with_spark(stage.name, out, [topic], spark).rows

    rates = []
    for act in (table, sparks_table, files, sparks_files):
        shutil.rmtree(out, ignore_errors=True)
        rates.append(_rate(act))
    return Sample(rates[0], rates[1]), Sample(rates[2], rates[3])


MEASURES = (
    Measure(("spark_free_table", "spark_free_export"), "messages/s", _compare, durability="flushed", runs=3, beside="Spark"),
)
