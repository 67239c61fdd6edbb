"""Goal: a producer without room raises, or waits for as long as it was told, and says what it has sent. Method: a stalled
handler makes window and ring full when needed (thread_broker.py)."""

from __future__ import annotations

import pytest

from orbitmq.client.producer.producer import Producer
from orbitmq.errors import (
    Full,
    TimedOut,
    UnknownTopic,
)
from tests.client.thread_broker import ThreadBroker


def test_a_full_window_is_an_answer(broker: ThreadBroker) -> None:
    with Producer(broker, window=4, on_full="error") as producer:
        broker.stall_now()
        pendings = [producer.send_async("orders", b"") for _ in range(4)]
        with pytest.raises(Full) as full:
            producer.send_async("orders", b"")
        assert (full.value.limit, full.value.size) == ("window", 4)
        with pytest.raises(Full) as full:
            producer.send_batch("orders", [b""])
        assert full.value.sent == 0
        broker.resume()
        assert [pending.result(10).queue for pending in pendings] == [0, 1, 2, 3]
        assert producer.send("orders", b"").offset == 0
    assert len(broker.log()) == 5


def test_a_full_window_is_a_bounded_wait(broker: ThreadBroker) -> None:
    with Producer(broker, window=4, timeout=0.05) as producer:
        broker.stall_now()
        batch = producer.send_batch_async("orders", [b""] * 4)
        with pytest.raises(TimedOut):
            producer.send_async("orders", b"")
        with pytest.raises(TimedOut):
            batch.result(0)
        with pytest.raises(TimedOut) as short:
            producer.send_batch("orders", [b""])
        assert short.value.sent == 0
        broker.resume()
        assert len(batch.result(10)) == 4
        assert len(producer.send_batch("orders", [b"x"] * 1000, timeout=240)) == 1000
    assert len(broker.log()) == 1004


def test_a_full_ring_is_an_answer_and_a_wait(broker: ThreadBroker) -> None:
    body = bytes(200_000)
    with Producer(broker, window=1024, message_max=256 << 10) as producer:
        assert len(producer.send_batch("orders", [body] * 60)) == 60
    with Producer(broker, window=1024, message_max=256 << 10, on_full="error") as producer:
        broker.stall_now()
        with pytest.raises(Full) as full:
            producer.send_batch("orders", [body] * 60)
        assert full.value.limit == "ring"
        sent = full.value.sent
        assert 15 <= sent <= 25
        broker.resume()
        assert len(full.value.pending.result(10)) == sent
    assert len(broker.log()) == 60 + sent


def test_a_batch_cut_short_says_what_was_sent(broker: ThreadBroker) -> None:
    with Producer(broker, window=8, timeout=0.05) as producer:
        broker.stall_now()
        with pytest.raises(TimedOut) as short:
            producer.send_batch("orders", [b"%d" % i for i in range(20)])
        assert short.value.sent == 8
        broker.resume()
        assert len(short.value.pending.result(10)) == 8
    assert len(broker.log()) == 8


def test_a_send_that_ran_out_of_time_can_be_waited_for(broker: ThreadBroker) -> None:
    with Producer(broker) as producer:
        with pytest.raises(UnknownTopic) as refused:
            producer.send("nowhere", b"")
        assert refused.value.pending is None
        for durability in ("appended", "flushed"):
            broker.stall_now()
            with pytest.raises(TimedOut) as short:
                producer.send("orders", b"late", durability=durability, timeout=0.05)
            assert not short.value.pending.done()
            broker.resume()
            assert short.value.pending.result(10).durability in (durability, "flushed")  # a timed sync may be sooner
    assert len(broker.log()) == 2
