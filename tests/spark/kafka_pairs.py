"""A program that asks Spark's Kafka source and OrbitMQ's the same questions, over topics with the same messages, and prints the
answers as JSON: {case: {"kafka": answer, "ours": answer}}. An answer is the rows that were read, or the error's text.

    kafka_pairs.py KAFKA_ADDRESS ORBITMQ_BROKER FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orbitmq.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


def main(address: str, broker: str, folder: str) -> None:
    spark = local_session("pairs", cores=2)
    numbers = spark.range(PARTITIONS * EACH)
    made = numbers.selectExpr("cast(id as string) as value", f"cast(id % {PARTITIONS} as int) as partition")
    kafka = {"kafka.bootstrap.servers": address}
    made.coalesce(1).write.format("kafka").options(topic="t", **kafka).save()
    made.coalesce(1).write.format("orbitmq").options(topic="t", broker=broker).mode("append").save()
    sources = {"kafka": ("kafka", kafka), "ours": ("orbitmq", {"broker": broker})}
    answers: dict[str, dict[str, Any]] = {}

    def ask(case: str, question: Callable[[str, dict[str, str]], Any]) -> None:
        answers[case] = {name: answer(lambda: question(*source)) for name, source in sources.items()}

    for case, options in BATCHES.items():
        chosen = options if "assign" in options else {**options, "subscribe": "t"}
        ask(case, lambda kind, where: rows(spark.read.format(kind).options(**where, **chosen).load()))
    for mode in ("errorifexists", "overwrite", "ignore"):
        one = made.limit(1)
        ask(f"save mode {mode}", lambda kind, where: one.write.mode(mode).format(kind).options(topic="u", **where).save())
    ask("maxOffsetsPerTrigger 0", lambda kind, where: limited(spark, kind, where, Path(folder)))
    ask("a topic goes and comes back", lambda kind, where: returned(spark, kind, where, Path(folder)))
    print("ANSWERS " + json.dumps(answers))
    spark.stop()


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
    if not query.awaitTermination(60):
        query.stop()
        return ["does not end", *counts]  # type: ignore[list-item]
    return counts


def answer(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:3000]


if __name__ == "__main__":
    main(*sys.argv[1:])
