"""Goal: whatever a log holds that this broker did not write, the broker starts or says why not, and does not loop. Method: logs
are composed as another broker's; records name few, many or impossible queues; then bytes are damaged under a running tree."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.store import rising
from orbitmq.store.config import DataVersion, TopicConfig, store_topics
from orbitmq.store.layout import StoreLayout
from tests.store.log_builder import FIRST_MS, LogBuilder
from tests.trees import SMALL, actors, kill, small_broker
from tests.waiting import until


def foreign(root: Path, topics: dict[str, int]) -> LogBuilder:
    """An empty log beside a topics.json, in files of the small broker's size."""
    layout = StoreLayout.at(root)
    layout.make_folders()
    configs = {name: TopicConfig(name, read_queues=queues, write_queues=queues) for name, queues in topics.items()}
    store_topics(layout, configs, DataVersion())
    return LogBuilder(layout, file_size=SMALL["log_file_size"])


def bodies(client: orbitmq.Client, topic: str, count: int) -> list[bytes]:
    """So many messages of the topic; a watchdog ends a longer wait."""
    found: list[bytes] = []
    with client.consumer(topics=[topic]) as consumer:
        until(lambda: found.extend(consumer.poll_bodies(1000, 0.1)) or len(found) >= count, "messages")
    return sorted(found)


@pytest.mark.parametrize("placement", ["spread", "together"])
def test_more_queues_than_the_topic_has(tmp_path: Path, placement: str) -> None:
    """A topic that now has fewer queues: the log has records of the earlier ones, far beyond the room that a topic of this size
    gets."""
    log = foreign(tmp_path, {"shrunk": 4})
    for queue in (0, 3, 20, 200):
        log.append("shrunk", queue, body=b"%d" % queue)
    with small_broker(tmp_path, placement=placement) as broker:
        assert bodies(broker, "shrunk", 4) == [b"0", b"20", b"200", b"3"]
        assert actors(broker)["reput"].epoch == 1
        broker.producer().send("shrunk", b"new")


@pytest.mark.parametrize(
    ("topic", "queue"),
    [("T", 1 << 20), ("T", (1 << 32) - 1), ("T", 16384), ("../../T", 0), ("no good", 3)],
    ids=["queue", "last queue", "first impossible queue", "path", "space"],
)
def test_a_queue_that_cannot_be(tmp_path: Path, caplog: pytest.LogCaptureFixture, topic: str, queue: int) -> None:
    """The record is reported and skipped, those around it are delivered, and nothing is made outside the store."""
    store = tmp_path / "in" / "store"
    log = foreign(store, {"T": 4})
    log.append("T", 0, body=b"before")
    stray = log.append(topic, queue)
    log.append("T", 1, body=b"behind")
    with small_broker(store) as broker:
        assert bodies(broker, "T", 2) == [b"before", b"behind"]
        assert [each.name for each in broker.topics()] == ["T"]
        reput = actors(broker)["reput"]
        assert (reput.epoch, reput.state, reput.counters["faults"]) == (1, "running", 1)
        broker.producer().send("T", b"new")
    said = caplog.text
    assert f"physical offset {stray.offset:,} names queue {queue:,} of topic {topic!r}" in said
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["store"]
    with small_broker(store) as broker:
        assert bodies(broker, "T", 3) == [b"before", b"behind", b"new"]


def test_a_folder_that_is_no_topic(tmp_path: Path) -> None:
    """Something else is among the queues."""
    log = foreign(tmp_path, {"T": 1})
    log.append("T", 0)
    (log.layout.consumequeue / "lost + found" / "0").mkdir(parents=True)
    (log.layout.consumequeue / ("y" * 200) / "7").mkdir(parents=True)
    (log.layout.consumequeue / "T" / "99999").mkdir(parents=True)
    with small_broker(tmp_path) as broker:
        assert bodies(broker, "T", 1) == [b"body"]
        assert [(each.name, each.queues) for each in broker.topics()] == [("T", 1)]


def test_more_queues_than_the_table_has(tmp_path: Path) -> None:
    """If a table is too small for the log, the start says so and names the setting, and nothing runs."""
    log = foreign(tmp_path, {"T": 1})
    log.append("T", 100)
    with pytest.raises(errors.Full, match="queue_capacity") as caught:
        orbitmq.Broker(tmp_path, **{**SMALL, "queue_capacity": 64})
    assert (caught.value.limit, caught.value.topic) == ("queues", "T")
    with small_broker(tmp_path) as broker:
        assert bodies(broker, "T", 1) == [b"body"]


def test_the_log_is_spoilt_under_a_running_tree(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A record that reput has not read yet is damaged. What is before it can be read. No message is accepted any more, not even
    by a new writer. The tree lives, and a new reput reports the same."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("T", 1)
        producer = broker.producer()
        producer.send("T", b"good")
        assert bodies(broker, "T", 1) == [b"good"]
        reput = actors(broker)["reput"].pid
        os.kill(reput, signal.SIGSTOP)
        bad = producer.send("T", b"bad").physical_offset
        with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as log:
            log.seek(bad + 4)
            log.write(b"XXXX")
        os.kill(reput, signal.SIGCONT)
        until(lambda: broker.status().positions.reput_error == errno.EBADMSG, "reput to stop")
        until(lambda: _refused(producer), "sends to be refused")
        assert bodies(broker, "T", 1) == [b"good"]
        kill(broker, "writer")
        kill(broker, "reput")
        until(lambda: actors(broker)["reput"].state == "failed" and actors(broker)["reput"].epoch == 2, "the new reput to stop")
        assert _refused(producer)
        assert broker.status().state == "running"
        assert {actor.name: actor.epoch for actor in actors(broker).values() if actor.epoch > 1} == {"writer": 2, "reput": 2}
    assert f"the record at physical offset {bad:,}" in caplog.text


def _refused(producer: orbitmq.Producer) -> bool:
    try:
        producer.send("T", b"more")
    except errors.StoreFailed as error:
        assert error.errno == errno.EBADMSG
        return True
    return False


def test_a_clock_that_went_back_before_the_store_became_ours(tmp_path: Path) -> None:
    """A search by time misses no message that is late enough, though earlier ones follow; and the place from which times rise
    is kept from life to life."""
    log = foreign(tmp_path, {"T": 1})
    times = (10, 20, 30, 5, 15, 25)
    for ms in times:
        log.append("T", 0, body=b"%d" % ms, store_ms=FIRST_MS + ms, sealed=False)
    for life in range(1, 4):
        with small_broker(tmp_path) as broker:
            broker.producer().send("T", b"now")
            assert rising.load(StoreLayout.at(tmp_path)) == log.written[3].offset
            assert bodies(broker, "T", 6 + life)[-life:] == [b"now"] * life
            with broker.consumer(None, topics=["T"]) as consumer:
                for ms, since, nearest in ((5, 0, 0), (16, 1, 1), (21, 2, 1), (26, 2, 2), (30, 2, 2), (31, 6, 5)):
                    consumer.seek_to_time(FIRST_MS + ms)
                    assert consumer.position()["T", 0] == since
                    consumer.seek_to_time(FIRST_MS + ms, nearest=True)
                    assert consumer.position()["T", 0] == nearest
                consumer.seek_to_time(FIRST_MS + 3_600_000, nearest=True)
                assert consumer.position()["T", 0] == 5, "nearer to this hour than to the first message of ours"
