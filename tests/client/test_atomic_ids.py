"""Atomic batches and half messages with ids: a second batch is not stored, and a named producer sends its own again."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import orbitmq
from orbitmq import errors
from tests.client.restarts import Restarts
from tests.client.test_named_producer import PATIENT_S, halted
from tests.trees import everything, indexed, kill, small_broker
from tests.waiting import until

TOPICS = ("orders", "others")


def bodies(client: orbitmq.Client | orbitmq.Broker, topic: str) -> list[bytes]:
    return [body for body, *_ in everything(client, topic)]


def collect(batch: orbitmq.AtomicBatch, *sent: bytes) -> None:
    """The messages go to both topics, one after another; the second of them is delayed."""
    for i, body in enumerate(sent):
        batch.send(TOPICS[i % 2], body, queue=0, delay=None if i != 1 else 0.001)


def test_one_id_one_batch(tmp_path: Path) -> None:
    """Goal: a second batch with the id is not stored, and its receipts are those of the first. The id is one of the first
    message's topic, and single messages know it too."""
    with small_broker(tmp_path / "store") as broker:
        for topic in TOPICS:
            broker.create_topic(topic)
        with broker.producer() as producer:
            with producer.batch(dedup="batch-1") as first:
                collect(first, b"a", b"b", b"c")
            with producer.batch(dedup="batch-1", durability="flushed") as again:
                collect(again, b"x", b"y", b"z")
            assert [receipt.duplicate for receipt in first.receipts] == [False] * 3
            assert [receipt.duplicate for receipt in again.receipts] == [True] * 3
            assert [(r.id, r.queue, r.offset) for r in again.receipts] == [(r.id, r.queue, r.offset) for r in first.receipts]
            assert {receipt.durability for receipt in again.receipts} == {"flushed"}
            assert producer.send("orders", b"single", dedup="batch-1").id == first.receipts[0].id
            with producer.batch(dedup="batch-1") as elsewhere:
                elsewhere.send("others", b"d")
                elsewhere.send("orders", b"e")
            with producer.batch(dedup=b"\x01\x02") as one:
                one.send("orders", b"f")
            assert producer.send("orders", b"f", dedup="0102").duplicate
            assert not elsewhere.receipts[0].duplicate
        until(lambda: len(bodies(broker, "others")) == 2, "the delayed message")
        assert sorted(bodies(broker, "orders")) == [b"a", b"c", b"e", b"f"]
        assert sorted(bodies(broker, "others")) == [b"b", b"d"]


def test_another_batch_under_the_id_is_refused(tmp_path: Path) -> None:
    """Goal: receipts are never those of other messages: a batch of another size under the id is an error that says so."""
    with small_broker(tmp_path / "store") as broker, broker.producer() as producer:
        broker.create_topic("orders", queues=1)
        producer.send("orders", b"single", dedup="s")
        with producer.batch(dedup="b") as batch:
            for body in (b"1", b"2"):
                batch.send("orders", body)
        for dedup, size, stored in (("s", 2, 1), ("b", 3, 2), ("b", 1, 2)):
            with pytest.raises(errors.UsageError, match=f"of {stored} message") as told, producer.batch(dedup=dedup) as batch:
                for _ in range(size):
                    batch.send("orders", b"x")
            assert told.value.value == stored
            for others in range(1, size):
                with pytest.raises(errors.BatchRefused):
                    told.value.receipts[others]  # type: ignore[attr-defined]
        with producer.batch(dedup="s") as batch:
            batch.send("orders", b"x")
        assert batch.receipts[0].duplicate and producer.send("orders", b"x", dedup="b").duplicate
        assert bodies(broker, "orders") == [b"single", b"1", b"2"]


@pytest.mark.parametrize(
    ("dedup", "error"),
    [(17, TypeError), ("", errors.PropertyError), ("a\x01", errors.PropertyError), ("\x03a", errors.PropertyError),
     ("x" * 256, errors.PropertiesTooLarge)],
)  # fmt: skip
def test_what_is_no_id(lent: orbitmq.Broker, lent_topic: str, dedup: object, error: type[Exception]) -> None:
    with lent.producer() as producer:
        with pytest.raises(error), producer.batch(dedup=dedup) as batch:  # type: ignore[arg-type]
            batch.send(lent_topic, b"x")
        assert not bodies(lent, lent_topic)


def test_a_batch_that_commits_offsets_has_no_id(tmp_path: Path) -> None:
    """Goal: its offsets say whether it was stored, and an id that said otherwise would be a second answer."""
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("orders", queues=1)
        with broker.producer(name="shop") as producer, broker.consumer("g", ["orders"], start="earliest") as consumer:
            producer.send("orders", b"0")
            until(lambda: consumer.poll_batch(10, timeout=1), "the message")
            with pytest.raises(errors.UsageError), producer.batch(dedup="a") as batch:
                batch.commit(consumer)
            with producer.batch() as batch:
                batch.commit(consumer)
                batch.send("orders", b"1")
        indexed(broker)
        with broker.consumer("h", ["orders"], start="earliest") as consumer:
            got = until(lambda: (messages := consumer.poll_batch(10, timeout=1)) and len(messages) == 2 and messages, "both")
        assert ["DEDUP_ID" in message.properties for message in got] == [True, False]


@pytest.mark.parametrize("actor", ["writer", "handler 0", "reput"])
def test_a_resend_after_a_death_is_stored_once(tmp_path: Path, actor: str) -> None:
    """Goal: successors find the id of a batch in the log. Method: each batch is sent again after a kill."""
    with small_broker(tmp_path / "store") as broker:
        for topic in TOPICS:
            broker.create_topic(topic, queues=1)
        with broker.producer() as producer:
            for number in range(3):
                receipts = []
                for _ in range(2):
                    with producer.batch(dedup=f"batch-{number}") as batch:
                        collect(batch, *(b"%d %d" % (number, i) for i in range(4)))
                    receipts.append([(receipt.id, receipt.offset) for receipt in batch.receipts])
                    kill(broker, actor)
                assert receipts[0] == receipts[1]
        wanted = [b"%d %d" % (number, i) for number in range(3) for i in range(4)]
        until(lambda: len(bodies(broker, "orders") + bodies(broker, "others")) == len(wanted), "all messages")
        assert sorted(bodies(broker, "orders") + bodies(broker, "others")) == wanted


@pytest.mark.parametrize("durability", ["appended", "flushed"])
@pytest.mark.parametrize("stored", [False, True])
def test_a_named_producer_sends_its_batches_again(tmp_path: Path, durability: orbitmq.Durability, stored: bool) -> None:
    """Goal: batches that a kill of the whole tree finds on their way get their receipts from the next tree, whether they were
    stored or not. Method: the writer, or only the flush service, is stopped before they are sent."""
    with Restarts(tmp_path / "store") as broker:
        broker.start()
        with broker.connect() as client:
            for topic in TOPICS:
                client.create_topic(topic, queues=1)
            with client.producer(name="shop", window=16, wait=PATIENT_S, durability=durability) as producer:
                producer.send("orders", b"0")
                halted(client, "flush" if stored else "writer")
                pending = [
                    producer.post_atomic(tuple(((TOPICS[i % 2], b"%d" % (first + i)), ()) for i in range(size)), None, None)
                    for first, size in ((1, 3), (4, 1), (5, 4))
                ]
                after = producer.send_async("orders", b"9")
                if stored:
                    until(lambda: len(bodies(client, "orders") + bodies(client, "others")) == 10, "the messages")
                    if durability == "appended":  # the writer says so after it has made them readable
                        until(lambda: all(each.done() for each in pending), "their receipts")
                broker.kill()
                broker.start()
                receipts = [receipt for each in pending for receipt in each.result(timeout=PATIENT_S)]
                assert len(receipts) == 8
                again = stored and durability == "flushed"
                assert all(receipt.duplicate == again for receipt in receipts if stored or not receipt.duplicate)
                # A message may be on disk before its receipt is made, though nobody waited for that.
                assert {receipt.durability for receipt in receipts} <= {durability, "flushed"}
                after.result(timeout=PATIENT_S)
            together = bodies(client, "orders"), bodies(client, "others")
            assert together == ([b"0", b"1", b"3", b"4", b"5", b"7", b"9"], [b"2", b"6", b"8"])


@pytest.mark.parametrize("stored", [False, True])
def test_a_named_producer_begins_its_transactions_again(tmp_path: Path, stored: bool) -> None:
    """Goal: a half message that a kill of the tree finds on its way is stored once, and its transaction goes on. The message
    that it becomes has no id. Method: the writer, or only the flush service, is stopped before."""
    with Restarts(tmp_path / "store") as broker, ThreadPoolExecutor(1) as threads:
        broker.start()
        with broker.connect() as client:
            client.create_topic("orders", queues=1)
            with client.producer(name="shop", wait=PATIENT_S, durability="flushed") as producer:
                with producer.transaction("orders", b"0"):
                    pass
                halted(client, "flush" if stored else "writer")
                begun = threads.submit(producer.transaction, "orders", b"1")
                until(lambda: producer.in_flight == 1 and (not stored or list(client.open_transactions())), "the half message")
                broker.kill()
                broker.start()
                tx = begun.result()
                assert tx.half.duplicate == stored
                assert [each.id for each in client.open_transactions()] == [tx.id]
                tx.commit()
                assert not list(client.open_transactions())
            assert bodies(client, "orders") == [b"0", b"1"]
            with client.consumer("g", ["orders"], start="earliest") as consumer:
                got = until(lambda: (messages := consumer.poll_batch(10, timeout=1)) and messages, "the messages")
            assert all("DEDUP_ID" not in message.properties for message in got)


def test_asyncio(tmp_path: Path) -> None:
    async def run(name: str) -> None:
        async with orbitmq.aio.connect(name) as client, await client.producer() as producer:
            stored = []
            for _ in range(2):
                async with producer.batch(dedup="a") as batch:
                    batch.send("orders", b"1")
                    batch.send("orders", b"2")
                stored.append(batch.receipts)
            assert [(receipt.id, receipt.duplicate) for receipt in stored[1]] == [(receipt.id, True) for receipt in stored[0]]

    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("orders", queues=1)
        asyncio.run(run(broker.name))
        assert bodies(broker, "orders") == [b"1", b"2"]
