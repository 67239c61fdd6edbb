"""Goal: a broker that is away for a while does not end a stream; one that stays away does, with an error that says so. Method:
a tree that is stopped and started, and a clock that the test controls."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from orbitmq.errors import BrokerNotRunning
from orbitmq.spark.source.options import parse
from orbitmq.spark.stream.reader import OrbitStreamReader
from orbitmq.spark.stream.store import StreamStore
from orbitmq.tables.extents import AWAY_S
from tests.trees import small_broker

pytestmark = pytest.mark.pyspark

NAME = "test-stream-store"
OPTIONS = parse({"broker": NAME, "subscribe": "t", "startingOffsets": "earliest"}, streaming=True)


def test_a_broker_that_is_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    store = StreamStore(OPTIONS, lambda: now[0])
    with pytest.raises(BrokerNotRunning, match=NAME):
        store.look()
    with small_broker(tmp_path, name=NAME) as broker:
        broker.create_topic("t", queues=1)
        found = store.look()
        assert found is not None and found.topics == {"t": {0: (0, 0)}}
    for now[0] in (1.0, AWAY_S / 2, AWAY_S):
        assert store.look() is None and store.known() is found
    assert caplog.text.count("tries again") == 1
    with small_broker(tmp_path, name=NAME):
        assert store.look() == found
    assert store.look() is None, "the time begins anew"
    now[0] += AWAY_S
    with pytest.raises(BrokerNotRunning, match=NAME):
        store.look()


def test_nothing_is_new_while_the_broker_is_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    stream = OrbitStreamReader(OPTIONS)
    with small_broker(tmp_path, name=NAME) as broker:
        broker.create_topic("t", queues=1)
        with broker.producer() as producer:
            producer.send("t", b"")
        assert stream.latestOffset() == {"t": {"0": 1}}
    assert stream.latestOffset() == {"t": {"0": 1}}
    (partition,) = stream.partitions({"t": {"0": 0}}, {"t": {"0": 1}})
    assert sum(batch.num_rows for batch in stream.read(partition)) == 1


def test_a_query_that_ends_by_itself_reads_to_its_end(tmp_path: Path) -> None:
    stream = OrbitStreamReader(replace(OPTIONS, max_per_trigger=2))
    with small_broker(tmp_path, name=NAME) as broker:
        broker.create_topic("t", queues=1)
        with broker.producer() as producer:
            producer.send_batch("t", [b""] * 3)
        stream.prepareForTriggerAvailableNow()
    assert stream.latestOffset({"t": {"0": 0}}, stream.getDefaultReadLimit()) == {"t": {"0": 2}}
    assert stream.latestOffset({"t": {"0": 2}}, stream.getDefaultReadLimit()) == {"t": {"0": 3}}


def test_what_was_acknowledged_before_the_first_look_is_there(tmp_path: Path) -> None:
    """A query that reads once leaves nothing out, though it was not flushed when the query began."""
    with small_broker(tmp_path, name=NAME, flush_interval_ms=300) as broker, broker.producer() as producer:
        broker.create_topic("t", queues=1)
        for number in range(1, 4):
            producer.send("t", b"")
            assert OrbitStreamReader(OPTIONS).latestOffset() == {"t": {"0": number}}
