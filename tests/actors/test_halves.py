"""Of actors/halves.py and actors/kept_note.py, and what store/waiting.py knows of half messages.

Goal: a start knows exactly which halves are settled, however old the file is, and retention keeps what is not. Method: a model
of random transactions over several lives of a broker, with kills of its writer; the file is removed, or kept from an earlier
life."""

from __future__ import annotations

import random
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.client import Client
from orbitmq.client.transaction.transaction import Transaction
from orbitmq.errors import TransactionSettled, UnknownTransaction
from orbitmq.native._core import lib
from orbitmq.shm.topic_table import TopicTable
from orbitmq.store import halves
from orbitmq.store.halves import HALF_TOPIC
from orbitmq.store.layout import StoreLayout
from orbitmq.store.waiting import HALF_KEPT_MS, Waiting
from tests.trees import everything, kill, small_broker
from tests.waiting import until


def floor_of(client: Client) -> int:
    return int(lib.control_halves_floor(client.connection.attachment.control))


def test_the_file_follows(tmp_path: Path) -> None:
    """And says no more than what is settled: an open half holds the floor."""
    layout = StoreLayout(tmp_path)
    with small_broker(tmp_path, offsets_interval_s=0.05) as broker, broker.producer() as producer:
        broker.create_topic("t", 1)
        begun = [producer.transaction("t", b"%d" % number) for number in range(40)]
        for tx in begun[:20] + begun[21:30]:
            tx.commit()
        until(lambda: halves.load(layout).floor == 20, "the file to say 20")
        assert [each.body for each in broker.open_transactions()] == [b"%d" % number for number in (20, *range(30, 40))]
        begun[20].rollback()
        until(lambda: halves.load(layout).floor == 30, "the file to say 30")
        for tx in begun[30:]:
            tx.rollback()
        until(lambda: halves.load(layout).floor == 40, "the file to say 40")
        later = producer.transaction("t", b"later")
        later.commit()
        until(lambda: halves.load(layout).floor == 41, "the file to say 41")
        until(lambda: halves.load(layout).operations > 0, "operation messages to be passed")
    with small_broker(tmp_path) as broker:
        assert floor_of(broker) == 41


def test_a_file_that_says_more_than_the_log_is_never_believed(tmp_path: Path) -> None:
    """Goal: nor is it when the log has become long enough again. Method: a file about halves that the log does not have, as a
    repair may leave one; then a life that begins others, and writes no file."""
    layout = StoreLayout(tmp_path)
    with small_broker(tmp_path) as broker, broker.producer() as producer:
        broker.create_topic("t", 1)
        producer.transaction("t", b"settled").commit()
        producer.transaction("t", b"open 1")
    halves.store(layout, halves.Halves(4, 4))
    left = [b"open 1", b"open 2", b"open 3"]
    with small_broker(tmp_path, offsets_interval_s=3600) as broker, broker.producer() as producer:
        assert [each.body for each in broker.open_transactions()] == left[:1]
        for body in left[1:]:
            producer.transaction("t", body)
        producer.transaction("t", b"settled").commit()
    with small_broker(tmp_path) as broker:
        assert [each.body for each in broker.open_transactions()] == left


@pytest.mark.parametrize("seed", range(3))
def test_each_life_knows_what_the_ones_before_settled(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    begun: list[Transaction] = []
    ended: dict[int, str] = {}
    old = b""
    layout = StoreLayout(tmp_path)
    for _ in range(3):
        with small_broker(tmp_path, offsets_interval_s=0.05) as broker, broker.producer() as producer:
            broker.create_topic("t", 2)
            for _ in range(60):
                step = rng.random()
                if step < 0.4 or not begun:
                    begun.append(producer.transaction("t", b"%d" % len(begun)))
                elif step < 0.97:
                    number = rng.randrange(len(begun))
                    each = begun[number]
                    own, doing = Transaction(producer, each.topic, each.id, each.half), rng.choice(("commit", "rollback"))
                    try:
                        getattr(own, doing)()
                        assert number not in ended
                        ended[number] = doing
                    except TransactionSettled as error:
                        assert error.outcome in (None, {"commit": "committed", "rollback": "rolled back"}[ended[number]])
                else:
                    kill(broker, "writer")
            end = broker.status().positions.wrote
            until(lambda: broker.status().positions.reput >= end, "the queues to be complete")
            left = [int(each.body) for each in broker.open_transactions()]
            assert left == [number for number in range(len(begun)) if number not in ended]
            came = sorted(int(body) for body, *_ in everything(broker, "t"))
            assert came == sorted(number for number, doing in ended.items() if doing == "commit")
        now = layout.transactions.read_bytes() if layout.transactions.exists() else b""
        chosen = rng.choice((now, old, b""))
        layout.transactions.write_bytes(chosen)
        old = now


def test_what_waits_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = StoreLayout(tmp_path)
    with small_broker(tmp_path, offsets_interval_s=0.05) as broker, broker.producer() as producer:
        broker.create_topic("t", 1)
        first, second = producer.transaction("t", b"1"), producer.transaction("t", b"2")
        first.commit()
        until(lambda: halves.load(layout).floor == 1, "the file")
        until(lambda: bool(broker.open_transactions()), "the queue")
        begun_ms = broker.open_transactions()[0].begun_ms
        attached = broker.connection.attachment
        table, settings = TopicTable(attached.topics), lib.control_settings(attached.control)
        topics = [topic for topic in table if topic.name == HALF_TOPIC]
        waiting = Waiting(layout, int(settings.queue_file_units), int(settings.log_file_size), table.bounds, lambda: False)
        waiting.refresh()
        assert waiting.oldest(topics) == (second.half.physical_offset, begun_ms + HALF_KEPT_MS)
        monkeypatch.setattr(Waiting, "_now_ms", staticmethod(lambda: begun_ms + HALF_KEPT_MS))
        assert waiting.oldest(topics) is None
        monkeypatch.undo()
        until(lambda: time.time_ns() // 1_000_000 > begun_ms, "another millisecond")
        third = producer.transaction("t", b"3")
        until(lambda: len(broker.open_transactions()) == 2, "the queue")
        monkeypatch.setattr(Waiting, "_now_ms", staticmethod(lambda: begun_ms + HALF_KEPT_MS))
        kept = waiting.oldest(topics)  # the younger one, although an older one is open
        assert kept is not None and kept[0] == third.half.physical_offset
        monkeypatch.undo()
        third.rollback()
        second.rollback()
        until(lambda: halves.load(layout).floor == 3, "the file")
        waiting.refresh()
        assert waiting.oldest(topics) is None


def test_a_limit_of_bytes_says_what_it_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of two open transactions and one that has ended."""
    with small_broker(tmp_path, log_file_size=256 << 10, message_max=64 << 10, retention_bytes=1 << 20) as broker:
        broker.create_topic("t", 1)
        with broker.producer() as producer:
            lost = [producer.transaction("t", b"%d" % number) for number in range(3)]
            lost.pop(1).commit()
            while broker.status().positions.min_offset <= lost[-1].half.physical_offset:
                producer.send_batch("t", [bytes(30_000)] * 10, durability="flushed")
            assert broker.open_transactions() == [] and broker.status().open_transactions == 0
            for each in lost:
                with pytest.raises(UnknownTransaction):
                    each.commit()
            producer.transaction("t", b"next").commit()
    assert caplog.text.count("retention removes the half messages of 2 open transactions") == 1


def test_the_id_of_a_half_is_its_own(tmp_path: Path) -> None:
    """Goal: a second half message with the id is not stored; a message of the topic that it is for may have the same id."""
    with small_broker(tmp_path) as broker, broker.producer() as producer:
        broker.create_topic("t", 1)
        own: dict[str, Any] = {"_half": struct.pack("=Q", 4) + b"shop"}
        producer.transaction("t", b"1").rollback()
        first, second = (producer.send("t", body, dedup="a", **own) for body in (b"2", b"3"))
        assert (first.offset, first.duplicate) == (1, False)
        assert (second.id, second.duplicate) == (first.id, True)
        assert not producer.send("t", b"4", dedup="a").duplicate

