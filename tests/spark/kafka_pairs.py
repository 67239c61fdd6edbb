"""The questions that Spark's Kafka source and OrbitMQ's are asked, each over topics with the same messages. An answer is the
rows that were read, or the error's text.

The answers of the Kafka source are kept in kafka_answers.json, because they change with Spark and Kafka only. To record them
again, with a Kafka broker and a source from Maven Central, and then see with `git diff` whether anything has changed:

    .venv/bin/python -m tests.spark.kafka_pairs
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.waiting import WATCHDOG_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ANSWERS = Path(__file__).with_name("kafka_answers.json")
PARTITIONS, EACH = 2, 5
BATCHES: dict[str, dict[str, str]] = {
    "start latest": {"startingOffsets": '{"t": {"0": -1, "1": -2}}'},
    "end earliest": {"endingOffsets": '{"t": {"0": -2, "1": -1}}'},
    "start behind the end": {"startingOffsets": '{"t": {"0": 50, "1": 3}}', "failOnDataLoss": "false"},
    "start behind the end, strict": {"startingOffsets": '{"t": {"0": 50, "1": 3}}'},
    "start behind a given end": {
        "startingOffsets": '{"t": {"0": 4, "1": 0}}',
        "endingOffsets": '{"t": {"0": 2, "1": 2}}',
        "failOnDataLoss": "false",
    },
    "start left out": {"startingOffsets": '{"t": {"0": 3}}'},
    "timestamp left out": {"startingOffsetsByTimestamp": '{"t": {"0": 0}}'},
    "end timestamp left out": {"endingOffsetsByTimestamp": '{"t": {"0": 0}}'},
    "assign nothing": {"assign": "{}"},
    "timestamp -1": {"startingTimestamp": "-1"},
    "end timestamp -1": {"endingTimestamp": "-1"},
}


def asked(spark: SparkSession, kind: str, where: dict[str, str], folder: Path) -> dict[str, Any]:
    """The answers by case. The broker makes topics with PARTITIONS when they are written to, or has t, u and v already."""
    numbers = spark.range(PARTITIONS * EACH)
    made = numbers.selectExpr("cast(id as string) as value", f"cast(id % {PARTITIONS} as int) as partition")
    made.coalesce(1).write.format(kind).options(topic="t", **where).mode("append").save()
    answers: dict[str, Any] = {}
    for case, options in BATCHES.items():
        chosen = options if "assign" in options else {**options, "subscribe": "t"}
        answers[case] = answer(lambda: rows(spark.read.format(kind).options(**where, **chosen).load()))
    for mode in ("errorifexists", "overwrite", "ignore"):
        writer = made.limit(1).write.mode(mode).format(kind).options(topic="u", **where)
        answers[f"save mode {mode}"] = answer(writer.save)
    answers["maxOffsetsPerTrigger 0"] = answer(lambda: limited(spark, kind, where, folder))
    answers["a topic goes and comes back"] = answer(lambda: returned(spark, kind, where, folder))
    return answers


def rows(frame: DataFrame) -> list[list[int]]:
    return sorted([row.partition, row.offset] for row in frame.select("partition", "offset").collect())


def limited(spark: SparkSession, kind: str, where: dict[str, str], folder: Path) -> list[int]:
    options = {**where, "subscribe": "t", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "0"}
    return run(spark, kind, options, folder / f"{kind}-limited")


def returned(spark: SparkSession, kind: str, where: dict[str, str], folder: Path) -> list[Any]:
    """Rows of each of three runs of one query, which reads u and v, then v alone, then both again."""
    for topic in ("u", "v"):
        made = spark.range(4).selectExpr("cast(id as string) as value", "0 as partition")
        made.coalesce(1).write.format(kind).options(topic=topic, **where).mode("append").save()
    found = []
    for topics in ("u,v", "v", "u,v"):
        options = {**where, "subscribe": topics, "startingOffsets": "earliest"}
        found.append(answer(lambda: run(spark, kind, options, folder / f"{kind}-returned")))
    return found


def run(spark: SparkSession, kind: str, options: dict[str, str], folder: Path) -> list[int]:
    """Rows of each micro-batch of one run that reads everything."""
    counts: list[int] = []
    stream = spark.readStream.format(kind).options(**options).load()
    query = (
        stream.writeStream.foreachBatch(lambda frame, batch: counts.append(frame.count()))
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    if not query.awaitTermination(WATCHDOG_S):
        query.stop()
        return ["does not end", *counts]  # type: ignore[list-item]
    return counts


def answer(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("JVM stacktrace:")[0].strip()[:3000]


def kept_of(found: Any) -> Any:
    """An answer without what differs between two runs: stack traces, plans, and the names of objects and queries."""
    if isinstance(found, list):
        return [kept_of(each) for each in found]
    if not isinstance(found, str):
        return found
    text = re.split(r"\n\tat |\n=== Streaming Query", found)[0]
    return re.sub(r"calling o\d+\.|\[id = \S+ runId = \S+\] ", "... ", text)


def main() -> None:
    from orbitmq.spark.session import local_session
    from scripts.benchmark.spark import kafka

    jars = kafka.source_jars()
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(map(str, jars))} pyspark-shell"
    with tempfile.TemporaryDirectory() as made, kafka.broker(Path(made) / "kafka", PARTITIONS) as address:
        spark = local_session("pairs", cores=2)
        answers = asked(spark, "kafka", {"kafka.bootstrap.servers": address}, Path(made))
        [source] = [jar.stem for jar in jars if jar.name.startswith("spark-sql-kafka")]
        told = {"spark": spark.version, "source": source, "answers": {case: kept_of(each) for case, each in answers.items()}}
        spark.stop()
    ANSWERS.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
