"""Goal: streaming queries see every message once: through limits, restarts from a checkpoint, new topics and queues, and
restarts of the broker. Method: Spark over a broker tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import orbitmq
from orbitmq.spark.stream.admission import SupportsTriggerAvailableNow
from tests.spark.stream_rampage import output
from tests.tables.stored_topics import StoredTopics
from tests.trees import indexed, small_broker
from tests.waiting import WATCHDOG_S, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.pyspark

NAME = "test-stream-source"
# 4.0 and 4.1 have no admission control: a trigger that reads once reads one batch there, and a limit limits it.
ADMITS = hasattr(SupportsTriggerAvailableNow, "prepareForTriggerAvailableNow")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path / "store", name=NAME, flush_interval_ms=20) as broker:
        broker.create_topic("orders", queues=2)
        yield broker


def send(broker: orbitmq.Broker, count: int, topic: str = "orders") -> None:
    with broker.producer() as producer:
        producer.send_batch(topic, [b"%d" % number for number in range(count)])


def start(spark: SparkSession, folder: Path, trigger: dict[str, Any] | None = None, **options: str) -> StreamingQuery:
    """A query with the folder's output and checkpoint."""
    given = {"startingOffsets": "earliest", "columns": "topic,partition,offset,value", **options}
    if not {"path", "broker"} & set(given):
        given["broker"] = NAME
    if "subscribePattern" not in given:
        given["subscribe"] = "orders"
    writer = spark.readStream.format("orbitmq").options(**given).load().writeStream.format("parquet")
    writer = writer.option("path", str(folder / "out")).option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(**(trigger or {"processingTime": "20 milliseconds"})).start()


def finish(query: StreamingQuery) -> list[int]:
    """Waits for a query that ends by itself; the rows of its batches."""
    assert query.awaitTermination(WATCHDOG_S)
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def counts(folder: Path) -> dict[str, int]:
    """Messages in the output, by topic; each of them once, and without a gap."""
    if not (folder / "out" / "_spark_metadata").is_dir():
        return {}
    found = sorted(output(folder / "out"))
    ends: dict[tuple[str, int], int] = {}
    for topic, queue, offset, _ in found:
        assert offset == ends.get((topic, queue), 0)
        ends[topic, queue] = offset + 1
    return {name: sum(end for (topic, _), end in ends.items() if topic == name) for name in {topic for topic, _ in ends}}


@pytest.mark.oldest_pyspark("data_source", "stream.reader", "stream.admission")
def test_read_what_there_is_and_end(spark: SparkSession, broker: orbitmq.Broker, tmp_path: Path) -> None:
    send(broker, 100)
    assert finish(start(spark, tmp_path, {"availableNow": True})) == [100]
    assert finish(start(spark, tmp_path, {"availableNow": True})) == []
    send(broker, 10)
    broker.create_topic("orders", queues=3)
    send(broker, 30)
    assert finish(start(spark, tmp_path, {"once": True})) == [40]
    assert counts(tmp_path) == {"orders": 140}


@pytest.mark.oldest_pyspark("stream.reader", "stream.admission")
def test_limits(spark: SparkSession, broker: orbitmq.Broker, tmp_path: Path) -> None:
    send(broker, 100)
    found = finish(start(spark, tmp_path, {"availableNow": True}, maxOffsetsPerTrigger="30"))
    assert found == ([30, 30, 30, 10] if ADMITS else [30])
    send(broker, 100)
    found = finish(start(spark, tmp_path, {"once": True}, maxOffsetsPerTrigger="30"))
    assert found == ([100] if ADMITS else [30])
    query = start(spark, tmp_path, maxOffsetsPerTrigger="30")
    until(lambda: counts(tmp_path) == {"orders": 200}, "the query to have everything")
    query.stop()
    assert all(progress["numInputRows"] <= 30 for progress in query.recentProgress)


@pytest.mark.oldest_pyspark("stream.reader")
def test_new_topics_and_a_restart(spark: SparkSession, broker: orbitmq.Broker, tmp_path: Path) -> None:
    """latest, the default, means what there is when the query begins."""
    send(broker, 10)
    query = start(spark, tmp_path / "latest", subscribePattern="o.*", startingOffsets="latest")
    until(lambda: query.lastProgress is not None, "the first batch")
    broker.create_topic("others", queues=1)
    send(broker, 20, "others")
    until(lambda: counts(tmp_path / "latest") == {"others": 20}, "the new topic to be read")
    query.stop()
    send(broker, 5, "others")
    broker.create_topic("ours", queues=2)
    send(broker, 7, "ours")
    query = start(spark, tmp_path / "latest", subscribePattern="o.*", startingOffsets="latest")
    until(lambda: counts(tmp_path / "latest") == {"others": 25, "ours": 7}, "what came while no query ran")
    query.stop()


def test_the_broker_restarts(spark: SparkSession, tmp_path: Path) -> None:
    with small_broker(tmp_path / "store", name=NAME) as broker:
        broker.create_topic("orders", queues=2)
        send(broker, 10)
        query = start(spark, tmp_path)
        by_path = start(spark, tmp_path / "path", path=str(tmp_path / "store"))
        for folder in (tmp_path, tmp_path / "path"):
            until(lambda: counts(folder) == {"orders": 10}, "the first messages")
        send(broker, 5)
    until(lambda: counts(tmp_path / "path") == {"orders": 15}, "the files to be read without a broker")
    assert query.exception() is None
    with small_broker(tmp_path / "store", name=NAME) as broker:
        send(broker, 20)
        for folder in (tmp_path, tmp_path / "path"):
            until(lambda: counts(folder) == {"orders": 35}, "the messages of the restarted broker")
    query.stop()
    by_path.stop()


@pytest.mark.oldest_pyspark("stream.reader")
def test_lost_messages_end_a_query_unless_it_may_go_on(spark: SparkSession, tmp_path: Path) -> None:
    stored = StoredTopics(tmp_path / "store")
    stored.add("orders", 1)
    for number in range(300):
        stored.send("orders", b"%d" % number + bytes(1000))
        if number == 9:
            options = {"path": str(stored.root)}
            assert finish(start(spark, tmp_path, {"availableNow": True}, **options)) == [10]
    (stored.root / "commitlog" / f"{0:020d}").unlink()
    first = next(row[2] for row in stored.rows if row[8] >= 1 << 16)
    with pytest.raises(StreamingQueryException, match=f"(?s)OffsetOutOfRange: .*offset 10 .*failOnDataLoss.*{first} to 300"):
        finish(start(spark, tmp_path, {"availableNow": True}, **options))
    assert finish(start(spark, tmp_path, {"availableNow": True}, **options, failOnDataLoss="false")) == [300 - first]
    found = sorted(row[2] for row in output(tmp_path / "out"))
    assert found == [*range(10), *range(first, 300)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"subscribePattern": "("}, "SettingError: .*subscribePattern"),
        ({"broker": "no-such-broker"}, "BrokerNotRunning: .*no-such-broker"),
        ({"endingOffsets": "latest"}, "SettingError: .*endingOffsets.*a stream does not end"),
        ({"startingOffsets": '{"orders": {"0": 11}}'}, "OffsetOutOfRange: .*startingOffsets: 0 to 5"),
    ],
)
def test_mistakes_are_told(
    spark: SparkSession, broker: orbitmq.Broker, tmp_path: Path, options: dict[str, str], told: str
) -> None:
    send(broker, 10)
    with pytest.raises(StreamingQueryException, match=f"(?s){told}"):
        finish(start(spark, tmp_path, {"availableNow": True}, **options))


def test_the_lag_of_a_stream(spark: SparkSession, broker: orbitmq.Broker, tmp_path: Path) -> None:
    """As that of a group without members: what the query has written, also while it is stopped."""

    def lag() -> int | None:
        found = [group for group in broker.groups() if group.name == "dashboard"]
        assert not any(group.members for group in found)
        return found[0].lag_messages if found else None

    send(broker, 100)
    query = start(spark, tmp_path, group="dashboard", maxOffsetsPerTrigger="30")
    until(lambda: lag() == 0, "the query to have shown that it has everything")
    assert counts(tmp_path) == {"orders": 100}
    query.stop()
    send(broker, 7)
    broker.create_topic("orders", queues=3)
    indexed(broker)
    assert lag() == 7
    query = start(spark, tmp_path, group="dashboard")
    until(lambda: lag() == 0 and len(broker.group("dashboard").queues) == 3, "the query to go on")
    assert counts(tmp_path) == {"orders": 107}
    query.stop()
