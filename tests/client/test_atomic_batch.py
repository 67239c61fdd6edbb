"""Goal: all messages of an atomic batch are stored, or none, and the error says because of which. Method: a small tree. Of
client/producer/atomic_batch.py; also of client/receipt.py: an empty batch has empty receipts."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

import pytest

import orbitmq
from orbitmq import errors
from tests.trees import actors, everything, indexed, kill, small_broker
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
            with pytest.raises(errors.UsageError, match="its block failed"):
                _ = batch.receipts
            assert (len(empty.receipts), list(empty.receipts), empty.receipts.raw.nbytes) == (0, [], 0)
            with pytest.raises(IndexError):
                _ = empty.receipts[0]
            with pytest.raises(errors.UsageError, match="before its block has ended"), producer.batch() as begun:
                _ = begun.receipts
        assert contents(broker, "orders") == []


def test_a_batch_has_one_block(tmp_path: Path) -> None:
    """Goal: nothing is sent twice, and nothing of a block that failed, by entering a batch twice."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders", queues=1)
        with broker.producer() as producer:
            with producer.batch() as batch:
                batch.send("orders", b"one")
                with pytest.raises(errors.UsageError, match="only one"):
                    batch.__enter__()
            with pytest.raises(ZeroDivisionError), producer.batch() as failed:
                failed.send("orders", b"never")
                raise ZeroDivisionError
            for over in (batch, failed):
                with pytest.raises(errors.UsageError, match="only one"), over:
                    pass
        assert contents(broker, "orders") == [b"one"]


def test_a_message_before_the_block_is_refused(tmp_path: Path) -> None:
    """Goal: a program that forgets the `with` is told so: what it collected would never be sent. Likewise for offsets."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders", queues=1)
        consumer, producer = broker.consumer("g", ["orders"]), broker.producer()
        batch = producer.batch()
        with pytest.raises(errors.UsageError, match=r"its block has not begun; write `with producer.batch\(\) as batch:`"):
            batch.send("orders", b"never")
        with pytest.raises(errors.UsageError, match="its block has not begun"):
            batch.commit(consumer)
        with batch:
            batch.send("orders", b"in the block")
        assert contents(broker, "orders") == [b"in the block"]


def test_arguments_may_change_before_the_end(tmp_path: Path) -> None:
    """Goal: a batch has what it was given, also where a program fills one body, list or dict again for each message."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders", queues=1)
        body, keys, properties = bytearray(b"0"), ["0"], {"n": "0"}
        with broker.producer() as producer, producer.batch() as batch:
            for text in ("0", "1", "2"):
                body[:] = text.encode()
                keys[0] = properties["n"] = text
                batch.send("orders", body, keys=keys, properties=properties)
        indexed(broker)
        with broker.consumer(None, ["orders"], start="earliest") as consumer:
            got = [(bytes(each.body), each.keys, each.properties["n"]) for each in consumer.poll_batch(3, timeout=10)]
        assert got == [(b"%d" % n, [f"{n}"], f"{n}") for n in range(3)]


@pytest.mark.parametrize("body", [5, [1, 2], None, 1.5])
def test_what_is_no_body_is_refused_as_send_does(lent: orbitmq.Broker, lent_topic: str, body: object) -> None:
    with lent.producer() as producer:
        with pytest.raises(TypeError, match="a body must be bytes, str or a buffer, not <class"):
            producer.send(lent_topic, body)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a body must be bytes, str or a buffer, not <class"), producer.batch() as batch:
            batch.send(lent_topic, body)  # type: ignore[arg-type]
    assert contents(lent, lent_topic) == []


def test_receipts_that_come_late_can_be_asked_for(tmp_path: Path) -> None:
    """Goal: TimedOut has `pending` if the batch was sent, as from Producer.send_batch. Method: a writer that is stopped."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders", queues=1)
        writer = actors(broker)["writer"].pid
        with broker.producer(timeout=60) as producer:
            os.kill(writer, signal.SIGSTOP)
            try:
                with pytest.raises(errors.TimedOut) as late, producer.batch(timeout=0.05) as batch:
                    batch.send("orders", b"one")
                    batch.send("orders", b"two")
            finally:
                os.kill(writer, signal.SIGCONT)
            assert late.value.pending is not None
            assert [receipt.offset for receipt in late.value.pending.result()] == [0, 1]


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
            ({"window": 16}, 65_537, 1, "raise window="),
            ({"window": 4096}, 2049, 1, "raise lane_capacity"),
            ({"window": 64, "message_max": 1 << 16}, 10, 15_000, "raise lane_capacity"),
            ({"window": 64, "message_max": 1 << 12}, 40, 3800, "submission ring"),
        ):
            with broker.producer(**settings) as producer:  # type: ignore[arg-type]
                with pytest.raises(errors.MessageTooLarge) as caught, producer.batch() as batch:
                    for _ in range(count):
                        batch.send("orders", bytes(size))
                assert caught.value.limit is not None and knob in str(caught.value), str(caught.value)
                assert caught.value.topic == "orders"
                with producer.batch() as batch:
                    batch.send("orders", b"fits")
                assert len(batch.receipts) == 1
        assert contents(broker, "orders") == [b"fits"] * 5


@pytest.mark.parametrize(("window", "before", "count"), [(16, 10, 10), (16, 15, 2), (16, 1, 16)])
def test_a_window_with_room_for_a_part_is_full(tmp_path: Path, window: int, before: int, count: int) -> None:
    """Goal: a batch that does not fit into the window now waits up to the timeout, or raises Full, although one message would.
    While it waits, other threads run, and it is sent once there is room. Method: a writer that is stopped."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders", queues=1)
        writer = actors(broker)["writer"].pid
        with broker.producer(window=window) as waits, broker.producer(window=window, on_full="error") as raises:

            def send(producer: orbitmq.Producer, timeout: float) -> None:
                with producer.batch(timeout=timeout) as batch:
                    for n in range(count):
                        batch.send("orders", b"batch %d" % n)

            os.kill(writer, signal.SIGSTOP)
            try:
                for producer in (waits, raises):
                    for _ in range(before):
                        producer.send_async("orders", b"before")
                with pytest.raises(errors.Full) as full:
                    send(raises, 60)
                assert (full.value.limit, full.value.size) == ("window", window)
                with pytest.raises(errors.TimedOut) as late:
                    send(waits, 0.05)
                assert late.value.pending is None
                assert waits.in_flight == before, "nothing was sent"
                thread = threading.Thread(target=send, args=(waits, 60))
                thread.start()
            finally:
                os.kill(writer, signal.SIGCONT)
            thread.join()
            raises.flush()
            send(raises, 60)
        assert sorted(contents(broker, "orders")) == sorted(
            [b"before"] * 2 * before + [b"batch %d" % n for n in range(count)] * 2
        )


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
