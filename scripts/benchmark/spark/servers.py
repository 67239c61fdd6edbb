"""Spark over TCP: bodies of a topic summed through OrbitMQ's gateway, beside Spark's Kafka source, which is over TCP too; and
rows written into a new topic, beside Spark's Kafka sink. Each query runs in turn through all places."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.spark.backlog import KAFKA, OURS, SERVERS, Backlog, backlog
from scripts.benchmark.stage import Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MESSAGES, BODY = 200_000, 100
WRITTEN = 100_000  # rows of a write


def _sum(made: Backlog, place: str) -> float:
    begin = time.perf_counter()
    found = int(made.frame(place, ("value",)).selectExpr("sum(length(value))").collect()[0][0])
    seconds = time.perf_counter() - begin
    if found != MESSAGES * BODY:
        raise AssertionError(f"{found} bytes of {place}, expected {MESSAGES * BODY}")
    return seconds


def _write(stage: Stage, made: Backlog, place: str, rows: DataFrame) -> float:
    """Into a new topic."""
    topic, staged = stage.topic(), stage.folder / "staged"
    where = {
        OURS: {"path": str(made.store)},
        SERVERS: {"servers": made.servers, "stagingLocation": str(staged)},
        KAFKA: {"kafka.bootstrap.servers": made.kafka or ""},
    }[place]
    begin = time.perf_counter()
    rows.write.format("kafka" if place == KAFKA else "orbitmq").options(**where, topic=topic).mode("append").save()
    seconds = time.perf_counter() - begin
    shutil.rmtree(staged, ignore_errors=True)
    found = replace(made, topic=topic).frame(KAFKA if place == KAFKA else OURS, ("offset",)).count()
    if found != WRITTEN:
        raise AssertionError(f"{found} rows written to {place}, expected {WRITTEN}")
    return seconds


def _run(stage: Stage) -> tuple[Sample | None, ...]:
    made = stage.kept("servers", lambda: backlog(stage, MESSAGES, BODY))
    places = [OURS, SERVERS, *([KAFKA] if made.kafka else [])]
    read = {place: _sum(made, place) for place in places}
    rows = made.frame(OURS, ("key", "value")).limit(WRITTEN).repartition(2).persist()
    if rows.count() != WRITTEN:
        raise AssertionError(f"fewer than {WRITTEN} rows to write")
    wrote = {place: _write(stage, made, place, rows) for place in places}
    rows.unpersist()
    samples: list[Sample | None] = []
    for count, seconds in ((MESSAGES, read), (WRITTEN, wrote)):
        samples.append(Sample(count / seconds[SERVERS], count / seconds[OURS]))
        samples.append(Sample(seconds[KAFKA] / seconds[SERVERS]) if KAFKA in seconds else None)
    return tuple(samples)


MEASURES = (
    Measure(
        ("spark_servers_length", "spark_servers_length_kafka_gain", "spark_servers_write", "spark_servers_write_kafka_gain"),
        "rows/s",
        _run,
        durability="flushed",
        runs=5,
        settings={"listen": "127.0.0.1:0"},
        beside="path",
    ),
)
