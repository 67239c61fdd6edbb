"""Goal: a receipt waits for what the send says, or else its producer, or else the topic, in every kind of send.

Method: a broker of threads (thread_broker.py). Without its flush service nothing ever reaches the disk, so a send that waits
for it stays unanswered. With it, every receipt must say "flushed" although a sync without a request is rare.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orbitmq.client.producer.producer import Producer
from orbitmq.errors import StoreFailed
from orbitmq.native._core import lib
from orbitmq.shm.durability import Durability
from tests.client.awaitable import awaitable_producer, run_watched
from tests.client.thread_broker import ThreadBroker
from tests.waiting import until

Said = Durability | None


def set_default(broker: ThreadBroker, topic: str, durability: Durability) -> None:
    """As the coordinator does it."""
    index = lib.topics_find(broker.topics, topic.encode(), len(topic))
    lib.topic_set_durable(broker.topics, index, durability == "flushed")


@contextmanager
def broker_of(root: Path, *, disk: bool) -> Iterator[ThreadBroker]:
    """The topic "plain" says nothing, "safe" says flushed."""
    with ThreadBroker(root, flush=disk) as broker:
        broker.topic("plain")
        broker.topic("safe")
        set_default(broker, "safe", "flushed")
        yield broker


def waits(producer: Producer, topic: str, said: Said) -> set[bool]:
    """Whether sends of one and of many messages wait for the disk, which is not there."""
    pending = producer.send_async(topic, b"x", durability=said)
    batch = producer.send_batch_async(topic, [b"x"] * 3, durability=said)
    producer.flush()
    assert pending.answered and batch.answered
    found = {bool(pending.flush_end), bool(batch.flush_end)}
    assert found == {not pending.done(), not batch.done()}
    return found


def levels(producer: Producer, topic: str, said: Said) -> set[str]:
    """What receipts say, for every kind of send that returns one."""
    return {
        producer.send(topic, b"x", durability=said).durability,
        producer.send_async(topic, b"x", durability=said).result().durability,
        *(receipt.durability for receipt in producer.send_batch(topic, [b"x"] * 3, durability=said)),
        *(receipt.durability for receipt in producer.send_batch_async(topic, [b"x"] * 3, durability=said).result()),
    }


CASES: list[tuple[str, Said, Said, bool]] = [
    ("plain", None, None, False),
    ("safe", None, None, True),
    ("plain", "flushed", None, True),
    ("safe", "flushed", None, True),
    ("plain", "appended", None, False),
    ("safe", "appended", None, False),
    ("plain", None, "flushed", True),
    ("safe", None, "appended", False),
    ("plain", "appended", "flushed", True),
    ("safe", "appended", "flushed", True),
    ("safe", "flushed", "appended", False),
    ("plain", "flushed", "appended", False),
]


@pytest.mark.parametrize(("topic", "of_producer", "of_send", "flushed"), CASES)
def test_the_send_wins_over_the_producer_and_that_over_the_topic(
    tmp_path: Path, topic: str, of_producer: Said, of_send: Said, flushed: bool
) -> None:
    with broker_of(tmp_path / "no disk", disk=False) as broker, Producer(broker, durability=of_producer) as producer:
        assert waits(producer, topic, of_send) == {flushed}
    with broker_of(tmp_path, disk=flushed) as broker, Producer(broker, durability=of_producer) as producer:
        assert levels(producer, topic, of_send) == {"flushed" if flushed else "appended"}


def test_a_broker_that_flushes_every_batch_does_so_whatever_topics_say(tmp_path: Path) -> None:
    with ThreadBroker(tmp_path, flush=False, flush_every=True) as broker, Producer(broker) as producer:
        broker.topic("plain")
        assert waits(producer, "plain", None) == waits(producer, "plain", "appended") == {True}


def test_a_change_counts_for_the_next_send(tmp_path: Path) -> None:
    """What was sent before keeps the level that it was promised, and a batch has one level, that of its first message."""
    with broker_of(tmp_path, disk=False) as broker, Producer(broker, window=4) as producer:
        for _ in range(3):
            before = producer.send_async("plain", b"x")
            set_default(broker, "plain", "flushed")
            assert waits(producer, "plain", None) == {True}
            assert before.done() and not before.flush_end
            broker.stall_now()
            promised = producer.make_batch("plain", [b"x"] * 6)
            assert not producer.push(promised), "the window has room for four"
            set_default(broker, "plain", "appended")
            broker.resume()
            until(lambda: producer.push(promised), "room for the other two")
            assert waits(producer, "plain", None) == {False}
            assert promised.answered and promised.flush_end


def test_a_failed_sync_refuses_what_the_topic_sends_to_the_disk(tmp_path: Path) -> None:
    """If the operator wants to continue after it. Method: the log's file is away for a sync. Refused one-way sends are
    counted."""
    with broker_of(tmp_path, disk=True) as broker, Producer(broker) as producer:
        lib.control_settings(broker.control).go_on_unsynced = 1
        path = broker.layout.log_file(0)
        hidden = path.with_suffix(".away")
        path.rename(hidden)
        with pytest.raises(StoreFailed):
            producer.send("safe", b"x")
        hidden.rename(path)
        with pytest.raises(StoreFailed):
            producer.send_batch("safe", [b"x"] * 3)
        assert producer.send("safe", b"x", durability="appended").durability == "appended"
        assert producer.send("plain", b"x").durability == "appended"
        refused = producer.failed
        for said in (None, "appended", None):
            producer.send_oneway("safe", b"x", durability=said)
            producer.send_oneway("plain", b"x", durability=said)
        producer.flush()
        assert producer.failed == refused + 2


def test_tasks(tmp_path: Path) -> None:
    async def work(broker: ThreadBroker) -> None:
        async with awaitable_producer(broker) as producer:
            for topic, of_producer, said, flushed in CASES:
                if of_producer is not None:
                    continue
                pending = await producer.send_async(topic, b"x", durability=said)
                batch = await producer.send_batch_async(topic, [b"x"] * 3, durability=said)
                await producer.flush()
                assert {bool(pending.flush_end), bool(batch.flush_end)} == {flushed}
                if not flushed:
                    assert (await producer.send(topic, b"x", durability=said)).durability == "appended"
                    assert (await producer.send_batch(topic, [b"x"], durability=said))[0].durability == "appended"

    with broker_of(tmp_path, disk=False) as broker:
        run_watched(work(broker))


def test_tasks_get_their_receipts_from_the_disk(tmp_path: Path) -> None:
    async def work(broker: ThreadBroker) -> None:
        async with awaitable_producer(broker) as producer:
            assert (await producer.send("safe", b"x")).durability == "flushed"
            assert (await (await producer.send_async("safe", b"x"))).durability == "flushed"
            assert {receipt.durability for receipt in await producer.send_batch("safe", [b"x"] * 3)} == {"flushed"}

    with broker_of(tmp_path, disk=True) as broker:
        run_watched(work(broker))
