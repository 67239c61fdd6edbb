"""Goal: what Spark is told to read, whatever happened to the store. Method: the reader alone, asked as Spark asks, over stores
made by hand; without arguments, as by versions of Spark without admission control, and with them."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from orbitmq.errors import OffsetOutOfRange, SettingError, UnknownTopic
from orbitmq.spark.source.options import parse
from orbitmq.spark.stream.admission import ReadAllAvailable, ReadMaxRows
from orbitmq.spark.stream.reader import OrbitStreamReader
from orbitmq.store import positions
from orbitmq.store.layout import StoreLayout
from tests.tables.stored_topics import StoredTopics

pytestmark = pytest.mark.pyspark

Json = dict[str, dict[str, int]]


@pytest.fixture
def stored(tmp_path: Path) -> StoredTopics:
    stored = StoredTopics(tmp_path / "store")
    stored.add("orders", 2)
    send(stored, 10)
    return stored


def send(stored: StoredTopics, count: int, topic: str = "orders", size: int = 0) -> None:
    for number in range(count):
        stored.send(topic, b"%d" % number + bytes(size))


def stop(root: Path) -> None:
    """Leaves the note of a broker that has stopped cleanly: the files say everything."""
    layout = StoreLayout.at(root)
    layout.own.mkdir(exist_ok=True)
    recorded = positions.Positions(layout)
    recorded.record_stop(1 << 40, 0)
    recorded.close()


def reader(root: Path, **options: str) -> OrbitStreamReader:
    given = {"path": str(root), "startingOffsets": "earliest", "columns": "topic,partition,offset", **options}
    if not {"subscribePattern", "assign"} & set(given):
        given.setdefault("subscribe", "orders")
    return OrbitStreamReader(parse(given, streaming=True))


def ends(*counts: int, topic: str = "orders") -> Json:
    return {topic: {str(queue): count for queue, count in enumerate(counts)}}


def rows(stream: OrbitStreamReader, start: Json, end: Json) -> list[tuple[str, int, int]]:
    """Of one micro-batch; offsets go through a checkpoint."""
    start, end = (json.loads(json.dumps(each)) for each in (start, end))
    found: list[tuple[str, int, int]] = []
    for partition in stream.partitions(start, end):
        for batch in stream.read(partition):
            found += [tuple(row.values()) for row in batch.to_pylist()]
    return sorted(found)


def places(topic: str, queue: int, begin: int, end: int) -> list[tuple[str, int, int]]:
    return [(topic, queue, offset) for offset in range(begin, end)]


@pytest.mark.oldest_pyspark("stream.reader", "stream.admission")
def test_batch_after_batch(stored: StoredTopics) -> None:
    stream = reader(stored.root)
    assert stream.latestOffset() == ends(5, 5), "4.0 asks for an end before it asks for a beginning"
    assert stream.initialOffset() == ends(0, 0)
    assert rows(stream, ends(0, 0), ends(5, 5)) == places("orders", 0, 0, 5) + places("orders", 1, 0, 5)
    assert stream.latestOffset() == ends(5, 5)
    assert list(stream.partitions(ends(5, 5), ends(5, 5))) == []
    send(stored, 3)
    assert stream.latestOffset(ends(5, 5), ReadAllAvailable()) == ends(7, 6)
    assert stream.reportLatestOffset() == ends(7, 6)
    assert rows(stream, ends(5, 5), ends(7, 6)) == places("orders", 0, 5, 7) + places("orders", 1, 5, 6)


@pytest.mark.oldest_pyspark("stream.reader", "stream.admission")
@pytest.mark.parametrize("told", [True, False])
def test_limited_batches(stored: StoredTopics, told: bool) -> None:
    """told: the version of Spark says where a batch begins."""
    stream = reader(stored.root, maxOffsetsPerTrigger="4")
    start, seen = stream.initialOffset(), []
    while True:
        end = stream.latestOffset(start, stream.getDefaultReadLimit()) if told else stream.latestOffset()
        if end == start:
            break
        seen.append(end)
        stream.partitions(start, end)
        start = end
    assert seen == [ends(2, 2), ends(4, 4), ends(5, 5)]


def test_a_trigger_that_wants_all_gets_all(stored: StoredTopics) -> None:
    stream = reader(stored.root, maxOffsetsPerTrigger="4", minOffsetsPerTrigger="2")
    assert stream.latestOffset(stream.initialOffset(), ReadAllAvailable()) == ends(5, 5)
    send(stored, 1)
    assert stream.latestOffset(ends(5, 5), ReadMaxRows(4)) == ends(6, 5), "the first batch waits for nothing"
    send(stored, 1)
    assert stream.latestOffset(ends(6, 5), ReadMaxRows(4)) == ends(6, 5)
    assert stream.latestOffset(ends(6, 5), ReadAllAvailable()) == ends(6, 6)


@pytest.mark.oldest_pyspark("stream.reader", "stream.admission")
def test_available_now_ends(stored: StoredTopics) -> None:
    stored.add("later", 1)
    stream = reader(stored.root, subscribePattern="orders|later|new", maxOffsetsPerTrigger="6", minOffsetsPerTrigger="5")
    stream.prepareForTriggerAvailableNow()
    stored.add("new", 1)
    for topic in ("orders", "later", "new"):
        send(stored, 20, topic)
    start, seen = stream.initialOffset(), []
    while (end := stream.latestOffset(start, stream.getDefaultReadLimit())) != start:
        seen.append(end)
        start = end
    assert seen[-1]["orders"] == ends(5, 5)["orders"] and seen[-1]["later"] == {"0": 0}
    assert seen[-1].get("new", {"0": 0}) == {"0": 0}


def test_a_restarted_query_goes_on(stored: StoredTopics) -> None:
    send(stored, 4)
    stream = reader(stored.root, maxOffsetsPerTrigger="2")
    stream.partitions(ends(5, 5), ends(5, 5))  # as 4.0 tells where it stands
    assert stream.latestOffset() == ends(6, 6)
    assert reader(stored.root).latestOffset(ends(6, 6), ReadAllAvailable()) == ends(7, 7)


def test_latest_is_settled_once(stored: StoredTopics) -> None:
    """A query that is killed in its first batch continues where that began, though Spark keeps no beginnings."""
    stream = reader(stored.root, startingOffsets="latest")
    assert stream.initialOffset() == ends(5, 5)
    send(stored, 2)
    assert stream.latestOffset(ends(5, 5), ReadAllAvailable()) == ends(5, 5)
    again = reader(stored.root, startingOffsets="latest")
    assert rows(again, again.initialOffset(), ends(5, 5)) == []
    assert again.latestOffset(ends(5, 5), ReadAllAvailable()) == ends(6, 6)
    assert parse({"path": "x", "subscribe": "x"}, streaming=True).starting.of("x", 0) == -1, "latest is the default"


def test_new_queues_and_topics_are_read_from_their_beginning(stored: StoredTopics) -> None:
    stream = reader(stored.root, subscribePattern="o.*", startingOffsets="latest")
    start = stream.initialOffset()
    assert stream.latestOffset(start, ReadAllAvailable()) == start == ends(5, 5)
    stored.add("others", 1)
    stored.add("bills", 1)
    send(stored, 3, "others")
    end = stream.latestOffset(start, ReadAllAvailable())
    assert end == {**ends(5, 5), **ends(3, topic="others")}
    assert rows(stream, start, end) == places("others", 0, 0, 3)


def test_assigned_queues_only(stored: StoredTopics) -> None:
    stream = reader(stored.root, assign='{"orders": [1]}')
    assert stream.latestOffset() == {"orders": {"1": 5}}
    assert rows(stream, stream.initialOffset(), {"orders": {"1": 5}}) == places("orders", 1, 0, 5)
    assert stream.latestOffset(ends(2, 5), ReadAllAvailable()) == ends(2, 5), "the other one keeps its place"
    assert rows(stream, ends(2, 4), ends(3, 5)) == places("orders", 0, 2, 3) + places("orders", 1, 4, 5), "planned is planned"


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("limit", [{}, {"maxOffsetsPerTrigger": "100"}])
def test_a_topic_that_leaves_the_subscription_and_comes_back(stored: StoredTopics, fails: str, limit: dict[str, str]) -> None:
    """In the meantime nothing of it is read. Nothing is read twice, and what came in the meantime is read when it is back."""
    stored.add("others", 1)
    send(stored, 3, "others")
    options = {"failOnDataLoss": fails, **limit}
    both = reader(stored.root, subscribe="orders,others", **options)
    start: dict[str, Any] = {**ends(5, 5), **ends(3, topic="others")}
    assert both.latestOffset() == start
    send(stored, 4, "others")
    send(stored, 2)
    alone = reader(stored.root, subscribe="others", **options)
    alone.prepareForTriggerAvailableNow()
    end = alone.latestOffset(start, alone.getDefaultReadLimit())
    assert end == {**ends(5, 5), **ends(7, topic="others")}
    assert rows(alone, start, end) == places("others", 0, 3, 7)
    assert alone.reportLatestOffset() == end, "it does not lie behind"
    again = reader(stored.root, subscribe="orders,others", **options)
    whole = again.latestOffset(end, again.getDefaultReadLimit())
    assert rows(again, end, whole) == places("orders", 0, 5, 6) + places("orders", 1, 5, 6)


def test_given_offsets(stored: StoredTopics) -> None:
    stream = reader(stored.root, startingOffsets='{"orders": {"0": 3, "1": -1}}')
    assert stream.initialOffset() == ends(3, 5)
    with pytest.raises(OffsetOutOfRange, match="startingOffsets: 0 to 5 would do"):
        reader(stored.root, startingOffsets='{"orders": {"0": 6}}').initialOffset()


def test_only_what_is_flushed_is_given_out(stored: StoredTopics) -> None:
    layout = StoreLayout.at(stored.root)
    layout.own.mkdir(exist_ok=True)
    recorded = positions.Positions(layout)
    recorded.record(stored.rows[4][8], 0)  # messages 0 to 3 lie before it
    stream = reader(stored.root)
    stream._store.look()  # the first look flushes; it represents an earlier life of the query
    assert stream.latestOffset(ends(0, 0), ReadAllAvailable()) == ends(2, 2)
    assert stream.latestOffset(ends(3, 2), ReadAllAvailable()) == ends(3, 2), "a queue never goes back"
    assert reader(stored.root, read="appended").latestOffset(ends(0, 0), ReadAllAvailable()) == ends(5, 5)
    recorded.close()


def lose(stored: StoredTopics) -> int:
    """Retention removes a file. Returns the first offset of queue 0 that is left."""
    send(stored, 200, size=1000)
    (stored.root / "commitlog" / f"{0:020d}").unlink()
    return min(row[2] for row in stored.rows if row[8] >= 1 << 16 and row[1] == 0)


def test_removed_messages_end_the_stream(stored: StoredTopics) -> None:
    first = lose(stored)
    with pytest.raises(OffsetOutOfRange, match=f"failOnDataLoss = true: retention.*{first} to 105 would do.*false") as caught:
        reader(stored.root).partitions(ends(5, 5), ends(105, 105))
    assert (caught.value.topic, caught.value.offset, caught.value.minimum) == ("orders", 5, first)


def test_removed_messages_are_passed(stored: StoredTopics, caplog: pytest.LogCaptureFixture) -> None:
    first = lose(stored)
    stream = reader(stored.root, failOnDataLoss="false", maxOffsetsPerTrigger="2")
    assert stream.latestOffset(ends(5, 5), ReadMaxRows(2))["orders"]["0"] == first + 1, "what is gone counts for nothing"
    with caplog.at_level(logging.WARNING, "orbitmq"):
        found = rows(stream, ends(5, 5), ends(first + 2, 7))
    assert found == places("orders", 0, first, first + 2)
    assert "retention has removed it" in caplog.text and "failOnDataLoss is off" in caplog.text


@pytest.mark.parametrize("fails", [True, False])
def test_a_store_made_anew(stored: StoredTopics, fails: bool, caplog: pytest.LogCaptureFixture) -> None:
    stream = reader(stored.root, failOnDataLoss=str(fails).lower())
    assert stream.latestOffset() == ends(5, 5)
    shutil.rmtree(stored.root)
    anew = StoredTopics(stored.root)
    anew.add("orders", 2)
    send(anew, 4)
    assert stream.latestOffset(ends(5, 5), ReadAllAvailable()) == ends(5, 5), "files of a broker that crashed may say less"
    stop(anew.root)
    if fails:
        with pytest.raises(OffsetOutOfRange, match="made anew; 0 to 2 would do"):
            stream.latestOffset(ends(5, 5), ReadAllAvailable())
        return
    assert stream.latestOffset(ends(5, 5), ReadAllAvailable()) == ends(2, 2)
    assert "made anew" in caplog.text
    assert rows(stream, ends(5, 5), ends(2, 2)) == places("orders", 0, 0, 2) + places("orders", 1, 0, 2)
    assert stream.latestOffset(ends(2, 2), ReadAllAvailable()) == ends(2, 2)


@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_that_is_gone(stored: StoredTopics, fails: bool, caplog: pytest.LogCaptureFixture) -> None:
    stored.add("others", 1)
    send(stored, 3, "others")
    stream = reader(stored.root, subscribe="orders,others", failOnDataLoss=str(fails).lower())
    start: dict[str, Any] = {**ends(5, 5), **ends(3, topic="others")}
    assert stream.latestOffset() == start
    shutil.rmtree(stored.root)
    anew = StoredTopics(stored.root)
    anew.add("orders", 2)
    send(anew, 12)
    stop(anew.root)
    if fails:
        with pytest.raises(UnknownTopic, match=r"'others'.*failOnDataLoss = true.*it has orders"):
            stream.latestOffset(start, ReadAllAvailable())
        return
    end = stream.latestOffset(start, ReadAllAvailable())
    assert end == ends(6, 6) and "'others'" in caplog.text
    assert rows(stream, start, end) == places("orders", 0, 5, 6) + places("orders", 1, 5, 6)
    anew.add("others", 1)
    send(anew, 1, "others")
    back = stream.latestOffset(end, ReadAllAvailable())
    assert rows(stream, end, back) == places("others", 0, 0, 1), "it is new when it comes again"


def test_mistakes(stored: StoredTopics, tmp_path: Path) -> None:
    with pytest.raises(UnknownTopic, match=r"option subscribe.*it has orders"):
        reader(stored.root, subscribe="order").initialOffset()
    with pytest.raises(UnknownTopic, match="option subscribe"):
        reader(stored.root, subscribe="orders,order").latestOffset(ends(0, 0), ReadAllAvailable())
    with pytest.raises(SettingError, match="not a folder"):
        reader(tmp_path / "nowhere").latestOffset()
    with pytest.raises(SettingError, match="a stream does not end"):
        reader(stored.root, endingOffsets="latest")
