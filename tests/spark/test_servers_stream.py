"""Goal: a stream through a gateway sees every message once, though gateways die while it reads, and continues from its
checkpoint. Method: Spark over a broker tree with a gateway, which is killed again and again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import orbitmq
from orbitmq.errors import OffsetOutOfRange, TimedOut
from orbitmq.spark.source.options import parse
from orbitmq.spark.stream.reader import OrbitStreamReader
from tests.spark.stream_rampage import output
from tests.trees import indexed, kill, small_broker
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.pyspark

ROUNDS, EACH = 6, 200


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path / "store", listen="127.0.0.1:0", flush_interval_ms=20) as broker:
        broker.create_topic("orders", queues=2)
        yield broker


def start(spark: SparkSession, folder: Path, servers: str) -> StreamingQuery:
    given = {"servers": servers, "subscribe": "orders", "startingOffsets": "earliest"}
    writer = spark.readStream.format("orbitmq").options(**given).load().writeStream.format("parquet")
    writer = writer.option("path", str(folder / "out")).option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(processingTime="20 milliseconds").start()


def gateways(broker: orbitmq.Broker) -> list[str]:
    return [actor.name for actor in broker.status().actors if actor.name.startswith("gateway")]


def stored(folder: Path) -> list[int]:
    if not (folder / "out" / "_spark_metadata").is_dir():
        return []
    return sorted(int(row[-1]) for row in output(folder / "out"))


def reached(query: StreamingQuery, folder: Path, count: int) -> None:
    until(lambda: query.exception() is not None or len(stored(folder)) >= count, f"{count} rows in the output")
    assert query.exception() is None


def test_exactly_once_while_gateways_die(spark: SparkSession, broker: orbitmq.Broker, tmp_path: Path) -> None:
    servers, victims = broker.status().listens, gateways(broker)
    assert victims
    query = start(spark, tmp_path, servers)
    with broker.producer() as producer:
        for turn in range(ROUNDS):
            producer.send_batch("orders", [b"%d" % number for number in range(turn * EACH, (turn + 1) * EACH)])
            for victim in victims:
                kill(broker, victim)
            if turn == ROUNDS // 2:
                query.stop()
                query = start(spark, tmp_path, servers)
            reached(query, tmp_path, (turn + 1) * EACH)
    query.stop()
    assert stored(tmp_path) == list(range(ROUNDS * EACH))


def test_offsets_are_those_of_a_stream_by_path(broker: orbitmq.Broker) -> None:
    with broker.producer() as producer:
        producer.send_batch("orders", [b"x"] * 11, durability="flushed")
    indexed(broker)
    options = {"subscribe": "orders", "startingOffsets": "earliest"}
    remote = OrbitStreamReader(parse({"servers": broker.status().listens, **options}, streaming=True))
    mapped = OrbitStreamReader(parse({"path": broker.status().store, **options}, streaming=True))
    assert remote.initialOffset() == mapped.initialOffset()
    assert remote.latestOffset() == mapped.latestOffset()
    parts = remote.partitions(remote.initialOffset(), remote.latestOffset())
    assert sum(batch.num_rows for part in parts for batch in remote.read(part)) == 11


def test_a_stream_that_waits_for_its_servers(tmp_path: Path) -> None:
    """Away between two looks: nothing new, no error. Back: everything."""
    with small_broker(tmp_path / "store", listen="127.0.0.1:0") as broker:
        broker.create_topic("orders", queues=1)
        servers = broker.status().listens
        reader = OrbitStreamReader(
            parse({"servers": servers, "subscribe": "orders", "startingOffsets": "earliest", "timeout": "50ms"}, streaming=True)
        )

        def first() -> dict[str, dict[str, int]] | None:
            with suppress(TimedOut):  # a slow machine may need more than 50 ms
                return reader.initialOffset()
            return None

        begin = until(first, "the servers' first answer")
        assert reader.latestOffset() == begin == {"orders": {"0": 0}}
    assert reader.latestOffset() == begin
    with small_broker(tmp_path / "store", listen=servers) as broker, broker.producer() as producer:
        producer.send("orders", b"x")
        until(lambda: reader.latestOffset() == {"orders": {"0": 1}}, "the stream to see the message")


def test_a_store_that_was_made_anew(broker: orbitmq.Broker) -> None:
    with broker.producer() as producer:
        producer.send("orders", b"x", queue=0)
    options = parse({"servers": broker.status().listens, "subscribe": "orders"}, streaming=True)
    with pytest.raises(OffsetOutOfRange, match="the queue ends before it"):
        OrbitStreamReader(options).latestOffset({"orders": {"0": 17}})
