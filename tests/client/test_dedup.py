"""Sends with an id, against a real tree."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.store.delays import TIMER_TOPIC
from tests.trees import everything, kill, small_broker
from tests.waiting import until

KILLED = ("writer", "handler 0", "handler 1", "reput", "flush", "coordinator")


def test_one_id_one_message(tmp_path: Path) -> None:
    """Goal: every way to send takes ids, and the receipt of the second one is that of the first. An id is one of its topic."""
    with small_broker(tmp_path / "store") as broker:
        for topic in ("orders", "others"):
            broker.create_topic(topic)
        with broker.producer() as producer:
            first = producer.send("orders", b"one", dedup="order-17")
            again = producer.send("orders", b"two", dedup="order-17", durability="flushed")
            assert (first.duplicate, again.duplicate) == (False, True)
            assert (again.queue, again.offset, again.physical_offset) == (first.queue, first.offset, first.physical_offset)
            assert again.durability == "flushed"
            assert not producer.send("others", b"one", dedup="order-17").duplicate
            assert producer.send_async("orders", b"two", dedup="order-17").result().duplicate
            producer.send_oneway("orders", b"two", dedup="order-17")
            producer.flush()
            assert producer.failed == 0
            receipts = producer.send_batch("orders", [b"a", b"b", b"c"], dedup=["order-17", b"\x01\x02", "0102"])
            assert [receipt.duplicate for receipt in receipts] == [True, False, True]
            assert receipts[0].id == first.id and receipts[2].id == receipts[1].id
            message = producer.send("orders", b"with more", dedup="ü" * 127, tags="t", keys=["k"], properties={"color": "red"})
            assert not message.duplicate
        assert [body for body, *_ in everything(broker, "orders")] == [b"one", b"b", b"with more"]

        def counted() -> bool:  # some time after the verdicts were delivered
            writer = next(actor for actor in broker.status().actors if actor.name == "writer")
            return (writer.counters["duplicates"], writer.counters["messages"]) == (5, 4)

        until(counted, "the writer to count 5 duplicates and 4 messages")


def test_a_duplicate_that_waits_for_the_disk_is_not_kept_waiting(tmp_path: Path) -> None:
    """Goal: the disk is asked for what the first message did not ask for. Method: without the second, the flush service would
    come once a minute, which the send's timeout does not allow."""
    with small_broker(tmp_path / "store", flush_interval_ms=60_000) as broker:
        broker.create_topic("orders")
        with broker.producer(timeout=30) as producer:
            assert producer.send("orders", b"one", dedup="a", durability="appended").durability == "appended"
            assert producer.send("orders", b"two", dedup="a", durability="flushed").durability == "flushed"


def test_delayed_messages_have_ids(tmp_path: Path) -> None:
    """Goal: an id holds for the topic that a message is for, wherever it waits; the message that comes has it no more, so that
    its coming does not make the window longer."""
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("orders")
        with broker.producer() as producer, broker.consumer("g", ["orders"], start="earliest") as consumer:
            first = producer.send("orders", b"later", dedup="a", delay=0.2, properties={"color": "red"})
            assert producer.send("orders", b"now", dedup="a").physical_offset == first.physical_offset
            assert producer.send("orders", b"at a level", dedup="a", delay_level=1).duplicate
            (message,) = until(lambda: consumer.poll_batch(10, timeout=0.1), "the delayed message")
            assert message.body == b"later"
            assert message.properties["color"] == "red" and "DEDUP_ID" not in message.properties
            assert producer.send("orders", b"now", dedup="a").duplicate
            assert {topic.name for topic in broker.status().topics} >= {TIMER_TOPIC}


@pytest.mark.parametrize(
    ("id_", "error"),
    [
        ("", errors.PropertyError),
        ("a\x01b", errors.PropertyError),
        ("\x03Aa:b:1", errors.PropertyError),
        ("x" * 256, errors.PropertiesTooLarge),
        (17, TypeError),
    ],
)
def test_what_is_no_id(lent: orbitmq.Broker, lent_topic: str, id_: str, error: type[Exception]) -> None:
    with lent.producer() as producer:
        with pytest.raises(error):
            producer.send(lent_topic, b"x", dedup=id_)
        with pytest.raises(error):
            producer.send_batch(lent_topic, [b"x"], dedup=[id_])
        for ids in (["a"], "ab", [None, "a"]):
            with pytest.raises((errors.UsageError, TypeError)):
                producer.send_batch(lent_topic, [b"x", b"y"], dedup=ids)  # type: ignore[arg-type]
        with pytest.raises(errors.PropertyError, match="the id of a message"):
            producer.send(lent_topic, b"x", properties={"DEDUP_ID": "a"})
    assert everything(lent, lent_topic) == []


def test_too_many_ids(tmp_path: Path) -> None:
    """Goal: the error names the limit and both settings that help."""
    with small_broker(tmp_path / "store", dedup_ids=2) as broker:
        broker.create_topic("orders")
        with broker.producer() as producer:
            producer.send_batch("orders", [b"x"] * 2, dedup=["a", "b"])
            with pytest.raises(errors.Full, match="2 ids") as raised:
                producer.send("orders", b"x", dedup="c")
            assert raised.value.limit == "dedup_ids"  # type: ignore[attr-defined]
            assert "dedup_ids" in str(raised.value) and "dedup_window_s" in str(raised.value)
            assert producer.send("orders", b"x", dedup="a").duplicate


def test_asyncio(tmp_path: Path) -> None:
    async def main() -> None:
        async with orbitmq.aio.connect(store=tmp_path / "store") as client, await client.producer() as producer:
            first = await producer.send("orders", b"x", dedup="a")
            assert (await producer.send("orders", b"x", dedup="a")).id == first.id
            assert (await (await producer.send_async("orders", b"x", dedup="a"))).duplicate
            await producer.send_oneway("orders", b"x", dedup="a")
            both = await producer.send_batch("orders", [b"x", b"y"], dedup=["a", "b"])
            assert [each.duplicate for each in both] == [True, False]

    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("orders")
        asyncio.run(main())
        assert len(everything(broker, "orders")) == 2


@pytest.mark.parametrize("placement", ["spread", "together"])
def test_a_resend_after_any_death_is_stored_once(tmp_path: Path, placement: str) -> None:
    """Goal: a sender that repeats what it is not sure of has every message in the log once, whatever process died, and when the
    tree ended. Method: batches with ids from a counter, each sent again, some of them in part, until it has its receipts; kills
    in between; then the log against the ids."""
    rng = random.Random(placement)
    wanted: set[bytes] = set()
    number = 0
    for life in range(3):
        with small_broker(tmp_path / "store", placement=placement) as broker:
            if not life:
                broker.create_topic("orders")
            for turn in range(8):
                names = [f"{number + n}" for n in range(rng.choice((1, 5, 60)))]
                number += rng.randrange(len(names)) + 1  # the next one begins with some of these
                with broker.producer(window=64, timeout=30, wait=30) as producer:
                    pending = producer.send_batch_async("orders", [name.encode() for name in names], dedup=names)
                    if turn % 2:
                        kill(broker, rng.choice(KILLED) if placement == "spread" else "writer")
                    del pending

                    def again(names: list[str] = names) -> orbitmq.Receipts | None:
                        try:
                            with broker.producer(window=64, timeout=30, wait=30) as other:
                                return other.send_batch("orders", [name.encode() for name in names], dedup=names)
                        except (errors.BrokerError, errors.TimedOut):
                            return None

                    receipts = until(again, "receipts")
                    assert len({receipt.physical_offset for receipt in receipts}) == len(names)
                wanted |= {name.encode() for name in names}
            stored = [body for body, *_ in everything(broker, "orders")]
            assert len(stored) == len(set(stored)) and set(stored) == wanted
            kill(broker, "writer")
