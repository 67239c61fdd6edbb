"""Goal: what a DataFrame's columns become, and what is refused with which text. Method: Arrow batches and schemas made by
hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from orbitmq.errors import ColumnError, MessageTooLarge, PropertiesTooLarge, SettingError, TopicNameError
from orbitmq.spark.sink import options as sink_options
from orbitmq.spark.sink.columns import Shape, check
from orbitmq.store.commit_log.record import unpack_properties

pytestmark = pytest.mark.pyspark

MAP = pa.map_(pa.string(), pa.string())
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
KEYS = pa.list_(pa.string())


def properties(**columns: Any) -> list[dict[str, str]]:
    rows = len(next(iter(columns.values())))
    found = Shape("t", 1 << 20).messages(pa.record_batch({"value": ["x"] * rows, **columns}))
    return [unpack_properties(each) for each in found["properties"].to_pylist()]


def schema(text: str) -> StructType:
    fields = [dict(zip(("name", "type"), each.split(":"), strict=True)) for each in text.split()]
    return StructType.fromJson({"fields": [{**field, "nullable": True, "metadata": {}} for field in fields]})


def test_properties() -> None:
    assert properties(
        tags=["red", None, "", "red"],
        keys=pa.array([["a", "b"], None, [], None], KEYS),
        key=pa.array([b"q", b"one two", None, None]),
        properties=pa.array([[("p", "1"), ("TAGS", "not this")], None, [], [("p", "2"), ("q", "3")]], MAP),
        headers=pa.array([None, [{"key": "h", "value": b"v"}], None, [{"key": "h", "value": b"w"}]], HEADERS),
    ) == [
        {"TAGS": "red", "KEYS": "a b", "p": "1"},
        {"KEYS": "one two", "h": "v"},
        {},
        {"TAGS": "red", "p": "2", "q": "3"},
    ]


def test_what_was_read_can_be_written() -> None:
    """Properties for columns that the frame does not have are kept; notes about another message are not."""
    before = [("TAGS", "t"), ("KEYS", "k"), ("WAIT", "true"), ("SPARK_ROW", "x-1-2"), ("UNIQ_KEY", "u"), ("CLUSTER", "c")]
    assert properties(properties=pa.array([before], MAP)) == [{"TAGS": "t", "KEYS": "k", "UNIQ_KEY": "u"}]


@pytest.mark.parametrize("name", ["DELAY", "REAL_TOPIC", "TRAN_MSG"])
def test_wishes_that_nobody_grants(name: str) -> None:
    """A property that asks a RocketMQ broker for something is refused, as the producer refuses it. A header of that name is
    Kafka's, and asks for nothing: it is encoded (test_carried.py)."""
    with pytest.raises(ColumnError, match=name):
        properties(properties=pa.array([[(name, "1")]], MAP))
    headers = pa.array([[{"key": name, "value": b"1"}]], HEADERS)
    assert [list(each) for each in properties(headers=headers)] == [["SPARK_HEADERS"]]


def test_slices_and_nothing() -> None:
    batch = pa.record_batch({"value": ["a", "b", "c"], "properties": pa.array([[("p", "1")], None, [("p", "3")]], MAP)})
    for begin, end in ((0, 2), (1, 3), (2, 2)):
        found = Shape("t", 1 << 20).messages(batch.slice(begin, end - begin))
        assert found["body"].to_pylist() == [b"a", b"b", b"c"][begin:end]
        assert found["properties"].to_pylist() == [b"p\x011\x02", b"", b"p\x013\x02"][begin:end]


def test_places() -> None:
    columns = {"value": [b"a", b"b"], "partition": pa.array([3, None], pa.int32()), "flag": pa.array([None, -7], pa.int32())}
    found = Shape(None, 1 << 20).messages(pa.record_batch({**columns, "topic": ["u", "v"], "key": ["k", None]}))
    assert [found[name].to_pylist() for name in ("topic", "queue", "flag", "queue_key")] == [
        ["u", "v"],
        [3, -1],
        [0, -7],
        [b"k", b""],
    ]
    found = Shape("all", 1 << 20).messages(pa.record_batch({**columns, "topic": ["u", None]}))
    assert found["topic"].to_pylist() == ["all", "all"]


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        ({"value": ["a", None]}, ColumnError, "a row whose value is null"),
        ({"tags": ["a\1b"]}, ColumnError, r"tags 'a\\x01b' holds a separator byte"),
        ({"tags": ["a || b"]}, ColumnError, r"tags 'a \|\| b' holds '\|\|', which separates the tags of a filter; .*one tag"),
        ({"tags": ["*"]}, ColumnError, r"tags '\*' is '\*' or has blanks around it"),
        ({"tags": [" a"]}, ColumnError, "tags ' a' is"),
        ({"properties": pa.array([[("TAGS", "a||b")]], MAP)}, ColumnError, r"properties TAGS 'a\|\|b' holds"),
        ({"keys": pa.array([["a b"]], KEYS)}, ColumnError, "keys 'a b' is empty or holds a space"),
        ({"keys": pa.array([["a", None]], KEYS)}, ColumnError, "keys is null"),
        ({"partition": pa.array([-1], pa.int32())}, ColumnError, "partition -1 is negative"),
        ({"properties": pa.array([[("p", "")]], MAP)}, ColumnError, "properties 'p' has a value that is null or empty"),
        ({"headers": pa.array([[{"key": None, "value": b"v"}]], HEADERS)}, ColumnError, "headers has a name that is null"),
        ({"tags": ["x" * 32_700]}, PropertiesTooLarge, "properties take 32,706 bytes, and the limit is 32,682"),
        ({"value": ["x" * 65_536]}, MessageTooLarge, "record takes 65,712 bytes, and the limit is 65,536; raise message_max"),
    ],
)
def test_rows_that_cannot_be_sent(columns: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Shape("t", 65_536).messages(pa.record_batch({"value": ["x"], **columns}))


def test_topics_of_rows() -> None:
    with pytest.raises(ColumnError, match=r"topic is null.*option topic"):
        Shape(None, 65_536).messages(pa.record_batch({"value": ["x"], "topic": pa.array([None], pa.string())}))
    with pytest.raises(TopicNameError, match="no topic"):
        Shape(None, 65_536).messages(pa.record_batch({"value": ["x"], "topic": ["no topic"]}))


@pytest.mark.parametrize(
    ("columns", "topic", "words"),
    [
        ("value:long", "t", "'value' of type bigint: string or binary would do; cast it, or make it JSON with to_json"),
        ("value:string partition:long", "t", "'partition' of type bigint: int would do"),
        ("value:string tags:binary", "t", "'tags' of type binary: string would do"),
        ("value:string keys:string", "t", "'keys' of type string: array<string> would do"),
        ("value:string prize:string", "t", "'prize': the sink has no such column; select or rename; it has value, key, topic"),
        ("key:string", "t", "without a column 'value'"),
        ("value:string", None, "neither the option topic nor a column 'topic'"),
    ],
)
def test_schemas_that_cannot_be_sent(columns: str, topic: str | None, words: str) -> None:
    with pytest.raises(ColumnError, match=words):
        check(schema(columns), topic)


def test_columns_that_the_broker_gives_out_are_passed_over() -> None:
    check(schema("value:binary key:binary topic:string partition:integer offset:long timestamp:timestamp flag:integer"), None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"topic": "t"},
            "broker = None: exactly one of the options broker, path and servers says where to send to, and none is given",
        ),
        ({"broker": "b", "path": "p"}, "path and broker are given"),
        ({"broker": "b", "xyzzy": "t"}, "xyzzy = 't': there is no such option; the options are path, broker, servers, timeout"),
        ({"broker": "b", "topik": "t"}, "topik = 't': there is no such option; did you mean topic"),
        ({"broker": "b", "batchId": "1"}, "batchId = '1': .*; give option queryId too"),
        ({"broker": "b", "queryId": "q", "batchId": "-1"}, "batchId = '-1': a whole number of at least 0 is wanted"),
        ({"broker": "b", "queryId": ""}, "queryId = '': it is empty"),
        ({"broker": "b", "timeout": "soon"}, "timeout = 'soon': a number of seconds from 0 is wanted"),
        ({"broker": "b", "timeout": "nan"}, "timeout = 'nan'"),
    ],
)
def test_options_that_cannot_be(options: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        sink_options.parse(options)


def test_options() -> None:
    found = sink_options.parse({"BROKER": "b", "Topic": "t", "queryid": "q", "batchid": "3", "checkpointlocation": "c"})
    assert (found.broker, found.topic, found.query, found.batch, found.timeout) == ("b", "t", "q", 3, 30.0)
