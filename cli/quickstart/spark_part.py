"""Spark's part: exports the topic from the store to Parquet, and puts the same question to Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orbitmq.spark.export import export
from orbitmq.spark.session import local_session
from orbitmq.tables.export.progress import Progress
from orbitmq.tables.export.topics import ExportReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

END_S = 30.0  # how long Spark's JVM may take to end, once it has nothing to do
BODY = "carrier string, arr_delay int"


@dataclass(frozen=True, slots=True)
class SparkAnswer:
    """counts: by airline the flights, those that arrived, and the sum of their delays, minutes."""

    export: ExportReport
    counts: dict[str, list[int]]
    ordered: int


def ask_spark(
    broker: str, topic: str, out: Path, progress: Progress, asking: Callable[[], None]
) -> SparkAnswer:
    """Exports the topic of the running broker, then reads the Parquet files.

    ordered: how many messages have an offset that no other message of their queue has: all of them, if none was stored twice.
    asking: called between the two.
    """
    from pyspark.sql import functions as f

    spark = local_session("orbitmq quickstart")
    try:
        report = export(broker, out, [topic], spark, full=True, progress=progress)
        asking()
        rows = spark.read.parquet(str(out))
        flights = rows.select("tags", f.from_json(f.col("value").cast("string"), BODY).alias("flight"))
        by_airline = flights.groupBy("tags").agg(
            f.count("*").alias("flights"),
            f.count("flight.arr_delay").alias("arrived"),
            f.sum("flight.arr_delay").alias("delay"),
        )
        counts = {row["tags"]: [row["flights"], row["arrived"], row["delay"] or 0] for row in by_airline.collect()}
        ordered = rows.select("partition", "offset").distinct().count()
    finally:
        _stop(spark)
    return SparkAnswer(report, dict(sorted(counts.items())), ordered)


@contextmanager
def chatter_in(log: Path) -> Iterator[None]:
    """Redirects standard error of this process and of the JVMs that it starts into a file, away from progress bars."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _stop(spark: SparkSession) -> None:
    """Stops the session and ends its JVM. PySpark leaves that to the end of this process."""
    from pyspark import SparkContext

    spark.stop()
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    if gateway is not None:
        gateway.shutdown()
        let_end(gateway.proc)


def let_end(jvm: subprocess.Popen[bytes]) -> None:
    """It lives as long as the other end of its standard input is open. If it does not end then, it is killed."""
    if jvm.stdin is not None:
        jvm.stdin.close()
    try:
        jvm.wait(END_S)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()
