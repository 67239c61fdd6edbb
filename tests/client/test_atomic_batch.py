"""Goal: all messages of an atomic batch are stored, or none, and the error says because of which. Method: a small tree."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

import orbitmq
from orbitmq import errors
from tests.trees import actors, everything, kill, small_broker
from tests.waiting import until


def contents(client: orbitmq.Client, topic: str) -> list[bytes]:
    return [body for body, *_ in everything(client, topic)]


def test_messages_of_several_topics(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders", queues=4)
        broker.create_topic("bills", queues=1)
        with broker.producer() as producer:
            with producer.batch(durability="flushed") as batch:
                assert batch.send("orders", b"one", tags="t", keys=["k1", "k2"], properties={"a": "b"}, flag=7) == 0
                assert batch.send("bills", "two", queue=0) == 1
                assert batch.send("orders", bytearray(b"three"), queue_key="customer") == 2
                assert batch.send("orders", b"later", delay=0.05) == 3
                with pytest.raises(errors.UsageError, match="has none before its block has ended"):
                    _ = batch.receipts
            assert len(batch) == len(batch.receipts) == 4
            receipts = list(batch.receipts)
            assert [receipt.topic for receipt in receipts] == ["orders", "bills", "orders", "orders"]
            assert {receipt.durability for receipt in receipts} == {"flushed"}
            ends = [receipt.physical_offset + receipt.size for receipt in receipts]
            assert [receipt.physical_offset for receipt in receipts[1:]] == ends[:-1], "they lie next to one another"
            with pytest.raises(errors.UsageError, match="its block has ended"):
                batch.send("orders", b"late")
        assert sorted(contents(broker, "bills")) == [b"two"]
        until(lambda: len(contents(broker, "orders")) == 3, "the delayed message")
        (found,) = [message for message in broker.find("orders", "k1")]
        assert (bytes(found.body), found.tags, found.flag, found.properties["a"]) == (b"one", "t", 7, "b")
        with broker.consumer(None, ["orders"], start="earliest") as consumer:
            got = {bytes(each.body): each.properties for each in consumer.poll_batch(10, timeout=10)}
        assert "ATOMIC" not in got[b"later"], "a message that comes later is not of the batch any more"


def test_nothing_is_sent_if_the_block_fails_or_is_empty(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders", queues=1)
        with broker.producer() as producer:
            with pytest.raises(ZeroDivisionError), producer.batch() as batch:
                batch.send("orders", b"one")
                raise ZeroDivisionError
            with producer.batch() as empty:
                pass
            for each in (batch, empty):
                with pytest.raises(errors.UsageError):
                    _ = each.receipts
        assert contents(broker, "orders") == []


def test_the_message_that_is_refused_is_named(tmp_path: Path) -> None:
    """Goal: by the library or by the broker, with the error of a plain send and the message's number."""
    with small_broker(tmp_path) as broker:
        for topic in ("orders", "sealed"):
            broker.create_topic(topic, queues=1)
        broker.set_permissions("sealed", read=True, write=False)
        with broker.producer(message_max=1 << 14) as producer:
            for wrong, error in (
                ({"topic": "ordesr"}, errors.UnknownTopic),
                ({"topic": "sealed"}, errors.NoPermission),
                ({"topic": "orders", "queue": 1}, errors.UnknownQueue),
                ({"topic": "orders", "properties": {"ATOMIC": "0:2"}}, errors.PropertyError),
                ({"topic": "orders", "body": bytes(1 << 14)}, errors.MessageTooLarge),
            ):
                with pytest.raises(error) as caught, producer.batch() as batch:
                    batch.send("orders", b"good")
                    batch.send(**{"body": b"wrong", **wrong})  # type: ignore[arg-type]
                    batch.send("orders", b"good too")
                assert caught.value.index == 1  # type: ignore[attr-defined]
            with pytest.raises(errors.NoPermission) as refused, producer.batch() as batch:
                batch.send("orders", b"good")
                batch.send("sealed", b"wrong")
            with pytest.raises(errors.BatchRefused, match="message 1 of the same atomic batch") as other:
                refused.value.receipts[0]  # type: ignore[attr-defined]
            assert (other.value.topic, other.value.index) == ("orders", 1)
        assert contents(broker, "orders") == []


def test_limits(tmp_path: Path) -> None:
    """Goal: what can never fit is refused with the value, the limit and what to change, and the producer goes on."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders", queues=1)
        for settings, count, size, knob in (
            ({"window": 16}, 17, 1, "raise window="),
            ({"window": 4096}, 2049, 1, "raise lane_capacity"),
            ({"window": 64, "message_max": 1 << 16}, 10, 15_000, "raise lane_capacity"),
            ({"window": 64, "message_max": 1 << 12}, 40, 3800, "submission ring"),
        ):
            with broker.producer(**settings) as producer:  # type: ignore[arg-type]
                with pytest.raises(errors.MessageTooLarge) as caught, producer.batch() as batch:
                    for _ in range(count):
                        batch.send("orders", bytes(size))
                assert caught.value.limit is not None and knob in str(caught.value), str(caught.value)
                with producer.batch() as batch:
                    batch.send("orders", b"fits")
                assert len(batch.receipts) == 1
        assert contents(broker, "orders") == [b"fits"] * 4


def test_all_or_none_while_everything_is_killed(tmp_path: Path) -> None:
    """Method: a thread sends batches over three topics, some with a message that is refused, while handlers, writer
    and reput are killed. In the end each batch is in all its topics as often as its receipts say."""
    rng = random.Random(3)
    stored: set[int] = set()
    sent = 0
    with small_broker(tmp_path, restarts=1000) as broker:
        for topic in ("a", "b", "c", "sealed"):
            broker.create_topic(topic, queues=2)
        broker.set_permissions("sealed", read=True, write=False)
        over = threading.Event()

        def send() -> None:
            nonlocal sent
            with broker.producer(timeout=60) as producer:
                while not over.is_set():
                    sent += 1
                    try:
                        with producer.batch() as batch:
                            for topic in "abc":
                                for n in range(rng.randrange(1, 20)):
                                    batch.send(topic, b"%d.%d" % (sent, n))
                            if rng.random() < 0.2:
                                batch.send("sealed", b"")
                        stored.add(sent)
                    except errors.NoPermission:
                        pass

        victims = [name for name in actors(broker) if name.startswith(("handler", "writer", "reput"))]
        assert len(victims) == 4
        thread = threading.Thread(target=send)
        thread.start()
        for _ in range(12):
            seen = sent
            until(lambda seen=seen: sent > seen + 5, "more batches")  # type: ignore[misc]
            kill(broker, rng.choice(victims))
        over.set()
        thread.join()
        for topic in "abc":
            assert {int(body.partition(b".")[0]) for body in contents(broker, topic)} == stored
            assert len(contents(broker, topic)) == len(set(contents(broker, topic)))
