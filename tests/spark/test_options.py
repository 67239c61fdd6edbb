"""Goal: invalid options are refused with the option's name and what would work. Method: each mistake once."""

from __future__ import annotations

import pytest

from orbitmq.errors import SettingError, UnknownQueue
from orbitmq.spark.columns import COLUMNS
from orbitmq.spark.source.options import EARLIEST, LATEST, parse

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
        ({"broker": "b"}, "path", "both"),
        ({"path": None}, "path", "neither"),
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


@pytest.mark.parametrize(
    ("text", "delay"), [("500", 0.5), ("500ms", 0.5), ("90s", 90.0), ("2 min", 120.0), ("1.5h", 5400.0), ("1d", 86400.0)]
)
def test_lengths_of_time(text: str, delay: float) -> None:
    """A plain number means milliseconds, as with Spark's Kafka source."""
    given = {**PLAIN, "minOffsetsPerTrigger": "1", "maxTriggerDelay": text}
    assert parse(given, streaming=True).max_trigger_delay == delay


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("17", 17),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T00:00:00.001Z", 1),
        ("1970-01-01T01:00:00.001001+01:00", 2),
    ],
)
def test_a_moment_between_two_milliseconds_is_the_later_one(text: str, ms: int) -> None:
    """A message of the earlier one was stored before it."""
    assert parse({**PLAIN, "startingTimestamp": text}).starting.moment_of("orders", 0) == ms


def test_queues_that_are_assigned() -> None:
    assigned = {"path": "/store", "assign": '{"orders": [2, 0], "bills": [1]}'}
    options = parse(assigned)
    extents = {"orders": {queue: (0, 5) for queue in range(4)}, "bills": {0: (0, 1), 1: (0, 2)}, "other": {0: (0, 1)}}
    assert {topic: sorted(queues) for topic, queues in options.choice.of(extents).items()} == {"orders": [0, 2], "bills": [1]}
    with pytest.raises(SettingError, match="queue 1 of topic 'orders'"):
        parse({**assigned, "startingOffsets": '{"orders": {"1": 3}}'})
    with pytest.raises(UnknownQueue, match="0 to 3") as caught:
        parse({"path": "/store", "assign": '{"orders": [4]}'}).choice.of(extents)
    assert caught.value.option == "assign"


def test_topics_of_a_pattern() -> None:
    extents = {name: {0: (0, 1)} for name in ("orders", "orders2", "bills", "%RETRY%orders", "SCHEDULE_TOPIC_XXXX")}

    def chosen(pattern: str) -> list[str]:
        return list(parse({"path": "/store", "subscribePattern": pattern}).choice.of(extents))

    assert chosen("orders") == ["orders"]
    assert chosen("o.*") == ["orders", "orders2"]
    assert chosen(".*") == ["bills", "orders", "orders2"]
    assert chosen("%RETRY%.*") == ["%RETRY%orders"]
    assert chosen("nothing") == []


def test_tags_and_columns() -> None:
    assert parse({**PLAIN, "tags": "a || b"}).tags == (b"a", b"b")
    assert parse({**PLAIN, "tags": "*"}).tags == ()
    assert "headers" in parse({**PLAIN, "includeHeaders": "true"}).columns
    assert parse({**PLAIN, "columns": "headers,value", "INCLUDEHEADERS": "True"}).columns == ("headers", "value")


def test_limits_of_a_stream_say_nothing_for_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    parse({**PLAIN, "maxOffsetsPerTrigger": "10"})
    assert "maxOffsetsPerTrigger" in caplog.text
