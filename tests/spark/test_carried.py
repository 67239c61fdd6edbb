"""Goal: keys and headers as Kafka has them come back from the source as the sink got them, and what needs no encoding is not
encoded. Method: columns by hand, through the sink's properties and back; at random, and through Spark and a broker."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import orbitmq
from orbitmq.shm.property_name import reserved_property
from orbitmq.spark.sink.columns import Shape
from orbitmq.store.commit_log.record import unpack_properties
from orbitmq.tables import carried, columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
KIND = columns.schema(["headers"]).field("headers").type
Headers = list[tuple[str, bytes | None]] | None

ODD: list[Headers] = [
    [("h", b"")],
    [("h", None)],
    [("h", b"\xff\x00")],
    [("h", b"1"), ("h", b"2")],
    [("h", b"1"), ("g", b"x"), ("h", b"1")],
    [("", b"v")],
    [("a\1b", b"v"), ("plain", b"yes")],
    [("h", b"a\2b")],
    [("TAGS", b"a || b"), ("KEYS", b"k"), ("DELAY", b"3"), ("WAIT", b"x"), ("__CRC32#", b"1")],
    [("SPARK_ROW", b"1"), ("SPARK_HEADERS", b",aA==:dg==")],
    [("h", "日本".encode()), ("e", b"")],
]
PLAIN: list[Headers] = [None, [], [("h", b"v")], [("h", "日本".encode()), ("g", b"x y")]]


def sent(headers: list[Headers], **more: Any) -> list[dict[str, str]]:
    array = pa.array([None if row is None else [{"key": k, "value": v} for k, v in row] for row in headers], HEADERS)
    batch = pa.record_batch({"value": ["x"] * len(headers), "headers": array, **more})
    return [unpack_properties(each) for each in Shape("t", 1 << 20).messages(batch)["properties"].to_pylist()]


def read(stored: list[dict[str, str]]) -> list[Headers]:
    """As the native side gives them: without what RocketMQ keeps beside them, and with the name of the row."""
    rows = [[(k, v.encode()) for k, v in {**each, "SPARK_ROW": "q-1"}.items() if not reserved_property(k)] for each in stored]
    found = carried.headers_read(pa.array([[{"key": k, "value": v} for k, v in row] for row in rows], HEADERS), KIND)
    found.validate(full=True)
    return [None if row is None else [(pair["key"], pair["value"]) for pair in row] for row in found.to_pylist()]


def test_odd_headers_come_back() -> None:
    assert read(sent(ODD)) == ODD
    assert all("SPARK_HEADERS" in each for each in sent(ODD))


def test_plain_headers_are_properties() -> None:
    assert read(sent(PLAIN)) == [row or None for row in PLAIN]
    assert not any("SPARK_HEADERS" in each for each in sent(PLAIN))
    among = sent([*PLAIN, *ODD])
    assert among[: len(PLAIN)] == sent(PLAIN), "a row does not depend on the others of its batch"
    assert sent([[("plain", b"yes"), ("odd", b"")]])[0]["plain"] == "yes", "other readers see what they can"


def test_headers_that_mean_something() -> None:
    """A tag or key may come as a header, if there is no column for it; but no tag that no filter could find."""
    assert sent([[("TAGS", b"red")]])[0]["TAGS"] == "red"
    assert sent([[("TAGS", b"red")]], tags=["blue"])[0]["TAGS"] == "blue"
    assert "TAGS" not in sent([[("TAGS", b"a||b")]])[0]
    assert "DELAY" not in sent([[("DELAY", b"3")]])[0]


@pytest.mark.parametrize(
    ("key", "stored"),
    [
        (None, None),
        (b"plain", "plain"),
        (b"one  two ", "one  two "),
        (b"", "SPARK_KEY:"),
        (b"\xff\xfe", "SPARK_KEY://4="),
        (b"a\1b", "SPARK_KEY:YQFi"),
        (b"SPARK_KEY:YQ==", "SPARK_KEY:U1BBUktfS0VZOllRPT0="),
    ],
)
def test_keys_come_back(key: bytes | None, stored: str | None) -> None:
    batch = pa.record_batch({"value": ["x", "y"], "key": pa.array([key, b"k"], pa.binary())})
    [one, other] = [unpack_properties(each) for each in Shape("t", 1 << 20).messages(batch)["properties"].to_pylist()]
    assert (one.get("KEYS"), other["KEYS"]) == (stored, "k")
    assert carried.keys_read(pa.array([stored, "k"]), pa.binary()).to_pylist() == [key, b"k"]


@pytest.mark.parametrize("stored", ["SPARK_KEY:x", "SPARK_KEY:YQ=", "SPARK_KEY:YR==", "spark_key:YQ=="])
def test_what_is_none_of_ours_stays(stored: str) -> None:
    assert carried.keys_read(pa.array([stored]), pa.binary()).to_pylist() == [stored.encode()]
    text = stored.removeprefix("SPARK_KEY:")
    shown = read([{"SPARK_HEADERS": text, "h": "1"}])
    assert shown == [[("SPARK_HEADERS", text.encode()), ("h", b"1")]]


def test_names_that_are_no_text_are_read() -> None:
    names = pa.array([b"\xff", b"SPARK_ROW"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, names.buffers())
    pairs = pa.StructArray.from_arrays([text, pa.array([b"v", b"w"])], ["key", "value"])
    found = carried.headers_read(pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), pairs), KIND)
    assert found.flatten().field(0).cast(pa.binary()).to_pylist() == [b"\xff"]


@pytest.mark.parametrize("seed", range(5))
def test_at_random(seed: int) -> None:
    print("seed", seed)
    rng = random.Random(seed)
    names = ["a", "b", "c\1", "", "TAGS", "SPARK_HEADERS", "日"]
    values = [b"", None, b"1", b"\xff", b"\1", b"x,y:z=", "日".encode()]
    rows: list[Headers] = [
        rng.choice([None, [(rng.choice(names), rng.choice(values)) for _ in range(rng.randrange(4))]]) for _ in range(300)
    ]
    assert read(sent(rows)) == [row or None for row in rows]


@pytest.mark.oldest_pyspark("source.batch_reader", "sink.writer")
def test_through_spark_and_a_broker(spark: SparkSession, tmp_path: Path) -> None:
    """As a stream from Kafka writes them, and as a stream that reads the topic gets them."""
    rows = [
        (b"\x00\xff", b"1", [("h", b""), ("h", None)]),
        (b"", b"2", [("h", b"\xfe"), ("g", b"x")]),
        (None, b"3", None),
        (b"plain", b"4", [("h", b"v")]),
    ]
    made = spark.createDataFrame(rows, "key binary, value binary, headers array<struct<key:string,value:binary>>")
    with orbitmq.Broker(tmp_path / "store", log_file_size=1 << 24) as broker:
        broker.create_topic("t", queues=2)
        made.write.format("orbitmq").options(broker=broker.name, topic="t").mode("append").save()
        frame = spark.read.format("orbitmq").options(broker=broker.name, subscribe="t", includeHeaders="true").load()
        found = frame.select("key", "value", "headers").collect()
        whole = frame.drop("partition")
        broker.create_topic("copy", queues=1)
        whole.write.format("orbitmq").options(broker=broker.name, topic="copy").mode("append").save()
        copies = spark.read.format("orbitmq").options(broker=broker.name, subscribe="copy", includeHeaders="true").load()
        again = copies.select("key", "value", "headers").collect()
    for got in (found, again):
        shown = [
            (
                row.key if row.key is None else bytes(row.key),
                bytes(row.value),
                row.headers and [(pair.key, pair.value if pair.value is None else bytes(pair.value)) for pair in row.headers],
            )
            for row in got
        ]
        assert sorted(shown, key=lambda row: row[1]) == rows
