"""Goal: a condition that is used leaves out exactly what it excludes, and one that cannot be used is returned. Method: single
conditions as Spark makes them; and queries of several, with and without pushing, over a store made by hand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from orbitmq.spark.source.batch_reader import OrbitReader
from orbitmq.spark.source.filters import narrowing
from orbitmq.spark.source.options import parse
from tests.tables.stored_topics import StoredTopics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.pyspark

PUSHES = "spark.sql.python.filterPushdown.enabled"


@dataclass(frozen=True)
class Condition:
    attribute: tuple[str, ...]
    value: Any


def condition(name: str, column: str, value: Any) -> Any:
    """Like Spark's classes, which PySpark 4.0 does not have."""
    return type(name, (Condition,), {})((column,), value)


def moment(ms: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredTopics:
    stored = StoredTopics(tmp_path_factory.mktemp("filters") / "store")
    stored.add("orders", 3)
    stored.add("bills", 2)
    for number in range(300):
        topic = "bills" if number % 3 == 0 else "orders"
        stored.send(topic, b"%d" % number, tags=(None, "Aa", "BB", "c")[number % 4])  # "Aa" and "BB" have one hash
    stored.vouch()
    return stored


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> StoredTopics:
    """Another program's store, whose clock went back by 200 ms after 400 of 600 messages."""
    stored = StoredTopics(tmp_path_factory.mktemp("stepped") / "store")
    stored.add("t", 2)
    for number in range(600):
        stored.send("t", b"%d" % number, store_ms=1_000_000 + number - (200 if number >= 400 else 0))
    return stored


def read(stored: StoredTopics, *conditions: Any, **options: str) -> tuple[list[tuple[str, int, int]], list[Any]]:
    reader = OrbitReader(parse({"path": str(stored.root), "subscribe": "orders,bills", **options}))
    rest = reader.pushFilters(list(conditions))
    rows = []
    for partition in reader.partitions():
        for batch in reader.read(partition):
            rows += [(row["topic"], row["partition"], row["offset"]) for row in batch.to_pylist()]
    return sorted(rows), rest


@pytest.mark.parametrize(
    ("name", "column", "value", "keeps"),
    [
        ("EqualTo", "topic", "bills", lambda row: row[0] == "bills"),
        ("In", "topic", ("bills", "nothing", None), lambda row: row[0] == "bills"),
        ("EqualTo", "partition", 1, lambda row: row[1] == 1),
        ("In", "partition", (0, 2), lambda row: row[1] in (0, 2)),
        ("GreaterThan", "partition", 0, lambda row: row[1] > 0),
        ("LessThanOrEqual", "partition", 1, lambda row: row[1] <= 1),
        ("EqualTo", "offset", 7, lambda row: row[2] == 7),
        ("In", "offset", (7,), lambda row: row[2] == 7),
        ("GreaterThan", "offset", 40, lambda row: row[2] > 40),
        ("GreaterThanOrEqual", "offset", 40, lambda row: row[2] >= 40),
        ("LessThan", "offset", 3, lambda row: row[2] < 3),
        ("LessThanOrEqual", "offset", -1, lambda row: False),
        ("EqualTo", "tags", "Aa", lambda row: row[4] == "Aa"),
        ("In", "tags", ("BB", "c"), lambda row: row[4] in ("BB", "c")),
        ("In", "tags", (), lambda row: False),
    ],
)
def test_conditions_that_are_taken(stored: StoredTopics, name: str, column: str, value: Any, keeps: Any) -> None:
    rows, rest = read(stored, condition(name, column, value))
    assert rest == [] and rows == [row[:3] for row in stored.of("orders", "bills") if keeps(row)]


@pytest.mark.parametrize(
    ("name", "ms", "keeps"),
    [
        ("GreaterThan", 1_000_100, lambda ms: ms > 1_000_100),
        ("GreaterThan", 1_000_100.5, lambda ms: ms > 1_000_100),
        ("GreaterThanOrEqual", 1_000_100, lambda ms: ms >= 1_000_100),
        ("LessThan", 1_000_100, lambda ms: ms < 1_000_100),
        ("LessThan", 1_000_100.5, lambda ms: ms <= 1_000_100),
        ("LessThanOrEqual", 1_000_100, lambda ms: ms <= 1_000_100),
        ("EqualTo", 1_000_100, lambda ms: ms == 1_000_100),
        ("EqualTo", 1_000_100.5, lambda ms: False),
        ("LessThan", -1, lambda ms: False),
        ("LessThanOrEqual", -10_000.5, lambda ms: False),
        ("EqualTo", -1_000, lambda ms: False),
        ("GreaterThan", -1_000, lambda ms: True),
    ],
)
def test_a_time_narrows_and_is_handed_back(stored: StoredTopics, name: str, ms: float, keeps: Any) -> None:
    asked = condition(name, "timestamp", moment(ms))
    rows, rest = read(stored, asked)
    assert rest == [asked] and rows == [row[:3] for row in stored.of("orders", "bills") if keeps(row[6])]


@pytest.mark.parametrize(
    "asked",
    [
        condition("Not", "topic", "bills"),
        condition("StringStartsWith", "topic", "b"),
        condition("EqualNullSafe", "tags", None),
        condition("EqualTo", "value", b"1"),
        condition("EqualTo", "offset", True),
        condition("GreaterThan", "tags", "a"),
        condition("LessThan", "timestamp", datetime(2024, 1, 1)),  # without a zone
        condition("In", "partition", (1, "2")),
        condition("In", "tags", tuple(f"tag{number}" for number in range(5000))),  # more than a reader compares with
    ],
)
def test_what_cannot_be_taken_changes_nothing(stored: StoredTopics, asked: Any) -> None:
    rows, rest = read(stored, asked)
    assert rest == [asked] and len(rows) == 300


def test_several_offsets_narrow_and_are_handed_back() -> None:
    asked = condition("In", "offset", (3, 9))
    found = narrowing([asked])
    assert found.offsets == (3, 10) and found.rest == [asked]


def test_sql92_meets_conditions_and_tags(stored: StoredTopics) -> None:
    """A batch and a stream read slices with the same options (read_slices)."""
    rows, _ = read(stored, condition("In", "tags", ("Aa", "c")), sql92="TAGS IN ('c', 'BB')")
    assert rows == [row[:3] for row in stored.of("orders", "bills") if row[4] == "c"]
    rows, _ = read(stored, sql92="TAGS IS NULL")
    assert rows == [row[:3] for row in stored.of("orders", "bills") if row[4] is None]


def test_conditions_meet_the_options(stored: StoredTopics) -> None:
    rows, _ = read(stored, condition("In", "tags", ("Aa", "c")), tags="c || BB")
    assert rows == [row[:3] for row in stored.of("orders", "bills") if row[4] == "c"]
    assert read(stored, condition("EqualTo", "tags", "Aa"), tags="BB")[0] == []
    assert read(stored, condition("GreaterThan", "offset", 5), condition("LessThan", "offset", 4))[0] == []


QUERIES = {
    "timestamp >= timestamp_millis(1000200) and timestamp < timestamp_millis(1000400)": lambda ms: 1_000_200 <= ms < 1_000_400,
    "timestamp < timestamp_millis(1000300)": lambda ms: ms < 1_000_300,
    "timestamp > timestamp_millis(1000350)": lambda ms: ms > 1_000_350,
    "timestamp = timestamp_millis(1000250)": lambda ms: ms == 1_000_250,
}


@pytest.mark.parametrize("pushes", ["true", "false"])
@pytest.mark.parametrize("ours", [False, True])
def test_times_that_went_back_lose_no_row(spark: SparkSession, stepped: StoredTopics, ours: bool, pushes: str) -> None:
    """ours: a broker of OrbitMQ's took the store over where the clock had gone back."""
    if ours:
        stepped.vouch(stepped.rows[400][8])
    before = spark.conf.get(PUSHES)
    spark.conf.set(PUSHES, pushes)
    try:
        frame = spark.read.format("orbitmq").options(path=str(stepped.root), subscribe="t").load()
        for query, keeps in QUERIES.items():
            found = sorted((row.partition, row.offset) for row in frame.where(query).collect())
            assert found == sorted(row[1:3] for row in stepped.rows if keeps(row[6])), query
    finally:
        spark.conf.set(PUSHES, before)


def test_only_what_rises_is_narrowed(stepped: StoredTopics) -> None:
    stepped.vouch(stepped.rows[400][8])
    reader = OrbitReader(parse({"path": str(stepped.root), "subscribe": "t"}))
    reader.pushFilters([condition("LessThan", "timestamp", moment(1_000_300))])
    assert [(each.queue, each.begin, each.end) for each in reader._slices] == [(0, 0, 250), (1, 0, 250)]
    reader.pushFilters([condition("GreaterThanOrEqual", "timestamp", moment(1_000_280))])
    assert [(each.queue, each.begin, each.end) for each in reader._slices] == [
        (queue, *piece) for queue in (0, 1) for piece in ((0, 200), (240, 250))
    ]


@pytest.mark.oldest_pyspark("source.batch_reader")
@pytest.mark.parametrize("pushes", ["true", "false"])
def test_queries_with_and_without_pushing(spark: SparkSession, stored: StoredTopics, pushes: str) -> None:
    before = spark.conf.get(PUSHES)
    spark.conf.set(PUSHES, pushes)
    try:
        frame = spark.read.format("orbitmq").options(path=str(stored.root), subscribe="orders,bills").load()
        queries = {
            "tags = 'Aa' and partition in (0, 1) and offset >= 5": lambda row: row[4] == "Aa" and row[1] < 2 and row[2] >= 5,
            "timestamp > timestamp_millis(1000100) and topic = 'bills'": lambda row: row[6] > 1_000_100 and row[0] == "bills",
            "tags is null and offset < 9": lambda row: row[4] is None and row[2] < 9,
        }
        for query, keeps in queries.items():
            found = frame.where(query).collect()
            wanted = [row[:3] for row in stored.of("orders", "bills") if keeps(row)]
            assert sorted((row.topic, row.partition, row.offset) for row in found) == wanted
    finally:
        spark.conf.set(PUSHES, before)
