"""Goal: a query sees every message that it asks for once, with everything that was stored, and errors name the options. Method:
Spark over a store made by hand. Also of spark/source/batch_reader.py and spark/schema.py."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema

from orbitmq.errors import ColumnError, CorruptRecord, OffsetOutOfRange, StoreError
from orbitmq.native._types import Reader
from orbitmq.spark import schema as source_schema
from orbitmq.spark.data_source import OrbitSource
from orbitmq.spark.source.options import columns_of
from orbitmq.tables.columns import COLUMNS, batches, schema
from tests.tables.stored_topics import Row, StoredTopics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.pyspark

SENDERS, BROKERS = ("127.0.0.1", "10.1.2.3", "fd00::5"), ("10.1.2.4", "fd00::6")  # of messages to "named"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredTopics:
    stored = StoredTopics(tmp_path_factory.mktemp("spark") / "store")
    stored.add("orders", 4)
    stored.add("bills", 1)
    stored.add("empty", 8)
    stored.add("named", 2)
    for number in range(100):
        named = {"color": f"c{number}", "UNIQ_KEY": f"u{number}"} if number % 4 == 0 else {}
        hosts = {"born_host": (SENDERS[number % 3], 1), "store_host": (BROKERS[number % 2], 2)}
        stored.send("named", b"%d" % number, properties=named, **hosts)
    for number in range(1000):
        tags, keys = (None, None) if number % 3 == 0 else (f"tag{number % 5}", f"k{number} of{number % 7}")
        stored.send("orders", b"%d" % number * (number % 40), tags=tags, keys=keys, flag=number - 500)
        if number % 10 == 0:
            stored.send("bills", b"", keys="\u00e4")
    return stored


def load(spark: SparkSession, stored: StoredTopics, topics: str, **options: str) -> DataFrame:
    return spark.read.format("orbitmq").options(path=str(stored.root), subscribe=topics, **options).load()


def rows(frame: DataFrame) -> list[Row]:
    """Of a frame with every column."""
    chosen = frame.selectExpr(
        *("topic", "partition", "offset", "value", "tags", "keys"),
        *("unix_millis(timestamp) as stored", "unix_millis(born_timestamp) as born", "physical_offset", "flag", "key"),
    )
    found = []
    for row in chosen.collect():
        assert row.key == (None if row["keys"] is None else " ".join(row["keys"]).encode())
        found.append(tuple(bytes(value) if isinstance(value, bytearray) else value for value in row[:10]))
    return sorted(found)


@pytest.mark.oldest_pyspark("session", "data_source", "source.batch_reader")
def test_every_row_once_with_all_its_columns(spark: SparkSession, stored: StoredTopics) -> None:
    frame = load(spark, stored, "orders, bills")
    assert frame.columns == [name for name in COLUMNS if name != "headers"]
    assert rows(frame) == stored.of("orders", "bills")


@pytest.mark.oldest_pyspark("data_source")
def test_a_session_that_nobody_told_finds_the_format(spark: SparkSession, stored: StoredTopics) -> None:
    """As test_fresh_session.py, without a JVM of its own: a new session knows only what Spark finds by itself."""
    assert load(spark.newSession(), stored, "bills").count() == 100


@pytest.mark.oldest_pyspark("source.batch_reader")
@pytest.mark.parametrize("options", [{"minPartitions": "7"}, {"maxRecordsPerPartition": "99"}])
def test_in_several_partitions(spark: SparkSession, stored: StoredTopics, options: dict[str, str]) -> None:
    frame = load(spark, stored, "orders", **options)
    assert frame.rdd.getNumPartitions() >= 7
    assert rows(frame) == stored.of("orders")


def test_between_offsets(spark: SparkSession, stored: StoredTopics) -> None:
    ends = {"startingOffsets": '{"orders": {"0": 100}}', "endingOffsets": '{"orders": {"0": 130, "1": 0, "2": 5, "3": 0}}'}
    frame = load(spark, stored, "orders", **ends)
    wanted = {(0, offset) for offset in range(100, 130)} | {(2, offset) for offset in range(5)}
    assert rows(frame) == [row for row in stored.of("orders") if row[1:3] in wanted]


def test_an_empty_topic(spark: SparkSession, stored: StoredTopics) -> None:
    assert load(spark, stored, "empty").count() == 0


def test_only_some_columns(spark: SparkSession, stored: StoredTopics) -> None:
    frame = load(spark, stored, "orders", columns="offset,partition")
    assert frame.columns == ["offset", "partition"]
    assert sorted((row.partition, row.offset) for row in frame.collect()) == [row[1:3] for row in stored.of("orders")]


@pytest.mark.oldest_pyspark("source.batch_reader")
def test_columns_of_one_message(spark: SparkSession, stored: StoredTopics) -> None:
    """Those that the rows of stored_topics.py do not have."""
    for row in load(spark, stored, "named", includeHeaders="true").collect():
        sent = next(each for each in stored.rows if each[:3] == (row.topic, row.partition, row.offset))
        number = int(bytes(row.value))
        named = number % 4 == 0
        assert row.properties == ({"color": f"c{number}", "UNIQ_KEY": f"u{number}"} if named else {})
        assert [(pair["key"], bytes(pair["value"])) for pair in row.headers or ()] == [("color", b"c%d" % number)][:named]
        assert (row.headers is None) != named and row.timestampType == 1 and row.reconsume_times == 0
        born, broker = SENDERS[number % 3], BROKERS[number % 2]
        assert row.born_host == (f"[{born}]:1" if ":" in born else f"{born}:1")
        assert row.store_host == (f"[{broker}]:2" if ":" in broker else f"{broker}:2")
        assert row.message_id == f"{ip_address(broker).packed.hex().upper()}00000002{sent[8]:016X}"


def test_only_some_tags(spark: SparkSession, stored: StoredTopics) -> None:
    assert rows(load(spark, stored, "orders", tags="tag1 || tag4")) == [
        row for row in stored.of("orders") if row[4] in ("tag1", "tag4")
    ]


def test_topics_of_a_pattern_and_assigned_queues(spark: SparkSession, stored: StoredTopics) -> None:
    read = spark.read.format("orbitmq").option("path", str(stored.root))
    assert rows(read.option("subscribePattern", ".*ls|ord.*").load()) == stored.of("orders", "bills")
    read = spark.read.format("orbitmq").option("path", str(stored.root))
    assigned = read.option("assign", '{"orders": [3, 1]}').load()
    assert rows(assigned) == [row for row in stored.of("orders") if row[1] in (1, 3)]


def test_between_moments(spark: SparkSession, stored: StoredTopics) -> None:
    moments = sorted(row[6] for row in stored.of("orders"))
    ends = {"startingTimestamp": str(moments[100]), "endingTimestamp": str(moments[900])}
    assert rows(load(spark, stored, "orders", **ends)) == [
        row for row in stored.of("orders") if moments[100] <= row[6] < moments[900]
    ]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"subscribe": "nothing"}, "UnknownTopic: cannot read topic 'nothing'.* bills, empty, named, orders"),
        ({"startingOffsets": '{"orders": {"0": 251}}'}, "OffsetOutOfRange: .*startingOffsets: 0 to 250"),
        ({"assign": "{}"}, "SettingError: .*subscribe and assign are given"),
        ({"startingTimestamp": "9999999999999"}, "OffsetOutOfRange: .*startingTimestamp.*startingOffsetsByTimestampStrategy"),
        ({"columns": "body"}, "SettingError: .*columns"),
        ({"path": "/nowhere"}, "SettingError: .*/nowhere"),
        ({"minPartition": "3"}, "SettingError: .*minPartitions"),
    ],
)
def test_mistakes_are_told(spark: SparkSession, stored: StoredTopics, options: dict[str, str], told: str) -> None:
    given = {"path": str(stored.root), "subscribe": "orders", **options}
    with pytest.raises(PySparkException, match=f"(?s){told}"):
        spark.read.format("orbitmq").options(**given).load().count()


@pytest.mark.oldest_pyspark("data_source")
def test_a_schema_of_the_users_own_is_refused(spark: SparkSession, stored: StoredTopics) -> None:
    given = {"path": str(stored.root), "subscribe": "orders"}
    with pytest.raises(PySparkException, match=r"(?s)ColumnError: .*struct<value:binary>.*option columns"):
        spark.read.schema("value binary").format("orbitmq").options(**given).load().count()
    same = spark.read.schema("value binary not null").format("orbitmq").options(**given, columns="value").load()
    assert same.count() == len(stored.of("orders"))


@pytest.mark.oldest_pyspark("source.batch_reader")
def test_a_damaged_record_is_named(spark: SparkSession, tmp_path: Path) -> None:
    stored = StoredTopics(tmp_path / "store")
    stored.add("t", 1)
    for _ in range(3):
        stored.send("t", b"body")
    stored.spoil(stored.rows[1][8])
    with pytest.raises(PySparkException, match=f"(?s)CorruptRecord: .*{stored.rows[1][8]}"):
        load(spark, stored, "t").count()


def test_a_damaged_body_is_told_to_who_reads_it(tmp_path: Path) -> None:
    stored = StoredTopics(tmp_path / "store")
    stored.add("t", 1)
    for _ in range(3):
        stored.send("t", b"body")
    stored.spoil_body(stored.rows[1][8])
    options = {"path": str(stored.root), "subscribe": "t", "failOnDataLoss": "false"}
    with pytest.raises(CorruptRecord) as caught:
        read_all(OrbitSource(options))
    assert caught.value.offset == stored.rows[1][8]
    assert len(read_all(OrbitSource({**options, "columns": "offset"}))) == 3


def test_the_two_schemas_are_one() -> None:
    """That of Spark and that of Arrow, as Spark turns one into the other."""
    names = list(COLUMNS)
    source_schema.check(from_arrow_schema(schema(names)), names)
    for changed in (names[1:], names[::-1]):
        with pytest.raises(ColumnError, match="columns of its own"):
            source_schema.check(from_arrow_schema(schema(names)), changed)


def planned(source: OrbitSource) -> Any:
    """Its reader, made as Spark makes it."""
    return source.reader(from_arrow_schema(schema(columns_of(source.options))))


def read_all(source: OrbitSource) -> list[dict[str, Any]]:
    reader = planned(source)
    batches = (batch for part in reader.partitions() for batch in reader.read(part))
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture
def shortened(tmp_path: Path) -> tuple[StoredTopics, dict[str, str]]:
    """Several log files of one queue, and options that cut it in two."""
    stored = StoredTopics(tmp_path / "store")
    stored.add("t", 1)
    for number in range(200):
        stored.send("t", b"%d" % number + bytes(1000))
    return stored, {"path": str(stored.root), "subscribe": "t", "maxRecordsPerPartition": "100"}


def test_what_goes_after_planning_is_told(shortened: tuple[StoredTopics, dict[str, str]]) -> None:
    """A task that comes too late says so, and what is left."""
    stored, options = shortened
    reader = planned(OrbitSource(options))
    late, early = reader.partitions()
    first = next(row[2] for row in stored.rows if row[8] >= 1 << 16)
    (stored.root / "commitlog" / f"{0:020d}").unlink()
    with pytest.raises(OffsetOutOfRange, match=r"retention has removed it.*failOnDataLoss") as caught:
        list(reader.read(late))
    assert (caught.value.topic, caught.value.queue, caught.value.minimum) == ("t", 0, first)
    assert sum(batch.num_rows for batch in reader.read(early)) == 100


def test_what_goes_after_planning_is_left_out(
    shortened: tuple[StoredTopics, dict[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    stored, options = shortened
    reader = planned(OrbitSource({**options, "failOnDataLoss": "false"}))
    late, _ = reader.partitions()
    first = next(row[2] for row in stored.rows if row[8] >= 1 << 16)
    (stored.root / "commitlog" / f"{0:020d}").unlink()
    found = [row["offset"] for batch in reader.read(late) for row in batch.to_pylist()]
    assert found == list(range(first, 100))
    assert f"{first} messages are left out" in caplog.text


def test_a_segment_that_goes_while_it_is_read(shortened: tuple[StoredTopics, dict[str, str]]) -> None:
    """What a task has mapped stays. What it reads later is gone, and retention did not remove it."""
    stored, options = shortened
    reader = planned(OrbitSource(options))
    _, late = reader.partitions()
    logs = sorted((stored.root / "commitlog").iterdir())
    pieces = columns_in_pieces(reader, late)
    assert next(pieces).num_rows == 5
    logs[-1].unlink()
    with pytest.raises(StoreError, match=logs[-1].name.lstrip("0")):
        list(pieces)


def columns_in_pieces(reader: Any, partition: Any) -> Iterator[pa.RecordBatch]:
    part = partition.slices[0]
    found = Reader(store=reader._root, log_file_size=reader._sizes[0], queue_file_units=reader._sizes[1])
    found.add_offline(part.topic, part.queue, part.begin, part.end)
    yield from batches(found, ["offset"], rows=5)
