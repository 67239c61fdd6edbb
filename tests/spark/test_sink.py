"""Goal: DataFrames become messages, in batches and in streams, with every column; what cannot be sent is refused when the query
is planned. Method: a broker and a Spark session; what was written is read from the log. Of spark/sink/writer.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import orbitmq
from orbitmq.spark.sink.staging import Staging
from orbitmq.store.layout import StoreLayout
from tests.spark.sink_rows import left, messages
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BROKER = "sink-tests"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with orbitmq.Broker(tmp_path / "store", name=BROKER, handlers=1, log_file_size=1 << 26) as made:
        made.create_topic("t", 3)
        made.create_topic("u", 1)
        yield made


@pytest.fixture
def store(tmp_path: Path, broker: orbitmq.Broker) -> Path:
    return tmp_path / "store"


def write(frame: DataFrame, **options: str) -> None:
    frame.write.format("orbitmq").options(broker=BROKER, **options).mode("append").save()


def staged(store: Path) -> list[str]:
    return left(Staging(StoreLayout.at(store).own / "spark"))


def bodies(store: Path, topic: str = "t") -> list[str]:
    return [bytes(message.body).decode() for queue in messages(store, topic) for message in queue]


@pytest.mark.oldest_pyspark("data_source", "sink.writer")
def test_every_column(spark: SparkSession, store: Path) -> None:
    frame = spark.sql("""
        select * from values
            ('a', 't', 2, 'red', array('k1', 'k2'), map('p', '1'), 7),
            ('b', 'u', null, null, null, null, null)
        as rows(value, topic, partition, tags, keys, properties, flag)
    """)
    write(frame)
    queues = messages(store)
    assert [len(queue) for queue in queues] == [0, 0, 1]
    [message] = queues[2]
    assert (bytes(message.body), message.tags, message.keys, message.flag) == (b"a", "red", ["k1", "k2"], 7)
    assert message.properties["p"] == "1"
    assert set(message.properties) == {"TAGS", "KEYS", "p", "SPARK_ROW"}
    [[other]] = messages(store, "u")
    assert (bytes(other.body), other.tags, other.keys, other.flag) == (b"b", None, [], 0)
    assert set(other.properties) == {"SPARK_ROW"}


def test_as_kafkas_sink_is_fed(spark: SparkSession, store: Path, broker: orbitmq.Broker) -> None:
    """Rows of one key share a queue, the one that queue_key= would give; headers become properties."""
    frame = spark.range(3000).selectExpr(
        "cast(id % 10 as string) as key",
        "to_json(struct(id)) as value",
        "array(named_struct('key', 'g', 'value', cast('x' as binary))) as headers",
    )
    write(frame, topic="t")
    queues = messages(store)
    places = {key: number for number, queue in enumerate(queues) for key in {message.keys[0] for message in queue}}
    assert sum(map(len, queues)) == 3000
    assert sum(len({message.keys[0] for message in queue}) for queue in queues) == len(places) == 10
    with broker.producer() as producer:
        assert {key: producer.send("t", b"", queue_key=key).queue for key in places} == places
    assert all(message.properties["g"] == "x" for queue in queues for message in queue)


@pytest.mark.oldest_pyspark("sink.writer", "source.batch_reader")
def test_what_was_read_is_written(spark: SparkSession, store: Path) -> None:
    write(spark.range(100).selectExpr("cast(id as string) value", "'k' as key", "'red' as tags"), topic="t")
    frame = spark.read.format("orbitmq").option("broker", BROKER).option("subscribe", "t").load()
    write(frame.drop("partition"), topic="u")
    [copies] = messages(store, "u")
    assert Counter((bytes(each.body), each.tags, each.keys[0]) for each in copies) == Counter(
        (b"%d" % number, "red", "k") for number in range(100)
    )


def test_without_rows(spark: SparkSession, store: Path) -> None:
    write(spark.range(0).selectExpr("cast(id as string) value"), topic="t")
    assert bodies(store) == []


@pytest.mark.oldest_pyspark("sink.writer")
def test_once_under_a_name(spark: SparkSession, store: Path) -> None:
    """A job that is run again under the same queryId, or a batch of it, stores nothing."""
    frame = spark.range(10).selectExpr("cast(id as string) value")
    for batch in ("0", "0", "1", "0", "1"):
        write(frame, topic="t", queryId="nightly", batchId=batch)
    assert Counter(bodies(store)) == {str(number): 2 for number in range(10)}
    assert staged(store) == []


def test_once_in_each_topic(spark: SparkSession, store: Path) -> None:
    """Like a foreachBatch that writes a batch twice: to two topics, and again after a failure."""
    frame = spark.range(10).selectExpr("cast(id as string) value")
    for topic in ("t", "u", "t", "u"):
        write(frame, topic=topic, queryId="both", batchId="0")
    assert Counter(bodies(store)) == Counter(bodies(store, "u")) == {str(number): 1 for number in range(10)}


@pytest.mark.oldest_pyspark("sink.writer")
def test_a_job_that_is_aborted_stores_nothing(spark: SparkSession, store: Path) -> None:
    """Its last task fails, after the others have staged all of theirs."""
    frame = spark.range(0, 1000, 1, 4).selectExpr("if(id = 999, raise_error('no more'), cast(id as string)) value")
    with pytest.raises(Exception, match="no more"):
        write(frame, topic="t")
    assert bodies(store) == []
    assert staged(store) == []


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        ("id", {"topic": "t"}, "cannot write column 'id': the sink has no such column"),
        ("id as value", {"topic": "t"}, "cannot write column 'value' of type bigint: string or binary would do"),
        ("'x' as value", {}, "neither the option topic nor a column 'topic'"),
        ("'x' as value", {"topic": "nowhere"}, "cannot write to topic 'nowhere': there is no such topic; create it: orbitmq"),
        ("'x' as value, 'nowhere' as topic", {}, "cannot write to topic 'nowhere': there is no such topic"),
        ("'x' as value, 9 as partition", {"topic": "t"}, "cannot write to queue 9 of topic 't'"),
        ("cast(null as string) as value", {"topic": "t"}, "cannot write a row whose value is null"),
        ("repeat('x', 5000000) as value", {"topic": "t"}, "cannot write a row whose record takes 5,000,176 bytes"),
        ("'x' as value", {"topic": "t", "topics": "t"}, "there is no such option; did you mean topic"),
    ],
)
def test_refused(spark: SparkSession, store: Path, frame: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(Exception, match=words):
        write(spark.sql(f"select {frame} from range(2)"), **options)
    assert bodies(store) == []
    assert staged(store) == []


@pytest.mark.oldest_pyspark("data_source")
@pytest.mark.parametrize(
    ("mode", "words"),
    [("overwrite", "the messages in a log cannot be replaced; use mode"), ("error", "ErrorIfExists"), ("ignore", "Ignore")],
)
def test_other_modes(spark: SparkSession, store: Path, mode: str, words: str) -> None:
    frame = spark.range(2).selectExpr("cast(id as string) value")
    with pytest.raises(Exception, match=words):
        frame.write.format("orbitmq").options(broker=BROKER, topic="t").mode(mode).save()


def test_no_broker(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(2).selectExpr("cast(id as string) value")
    with pytest.raises(Exception, match="BrokerNotRunning"):
        frame.write.format("orbitmq").options(broker="nobody", topic="t").mode("append").save()
    with pytest.raises(Exception, match=r"BrokerNotRunning: cannot connect to the broker of the store .* none runs on it"):
        frame.write.format("orbitmq").options(topic="t").mode("append").save(str(tmp_path))


def start(frame: DataFrame, folder: Path, **options: str) -> Any:
    writer = frame.writeStream.format("orbitmq").options(
        broker=BROKER, checkpointLocation=str(folder / "checkpoint"), **options
    )
    return writer.trigger(availableNow=True).start()


@pytest.mark.oldest_pyspark("data_source", "sink.writer")
def test_a_stream(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    """Two runs of one query, a file a batch: each line is stored once, and nothing is left behind."""
    source = tmp_path / "in"
    source.mkdir()
    lines: list[str] = []
    for run in range(2):
        for number in range(2):
            text = [f"{run} {number} {line}" for line in range(100)]
            (source / f"{run}{number}.txt").write_text("\n".join(text))
            lines += text
        query = start(spark.readStream.format("text").option("maxFilesPerTrigger", "1").load(str(source)), tmp_path, topic="t")
        query.awaitTermination()
        assert query.exception() is None
        assert Counter(bodies(store)) == Counter(lines)
    names = {message.properties["SPARK_ROW"].rsplit("-", 1)[0] for queue in messages(store) for message in queue}
    assert len({name.partition("-")[0] for name in names}) == 1
    assert sorted(int(name.partition("-")[2]) for name in names) == [0, 1, 2, 3]
    assert staged(store) == []


@pytest.mark.oldest_pyspark("sink.writer")
def test_a_stream_that_forgot_its_last_commit(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    """The driver dies when the sink has stored a batch and Spark has not noted it. Method: Spark's note is removed."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\ntwo\n")
    frame = spark.readStream.format("text").load(str(tmp_path / "in"))
    for _ in range(2):
        start(frame, tmp_path, topic="t").awaitTermination()
        for note in (tmp_path / "checkpoint" / "commits").iterdir():
            note.unlink()
    assert sorted(bodies(store)) == ["one", "two"]
    assert staged(store) == []


def test_staged_elsewhere(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    """What is staged is there while the job runs, and the store remembers the query."""
    elsewhere = tmp_path / "elsewhere"
    options = {"topic": "t", "stagingLocation": str(elsewhere), "queryId": "q"}
    write(spark.range(10).selectExpr("cast(id as string) value"), **options)
    write(spark.range(10).selectExpr("cast(id as string) value"), **options)
    assert len(bodies(store)) == 10
    assert [path.name for path in elsewhere.iterdir()]
    assert list(elsewhere.rglob("*.arrow")) == []
    assert not Staging(StoreLayout.at(store).own / "spark").staged.exists()


@pytest.mark.oldest_pyspark("data_source")
def test_a_stream_that_cannot_be(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    rates = spark.readStream.format("rate").load()
    query = start(rates.selectExpr("value"), tmp_path, topic="t")
    until(query.exception, "the query to fail")
    assert "column 'value' of type bigint: string or binary would do" in str(query.exception())
