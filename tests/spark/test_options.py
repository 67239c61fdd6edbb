"""Goal: invalid options are refused with the option's name and what would work. Method: each mistake once."""

from __future__ import annotations

import pytest

from orbitmq.errors import FilterError, SettingError
from orbitmq.spark.refusal import unknown_hint
from orbitmq.spark.source.options import EARLIEST, LATEST, parse
from orbitmq.tables.columns import COLUMNS

PLAIN = {"path": "/store", "subscribe": "orders"}


def test_defaults() -> None:
    options = parse({"PATH": "/store", "subscribe": " orders, bills ,orders"})
    assert (options.path, options.broker, options.topics) == ("/store", None, ("orders", "bills"))
    assert options.columns == tuple(name for name in COLUMNS if name != "headers")
    assert (options.starting.of("orders", 0), options.ending.of("bills", 3)) == (EARLIEST, LATEST)
    assert (options.min_partitions, options.max_records) == (0, 0)


def test_offsets_of_single_queues() -> None:
    options = parse({**PLAIN, "startingOffsets": '{"orders": {"1": 17, "2": -2}}', "endingOffsets": '{"orders": {"0": 5}}'})
    assert [options.starting.of("orders", queue) for queue in range(3)] == [EARLIEST, 17, EARLIEST]
    assert parse({**PLAIN, "startingOffsets": '{"orders": {"2": -1}}'}, streaming=True).starting.of("orders", 2) == LATEST
    assert [options.ending.of("orders", queue) for queue in range(2)] == [5, LATEST]


@pytest.mark.parametrize(
    ("change", "option", "names"),
    [
        ({"subscribe": " , "}, "subscribe", "names nothing"),
        ({"subscribe": None}, "subscribe", "none is given"),
        ({"assign": '{"orders": [0]}'}, "subscribe", "subscribe and assign are given"),
        ({"subscribePattern": "o.*"}, "subscribe", "subscribe and subscribePattern are given"),
        ({"subscribe": None, "subscribePattern": "("}, "subscribePattern", "no regular expression"),
        ({"subscribe": None, "assign": '{"orders": []}'}, "assign", "JSON"),
        ({"subscribe": None, "assign": '{"orders": [-1]}'}, "assign", "JSON"),
        ({"subscribe": None, "assign": "orders"}, "assign", "JSON"),
        ({"startingOffsets": "earliest", "startingTimestamp": "1"}, "startingTimestamp", "contradict"),
        ({"endingOffsetsByTimestamp": "{}", "endingTimestamp": "1"}, "endingTimestamp", "contradict"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp", "milliseconds"),
        ({"startingTimestamp": "2024-05-01T12:00:00"}, "startingTimestamp", "zone"),
        ({"startingTimestamp": "2", "endingTimestamp": "1"}, "endingTimestamp", "before startingTimestamp"),
        ({"startingOffsetsByTimestamp": '{"orders": {"0": -1}}'}, "startingOffsetsByTimestamp", "milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "latest"}, "startingOffsetsByTimestampStrategy", "startingTimestamp"),
        ({"startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "x"}, "startingOffsetsByTimestampStrategy", "latest"),
        ({"failOnDataLoss": "perhaps"}, "failOnDataLoss", "true or false"),
        ({"read": "committed"}, "read", "flushed or appended"),
        ({"tags": "a ||"}, "tags", "a tag is empty"),
        ({"columns": "value", "includeHeaders": "true"}, "columns", "includeHeaders"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "startingOffsets", "latest offset, -1, of topic 'orders', queue 0"),
        ({"endingOffsets": '{"orders": {"0": 5, "1": -2}}'}, "endingOffsets", "earliest offset, -2, of topic 'orders'"),
        ({"columns": "headers", "includeHeaders": "false"}, "columns", "includeHeaders"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "minOffsetsPerTrigger", "maxOffsetsPerTrigger = 4"),
        ({"maxTriggerDelay": "5s"}, "maxTriggerDelay", "minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "5", "maxTriggerDelay": "soon"}, "maxTriggerDelay", "15m"),
        ({"broker": "b"}, "path", "path and broker are given"),
        ({"path": None}, "path", "none is given"),
        ({"subscrib": "x"}, "subscrib", "subscribe"),
        ({"kafka.bootstrap.servers": "localhost:9092"}, "kafka.bootstrap.servers", "client of Kafka.* broker or path"),
        ({"startingOffsets": "latest"}, "startingOffsets", "earliest"),
        ({"endingOffsets": "earliest"}, "endingOffsets", "latest"),
        ({"startingOffsets": "yesterday"}, "startingOffsets", "JSON"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "startingOffsets", "JSON"),
        ({"startingOffsets": '{"orders": [1]}'}, "startingOffsets", "JSON"),
        ({"endingOffsets": '{"bills": {"0": 1}}'}, "endingOffsets", "bills"),
        ({"columns": "value,body"}, "columns", "physical_offset"),
        ({"columns": "value,value"}, "columns", "twice"),
        ({"minPartitions": "0"}, "minPartitions", "at least 1"),
        ({"maxRecordsPerPartition": "many"}, "maxRecordsPerPartition", "at least 1"),
    ],
)
def test_refused(change: dict[str, str | None], option: str, names: str) -> None:
    given = {name: value for name, value in {**PLAIN, **change}.items() if value is not None}
    with pytest.raises(SettingError, match=names) as caught:
        parse(given)
    assert caught.value.option == option and option in str(caught.value)


def test_of_a_stream() -> None:
    options = parse(
        {**PLAIN, "maxOffsetsPerTrigger": "10", "minOffsetsPerTrigger": "2", "maxTriggerDelay": "90s"}, streaming=True
    )
    assert (options.max_per_trigger, options.min_per_trigger, options.max_trigger_delay) == (10, 2, 90.0)
    assert options.starting.of("orders", 0) == LATEST
    assert parse({**PLAIN, "startingOffsets": '{"orders": {"1": 5}}'}, streaming=True).starting.of("orders", 0) == EARLIEST
    with pytest.raises(SettingError, match="a stream does not end"):
        parse({**PLAIN, "endingOffsets": "latest"}, streaming=True)


def test_a_filter() -> None:
    """The error is the library's, with Spark's option."""
    assert parse({**PLAIN, "sql92": "a > 1"}).sql == b"a > 1"
    assert parse(PLAIN).sql is None
    with pytest.raises(FilterError, match="column 3") as caught:
        parse({**PLAIN, "sql92": "a ? 1"}, streaming=True)
    assert (caught.value.option, caught.value.setting, caught.value.column) == ("sql92", None, 3)


def test_tags_and_columns() -> None:
    assert parse({**PLAIN, "tags": "a || b"}).tags == (b"a", b"b")
    assert parse({**PLAIN, "tags": "*"}).tags == ()
    assert "headers" in parse({**PLAIN, "includeHeaders": "true"}).columns
    assert parse({**PLAIN, "columns": "headers,value", "INCLUDEHEADERS": "True"}).columns == ("headers", "value")


def test_limits_of_a_stream_say_nothing_for_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    parse({**PLAIN, "maxOffsetsPerTrigger": "10"})
    assert "maxOffsetsPerTrigger" in caplog.text


def test_a_wrong_name_is_answered_with_similar_ones() -> None:
    """Spark gives names in small letters at some places; the answer has those of the documents."""
    assert unknown_hint("startingofset", ("path", "tags", "startingOffsets")) == "did you mean startingOffsets"
    assert unknown_hint("StartingTimestamps", ("startingTimestamp", "path")) == "did you mean startingTimestamp"
    assert unknown_hint("xyzzy", ("path", "tags")) == "the options are path, tags"
    assert "Kafka" in unknown_hint("kafka.pathx", ("path",))
