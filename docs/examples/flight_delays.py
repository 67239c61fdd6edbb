"""Delays by airport and hour, out of a topic of flights: stream -> typed columns -> windows -> Parquet, and a Delta table.

`scripts/spark_example` runs it, docs/spark-example.md explains it. The flights arrive while the queries run; in the end what
they have written is compared with the answer of a batch to the same question.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import delta_table
import msgpack
import pandas as pd
import typer
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.functions import pandas_udf
from pyspark.sql.streaming import StreamingQuery
from rich.table import Table

import orbitmq
from orbitmq.cli.console import err, out, show_error
from orbitmq.cli.quickstart.flights import FLIGHTS, flights
from orbitmq.cli.quickstart.folder import prepare
from orbitmq.cli.quickstart.spark_part import chatter_in
from orbitmq.errors import OrbitError
from orbitmq.spark.session import local_session

TOPIC = "flights"
QUEUES = 4
A_BATCH = 25_000  # flights in a micro-batch at most; fewer where fewer are sent
LATE = "2 days"  # cancelled flights come at the end of their day
BODY = "time_hour timestamp, origin string, dest string, carrier string, dep_delay int"
COLUMNS = ("time_hour", "origin", "dest", "carrier", "dep_delay")
LOOK_S = 0.2
NEW_YORK = "America/New_York"


class Bodies(StrEnum):
    """How a flight is written into its message."""

    json = "json"
    msgpack = "msgpack"


# --- what somebody else would do: fill the topic ------------------------------------------------------------------------------


def send(broker: orbitmq.Broker, count: int, bodies: Bodies) -> int:
    """Sends the first flights of the year, day by day; returns when all of them are on the disk."""
    encode: Callable[[Any], bytes] = msgpack.packb if bodies is Bodies.msgpack else lambda flight: json.dumps(flight).encode()
    # The file begins with January and October. Within a day it is in order of departure.
    year = [(flight["month"], flight["day"], encode({name: flight[name] for name in COLUMNS})) for flight in flights()]
    year.sort(key=itemgetter(0, 1))
    messages = (body for _, _, body in year[:count])
    sent = 0
    with broker.producer(durability="flushed") as producer:
        while batch := list(islice(messages, 1000)):
            sent += len(producer.send_batch(TOPIC, batch))
    return sent


# --- the question, asked alike of a stream and of a batch ---------------------------------------------------------------------


def typed(messages: DataFrame, bodies: Bodies) -> DataFrame:
    """A flight's columns instead of its body. A body that is none fails the query, rather than being passed over."""
    if bodies is Bodies.json:
        flight = f.from_json(f.col("value").cast("string"), BODY, {"mode": "FAILFAST"})
    else:
        flight = msgpack_decoder()(f.col("value"))
    return messages.select(flight.alias("flight")).select("flight.*")


def msgpack_decoder() -> Callable[[str | Column], Column]:
    """Spark cannot read msgpack itself: Python does, a batch of bodies at a time, and gives back columns."""

    def decode(values: pd.Series) -> pd.DataFrame:
        frame = pd.DataFrame([msgpack.unpackb(value) for value in values], columns=list(COLUMNS))
        frame["time_hour"] = pd.to_datetime(frame["time_hour"])
        return frame.astype({"dep_delay": "Int32"})

    return pandas_udf(decode, BODY)


def delays(flights: DataFrame) -> DataFrame:
    """By airport and hour: flights, how many of them departed, and the sum of their delays, minutes."""
    hours = flights.withWatermark("time_hour", LATE).groupBy(f.window("time_hour", "1 hour"), "origin")
    counted = hours.agg(
        f.count("*").alias("flights"), f.count("dep_delay").alias("departed"), f.sum("dep_delay").alias("delay")
    )
    return counted.select(f.col("window.start").alias("hour"), "origin", "flights", "departed", "delay")


# --- the stream ---------------------------------------------------------------------------------------------------------------


def stream(spark: SparkSession, broker: str, limit: int, bodies: Bodies, form: str, folder: Path) -> StreamingQuery:
    """Starts the query that writes to a folder; with the same checkpoint it would go on where it was."""
    messages = (
        spark.readStream.format("orbitmq")
        .option("broker", broker)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", limit)
        .option("columns", "value")
        .load()
    )
    writer = delays(typed(messages, bodies)).writeStream.queryName(form).format(form).outputMode("append")
    return writer.option("checkpointLocation", str(folder / "checkpoints" / form)).start(str(folder / form))


def told(query: StreamingQuery, seen: set[int]) -> Iterator[dict[str, Any]]:
    """The micro-batches that have come since the last look."""
    for progress in query.recentProgress:
        if progress["numInputRows"] and progress["batchId"] not in seen:
            seen.add(progress["batchId"])
            yield progress


def follow(queries: list[StreamingQuery], sending: Future[int], count: int) -> None:
    """Tells what the queries do until they have every flight, then stops them."""
    read = dict.fromkeys([query.name for query in queries], 0)
    seen: dict[str, set[int]] = {name: set() for name in read}
    while min(read.values()) < count:
        if sending.done():
            sending.result()  # raises what has ended the sending
        for query in queries:
            query.awaitTermination(LOOK_S)  # raises what has ended the query
            for progress in told(query, seen[query.name]):
                read[query.name] += progress["numInputRows"]
                hours, watermark = progress["stateOperators"][0]["numRowsTotal"], progress["eventTime"]["watermark"]
                err.print(
                    f"{query.name:<8} micro-batch {progress['batchId']:>3}: {read[query.name]:>7,} of {count:,} flights,"
                    f" {hours:>5,} hours open, watermark {watermark[:16].replace('T', ' ')}"
                )
    for query in queries:
        query.processAllAvailable()  # the last micro-batch, without flights, closes what the watermark has passed
        query.stop()


# --- the whole of it ----------------------------------------------------------------------------------------------------------


def session(log: Path) -> tuple[SparkSession, bool]:
    """A session, and whether it can write Delta tables."""
    with chatter_in(log):
        try:
            jar = delta_table.package()
            return local_session("flight delays", settings={**delta_table.SETTINGS, "spark.jars.packages": jar}), True
        except delta_table.DeltaError as reason:
            why = str(reason)
        except PySparkException:
            why = f"Spark could not get {jar}; {log} tells more"
        spark = local_session("flight delays")
    err.print(f"no Delta table: {why}")
    return spark, False


def compare(written: DataFrame, asked: DataFrame, closed_at: str) -> tuple[int, int, int]:
    """Rows of the stream; how many are in the stream or the batch only; and how many hours it does not owe yet, because they
    end after the watermark."""
    due = f.col("hour") + f.expr("interval 1 hour") <= f.lit(closed_at).cast("timestamp")
    batch = asked.select("*", due.alias("due")).collect()
    expected = Counter(tuple(row)[:-1] for row in batch if row["due"])
    found = Counter(tuple(row) for row in written.collect())
    others = (found - expected) + (expected - found)
    return found.total(), others.total(), len(batch) - expected.total()


def worst(hours: DataFrame) -> Table:
    """The hours of the year in which most was waited."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("worst hours, New York time", no_wrap=True)
    table.add_column("from")
    for heading in ("flights", "departed", "mean delay"):
        table.add_column(heading, justify="right")
    mean = f.col("delay") / f.col("departed")
    rows = hours.where("departed >= 10").orderBy(mean.desc(), "hour", "origin").limit(5)
    local = f.date_format(f.from_utc_timestamp("hour", NEW_YORK), "d MMMM yyyy, HH:mm").alias("local")
    for row in rows.select(local, "origin", "flights", "departed", mean.alias("mean")).collect():
        table.add_row(row["local"], row["origin"], str(row["flights"]), str(row["departed"]), f"{row['mean']:.0f} min")
    return table


def draw(hours: DataFrame, picture: Path) -> None:
    """Mean delay by hour of the day, a line for each airport."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    of_day = f.hour(f.from_utc_timestamp("hour", NEW_YORK)).alias("of_day")
    means = hours.groupBy("origin", of_day).agg(
        (f.sum("delay") / f.sum("departed")).alias("mean"), f.sum("departed").alias("n")
    )
    frame = means.where("n >= 100").toPandas().pivot_table(index="of_day", columns="origin", values="mean")
    with plt.rc_context({"svg.hashsalt": "flights", "svg.fonttype": "none"}):
        axes = frame.plot(figsize=(8, 4), marker="o", markersize=3, xticks=range(5, 24, 2), ylabel="minutes")
        axes.set_xlabel("planned hour of departure, New York time")
        axes.set_title("Mean delay of departure", loc="left")
        axes.legend(title=None, frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
        axes.figure.tight_layout()
        axes.figure.savefig(picture, metadata={"Date": None} if picture.suffix == ".svg" else None)


def run(folder: Path, count: int, bodies: Bodies, picture: Path | None) -> bool:
    """Everything; True if each output of the stream equals the batch."""
    prepare(folder, "spark_example")
    spark, with_delta = session(folder / "spark.log")
    with orbitmq.Broker(folder / "store", log_file_size=128 << 20) as broker, ThreadPoolExecutor(1) as pool:
        broker.create_topic(TOPIC, QUEUES)
        limit = min(A_BATCH, -(-count // 4))
        forms = ["parquet", "delta"] if with_delta else ["parquet"]
        queries = [stream(spark, broker.name, limit, bodies, form, folder) for form in forms]
        follow(queries, pool.submit(send, broker, count, bodies), count)
        messages = spark.read.format("orbitmq").option("broker", broker.name).option("subscribe", TOPIC)
        asked = delays(typed(messages.option("columns", "value").load(), bodies)).cache()
        right = True
        for form, query in zip(forms, queries, strict=True):
            written = spark.read.format(form).load(str(folder / form))
            closed_at = query.lastProgress["eventTime"]["watermark"]
            rows, others, still = compare(written, asked, closed_at)
            right = right and rows > 0 and others == 0
            verdict = "the same as the batch" if others == 0 else f"{others:,} rows are not as in the batch"
            out.print(f"{form}: {rows:,} hours of airports, {verdict}; {still:,} are open, their flights may be {LATE} late")
    hours = spark.read.parquet(str(folder / "parquet"))
    out.print()
    out.print(worst(hours))
    if picture is not None:
        draw(hours, picture)
        out.print(f"\nthe picture: {picture}")
    out.print(f"\nthe tables:  {folder}/{{{','.join(forms)}}}" if with_delta else f"\nthe table:   {folder}/parquet")
    spark.stop()
    return right


def main(
    folder: Annotated[Path, typer.Option(help="Where store, checkpoints and tables go; emptied first if it is ours.")] = Path(
        "data/spark_example"
    ),
    flights: Annotated[int, typer.Option(help="How many, from the first of January on.", min=3000, max=FLIGHTS)] = FLIGHTS,
    bodies: Annotated[Bodies, typer.Option(help="What the messages hold.")] = Bodies.json,
    picture: Annotated[Path | None, typer.Option(help="A file to draw into, .svg or .png.")] = None,
) -> None:
    """Stream flights through Spark into tables of delays, and compare them with a batch."""
    try:
        right = run(folder.absolute(), flights, bodies, picture)
    except OrbitError as error:
        show_error(error)
        raise typer.Exit(1) from None
    if not right:
        raise typer.Exit(1)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    sys.exit(app())
