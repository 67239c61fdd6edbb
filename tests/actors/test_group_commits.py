"""Goal: a start finds where groups are, from the note, from the log, or from both, and believes no note that says more than the
log. Method: stores of a small broker, whose note is removed, damaged, old, or of a log that is gone. Of
actors/groups/group_commits.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orbitmq.store import config, group_commits
from orbitmq.store.group_commits import GroupCommits
from orbitmq.store.layout import StoreLayout
from tests.trees import small_broker
from tests.waiting import until

OFFSETS = "config/consumerOffset.json"


def committed(store: Path, batches: int, **settings: float) -> int | None:
    """A life of the broker, in which messages are sent and passed on. Returns where the group is then."""
    with small_broker(store, **settings) as broker, broker.producer() as producer:
        broker.create_topic("orders", queues=1)
        broker.create_topic("priced", queues=1)
        with broker.consumer("pricing", ["orders"]) as consumer:
            for _ in range(batches):
                producer.send_batch("orders", [b"x"] * 3, durability="flushed")
                until(lambda: consumer.lag()["orders", 0] >= 2, "two messages")
                assert len(consumer.poll_batch(2, timeout=10)) == 2
                with producer.batch(durability="flushed") as batch:
                    batch.commit(consumer)
                    batch.send("priced", b"y")
            if settings.get("offsets_interval_s", 60) < 60:
                layout = StoreLayout(store)
                until(lambda: group_commits.load(layout).next >= batches, "the note")
            return consumer.committed().get(("orders", 0))


def forget(layout: StoreLayout) -> None:
    layout.group_commits.unlink(missing_ok=True)


def damage(layout: StoreLayout) -> None:
    layout.group_commits.write_bytes(b"orbitcmt, or what is left of it")


def claim_too_much(layout: StoreLayout) -> None:
    noted = group_commits.load(layout)
    group_commits.store(layout, GroupCommits(noted.next + 100, [*noted.entries[:2], 12345]))


def claim_nothing_of_the_log(layout: StoreLayout) -> None:
    group_commits.store(layout, GroupCommits())


@pytest.mark.parametrize("change", [forget, damage, claim_too_much, claim_nothing_of_the_log])
def test_a_file_that_says_nothing(tmp_path: Path, change: Callable[[StoreLayout], None]) -> None:
    assert committed(tmp_path, 3, offsets_interval_s=0.02) == 6
    change(StoreLayout(tmp_path))
    (tmp_path / OFFSETS).unlink()
    assert committed(tmp_path, 0) == 6


def test_an_old_note_and_the_log(tmp_path: Path) -> None:
    """Goal: what the note lacks is read from the log, in order."""
    layout = StoreLayout(tmp_path)
    assert committed(tmp_path, 2, offsets_interval_s=0.02) == 4
    old = layout.group_commits.read_bytes()
    assert committed(tmp_path, 3, offsets_interval_s=3600) == 10
    layout.group_commits.write_bytes(old)
    assert group_commits.load(layout).next == 2
    assert committed(tmp_path, 1) == 12


def test_a_note_that_says_more_than_the_log_is_never_believed(tmp_path: Path) -> None:
    """Goal: nor is it when the log has become long enough again. Method: a note of records that the log does not have, as a
    repair may leave one; then a life that stores others, and writes no note."""
    layout = StoreLayout(tmp_path)
    assert committed(tmp_path, 3, offsets_interval_s=0.02) == 6
    noted = group_commits.load(layout)
    group_commits.store(layout, GroupCommits(noted.next + 2, [*noted.entries[:2], 1]))
    assert committed(tmp_path, 2, offsets_interval_s=3600) == 10
    (tmp_path / OFFSETS).unlink()
    assert committed(tmp_path, 0) == 10


def without_old_records(tmp_path: Path) -> None:
    """A store whose log has lost its first file, with the only record of where "pricing" is; the note has it."""
    with small_broker(tmp_path, offsets_interval_s=0.02) as broker, broker.producer() as producer:
        for topic in ("orders", "priced", "filling"):
            broker.create_topic(topic, queues=1)
        with broker.consumer("pricing", ["orders"]) as consumer:
            producer.send("orders", b"x")
            assert consumer.poll(10) is not None
            with producer.batch() as batch:
                batch.commit(consumer)
        producer.send_batch("filling", [bytes(10_000)] * 250, durability="flushed")
        until(lambda: group_commits.load(StoreLayout(tmp_path)).next == 1, "the note")
    config.store_offsets(StoreLayout(tmp_path), {("orders", "pricing"): {0: 0}})  # older than the record
    first = min((tmp_path / "commitlog").iterdir())
    first.unlink()


def test_a_note_and_a_log_without_old_records(tmp_path: Path) -> None:
    """Goal: retention may remove records that the note has. Method: the log's first file, and what it holds, are not there any
    more; the note is."""
    without_old_records(tmp_path)
    with small_broker(tmp_path) as broker:
        (topic,) = (each for each in broker.status().topics if each.name == group_commits.COMMITS_TOPIC)
        assert topic.queues[0].min_offset == 1
        with broker.consumer("pricing", ["orders"]) as consumer:
            assert consumer.committed() == {("orders", 0): 1}


def test_neither_a_note_nor_old_records(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Goal: what is lost is said."""
    without_old_records(tmp_path)
    StoreLayout(tmp_path).group_commits.unlink()
    with small_broker(tmp_path) as broker, broker.consumer("pricing", ["orders"]) as consumer:
        assert consumer.committed() == {("orders", 0): 0}
    assert "retention has removed 1 of their records" in caplog.text
