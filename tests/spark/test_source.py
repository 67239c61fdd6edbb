"""Goal: a query sees every message that it asks for once, with all that was stored, and mistakes are told in the terms of the
options. Method: Spark over a store made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from orbitmq.errors import OffsetOutOfRange
from orbitmq.spark.columns import COLUMNS
from orbitmq.spark.source import OrbitSource
from tests.spark.stored_topics import Row, StoredTopics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredTopics:
    stored = StoredTopics(tmp_path_factory.mktemp("spark") / "store")
    stored.add("orders", 4)
    stored.add("bills", 1)
    stored.add("empty", 8)
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


def test_every_row_once_with_all_its_columns(spark: SparkSession, stored: StoredTopics) -> None:
    frame = load(spark, stored, "orders, bills")
    assert frame.columns == [name for name in COLUMNS if name != "headers"]
    assert rows(frame) == stored.of("orders", "bills")


@pytest.mark.parametrize("options", [{"minPartitions": "7"}, {"maxRecordsPerPartition": "99"}])
def test_in_several_partitions(spark: SparkSession, stored: StoredTopics, options: dict[str, str]) -> None:
    frame = load(spark, stored, "orders", **options)
    assert frame.rdd.getNumPartitions() >= 7
    assert rows(frame) == stored.of("orders")


def test_between_offsets(spark: SparkSession, stored: StoredTopics) -> None:
    ends = {"startingOffsets": '{"orders": {"0": 100, "1": -1}}', "endingOffsets": '{"orders": {"0": 130, "2": 5, "3": 0}}'}
    frame = load(spark, stored, "orders", **ends)
    wanted = {(0, offset) for offset in range(100, 130)} | {(2, offset) for offset in range(5)}
    assert rows(frame) == [row for row in stored.of("orders") if row[1:3] in wanted]


def test_an_empty_topic(spark: SparkSession, stored: StoredTopics) -> None:
    assert load(spark, stored, "empty").count() == 0


def test_only_some_columns(spark: SparkSession, stored: StoredTopics) -> None:
    frame = load(spark, stored, "orders", columns="offset,partition")
    assert frame.columns == ["offset", "partition"]
    assert sorted((row.partition, row.offset) for row in frame.collect()) == [row[1:3] for row in stored.of("orders")]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"subscribe": "nothing"}, "UnknownTopic: cannot read topic 'nothing'.* bills, empty, orders"),
        ({"startingOffsets": '{"orders": {"0": 251}}'}, "OffsetOutOfRange: .*startingOffsets: 0 to 250"),
        ({"columns": "body"}, "SettingError: .*columns"),
        ({"path": "/nowhere"}, "SettingError: .*/nowhere"),
        ({"minPartition": "3"}, "SettingError: .*minPartitions"),
    ],
)
def test_mistakes_are_told(spark: SparkSession, stored: StoredTopics, options: dict[str, str], told: str) -> None:
    given = {"path": str(stored.root), "subscribe": "orders", **options}
    with pytest.raises(PySparkException, match=f"(?s){told}"):
        spark.read.format("orbitmq").options(**given).load().count()


def test_a_damaged_record_is_named(spark: SparkSession, tmp_path: Path) -> None:
    stored = StoredTopics(tmp_path / "store")
    stored.add("t", 1)
    for _ in range(3):
        stored.send("t", b"body")
    stored.spoil(stored.rows[1][8])
    with pytest.raises(PySparkException, match=f"(?s)CorruptRecord: .*{stored.rows[1][8]}"):
        load(spark, stored, "t").count()


def test_what_goes_after_planning_is_told(tmp_path: Path) -> None:
    """A task that comes too late says so, and what is left."""
    stored = StoredTopics(tmp_path / "store")
    stored.add("t", 1)
    for number in range(200):
        stored.send("t", b"%d" % number + bytes(1000))
    source = OrbitSource({"path": str(stored.root), "subscribe": "t", "maxRecordsPerPartition": "100"})
    reader = source.reader(StructType())
    late, early = reader.partitions()
    first = next(row[2] for row in stored.rows if row[8] >= 1 << 16)
    (stored.root / "commitlog" / f"{0:020d}").unlink()
    with pytest.raises(OffsetOutOfRange, match="retention has removed it") as caught:
        list(reader.read(late))
    assert (caught.value.topic, caught.value.queue, caught.value.minimum) == ("t", 0, first)
    assert sum(batch.num_rows for batch in reader.read(early)) == 100  # type: ignore[misc]
