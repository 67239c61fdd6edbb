"""Goal: retention under a running tree: the broker, its clients and verify agree on what is left, whichever process dies in the
meantime. Method: stores with more or older messages than the settings allow; a broker's first look is at its start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.actors.expiry_clock import wall_clock_ms
from orbitmq.actors.retention import HOUR_MS
from orbitmq.errors import OffsetOutOfRange, SettingError, UsageError
from orbitmq.store import config
from orbitmq.store.config import DataVersion, TopicConfig
from orbitmq.store.layout import StoreLayout
from orbitmq.store.verify.findings import Finding
from orbitmq.store.verify.verify import verify
from tests.store import log_builder
from tests.store.log_builder import LogBuilder
from tests.trees import SMALL, actors, indexed, kill, small_broker
from tests.waiting import until

FILE = SMALL["log_file_size"]
BODY = b"." * 4000


def faults(store: Path) -> list[Finding]:
    layout = StoreLayout.at(store)
    found: list[Finding] = []
    verify(layout, layout.settings(), found.append)
    return [each for each in found if each.damage]


def files(store: Path) -> list[int]:
    return sorted(int(path.name) for path in (store / "commitlog").iterdir())


def fill(broker: orbitmq.Broker, count: int) -> Any:
    """Receipts of messages to the two queues of "t", in turn."""
    with broker.producer() as producer:
        return [producer.send("t", BODY, queue=number % 2, keys=[f"k{number}"]) for number in range(count)]


def trimmed(broker: orbitmq.Broker, store: Path, before: int = 0) -> bool:
    """Whether the log begins behind `before`, and its files, with the one that is reserved ahead, are as few as the limit of
    test_by_bytes allows. The next file may be made after retention has looked, which then looks again."""
    seen = broker.status().positions
    whole = seen.allocated == seen.wrote - seen.wrote % FILE + 2 * FILE
    return whole and seen.allocated - seen.min_offset <= 3 * FILE and files(store)[0] == seen.min_offset > before


def test_by_bytes(tmp_path: Path) -> None:
    """Five files are full when the limit becomes three. All sources say the same: status, consumers, look-ups, verify."""
    with small_broker(tmp_path, queue_file_units=100) as broker:
        broker.create_topic("t", 2)
        receipts = fill(broker, 1300)
        indexed(broker)
        with broker.consumer("G", ["t"]) as member:
            assert len(member.poll_batch(10, 10)) == 10
            member.commit()
    with small_broker(tmp_path, queue_file_units=100, retention_bytes=3 * FILE, allow_deletion=True) as broker:
        until(lambda: trimmed(broker, tmp_path), "files to go")
        status = broker.status()
        assert status.positions.allocated - status.positions.min_offset <= 3 * FILE
        assert (status.retention_hours, status.retention_bytes) == (72, 3 * FILE)
        assert 0 < wall_clock_ms() - status.oldest_ms < HOUR_MS
        assert faults(tmp_path) == []
        left = {queue.queue: queue.min_offset for queue in status.topics[0].queues}
        assert all(0 < first < 650 for first in left.values())
        missed = {queue.queue: queue.removed_messages for queue in status.groups[0].queues}
        assert missed == {queue: left[queue] - 10 * (queue == 0) for queue in left if queue in missed}
        with broker.consumer("G", ["t"]) as member:
            assert member.position() == {("t", queue): first for queue, first in left.items()}
            with pytest.raises(OffsetOutOfRange):
                member.seek("t", 0, 0)
            assert len(member.poll_bodies(2000, 10, max_bytes=1 << 30)) == 1300 - sum(left.values())
            assert member.skipped == sum(left.values()) - 10
            member.commit()
        assert broker.status().groups[0].removed_messages == 0
        with pytest.raises(UsageError, match="the log holds"):
            broker.message(receipts[0].id)
        assert broker.find("t", "k0") == []
        assert bytes(broker.message(receipts[-1].id)) == BODY
        assert len(broker.find("t", "k1299")) == 1
        # A successor of the process that was to remove files continues.
        kill(broker, "flush")
        begin = broker.status().positions.min_offset
        fill(broker, 600)
        until(lambda: trimmed(broker, tmp_path, begin), "more files to go")
        assert {actor.epoch for actor in actors(broker).values() if actor.name != "flush"} == {1}
    assert faults(tmp_path) == []
    with small_broker(tmp_path, queue_file_units=100) as broker, broker.consumer(None, ["t"]) as consumer:
        found = consumer.poll_batch(2000, 10)
        assert [each.offset for each in found if each.queue == 0][-1] == 949


def old_store(root: Path, **hours: int | None) -> LogBuilder:
    """Two log files, and something in a third, of messages of 2023, a topic after the other in turn."""
    layout = StoreLayout.at(root)
    layout.make_folders()
    configs = {name: TopicConfig(name, read_queues=1, write_queues=1, retention_hours=kept) for name, kept in hours.items()}
    config.store_topics(layout, configs, DataVersion())
    log = LogBuilder(layout, file_size=FILE)
    while log.end < 2 * FILE + 100_000:
        for name in hours:
            log.append(name, body=BODY)
    return log


def bounds(broker: orbitmq.Broker) -> dict[str, tuple[int, int]]:
    return {topic.name: (topic.queues[0].min_offset, topic.queues[0].max_offset) for topic in broker.status().topics}


def test_an_old_store(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """All of it is older than 72 hours, so only the newest file stays. This is reported."""
    log = old_store(tmp_path, t=None)
    count = len(log.written)
    left = [record.queue_offset for record in log.written if record.offset >= 2 * FILE]
    with small_broker(tmp_path, allow_deletion=True) as broker:
        until(lambda: broker.status().positions.min_offset == 2 * FILE == files(tmp_path)[0], "files to go")
        assert bounds(broker) == {"t": (left[0], count)}
        assert broker.status().oldest_ms == log_builder.FIRST_MS + left[0]
    [line] = [each for each in caplog.records if f"the log begins at {2 * FILE:,}" in each.message]
    assert line.message.startswith("retention removed ") and (line.levelname, line.processName) == ("INFO", "flush")
    assert faults(tmp_path) == []


def test_topics_of_their_own_time(tmp_path: Path) -> None:
    """One topic is kept for ever, so every file stays. Of another one only messages of the past hour are shown, from the first
    moment of every start on. A change through the coordinator counts at once, and is kept."""
    log = old_store(tmp_path, ever=0, short=None)
    count = sum(record.topic == "short" for record in log.written)
    with small_broker(tmp_path, allow_deletion=True) as broker:
        assert bounds(broker)["short"] == (0, count)
        assert broker.create_topic("short", 1, retention_hours=1).retention_hours == 1
        until(lambda: bounds(broker)["short"] == (count, count), "the topic to be hidden")
        hidden = next(record for record in log.written if record.topic == "short")
        shown = next(record for record in log.written if record.topic == "ever")
        with pytest.raises(UsageError, match="does not keep it any more"):
            broker.message(f"7F00000100000000{hidden.offset:016X}")
        assert broker.message(f"7F00000100000000{shown.offset:016X}").topic == "ever"
        broker.producer().send("short", b"new")
        with broker.consumer(None, ["short"]) as consumer:
            assert consumer.poll_bodies(10, 10) == [b"new"]
            assert consumer.skipped == 0
        kill(broker, "coordinator")
        until(lambda: actors(broker)["coordinator"].state == "running", "a successor")
        assert {topic.name: topic.retention_hours for topic in broker.topics()} == {"ever": 0, "short": 1}
        with pytest.raises(SettingError, match="1,000,000"):
            broker.create_topic("short", 1, retention_hours=1_000_001)
    for _ in range(2):
        with small_broker(tmp_path, allow_deletion=True) as broker:
            assert bounds(broker)["short"] == (count, count + 1)
            assert files(tmp_path)[0] == 0
    assert faults(tmp_path) == []
    with small_broker(tmp_path, allow_deletion=True) as broker:
        assert broker.create_topic("ever", 1, retention_hours=-1).retention_hours is None
        until(lambda: files(tmp_path)[0] == 2 * FILE, "files to go")
    assert "retentionHours" in (tmp_path / "config" / "topics.json").read_text()
    assert faults(tmp_path) == []


def test_a_store_open_for_reading_keeps_everything(tmp_path: Path) -> None:
    old_store(tmp_path, t=None)
    with small_broker(tmp_path, retention_hours=0):
        pass
    with small_broker(tmp_path, read_only=True) as broker:
        with broker.consumer(None, ["t"]) as consumer:
            assert consumer.poll(10) is not None
        assert broker.status().positions.min_offset == 0
    assert files(tmp_path)[0] == 0
