"""Goal: every message that a producer accepts gets exactly one verdict, and the log holds what was sent.

Method: the broker's real handler, writer and flush service as threads (thread_broker.py). A stalled handler makes window and
ring full when needed; the tree's death and fork are simulated.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any

import pytest

from orbitmq.client.producer.producer import Producer
from orbitmq.errors import (
    BrokerStopped,
    Closed,
    PerhapsStored,
    TimedOut,
    UsageError,
)
from orbitmq.store.commit_log.record import unpack_properties
from tests.client.thread_broker import ThreadBroker
from tests.waiting import until


def properties(record: Any) -> dict[str, str]:
    found = unpack_properties(record.raw_properties)
    found.pop("__CRC32#", None)
    return found


def test_a_message_arrives_as_it_was_sent(broker: ThreadBroker, producer: Producer) -> None:
    receipt = producer.send(
        "orders",
        b"\x00body\xff",
        tags="paid",
        keys=["o-1", "o-2"],
        queue=3,
        properties={"a": "b"},
        flag=7,
    )
    (record,) = broker.log()
    assert bytes(record.body) == b"\x00body\xff"
    assert properties(record) == {"TAGS": "paid", "KEYS": "o-1 o-2", "a": "b"}
    assert (record.topic, record.queue_id, record.flag) == ("orders", 3, 7)
    assert (receipt.topic, receipt.queue, receipt.offset, receipt.physical_offset) == ("orders", 3, 0, 0)
    assert receipt.size == record.size
    assert receipt.id == "7F00000100002A9F0000000000000000"


BODIES = [b"abc", bytearray(b"abc"), memoryview(b"xabcx")[1:4], "abc", memoryview(b"abc").cast("B"), memoryview(b"axbxc")[::2]]


@pytest.mark.parametrize("body", BODIES)
def test_bodies_of_every_kind(broker: ThreadBroker, producer: Producer, body: Any) -> None:
    producer.send("orders", body)
    producer.send_batch("orders", [body, b"", body])
    assert [bytes(record.body) for record in broker.log()] == [b"abc", b"abc", b"", b"abc"]


def test_a_body_of_numpys(broker: ThreadBroker, producer: Producer) -> None:
    """Its arrays say with another error that their bytes do not lie side by side."""
    numpy = pytest.importorskip("numpy")
    producer.send("orders", numpy.frombuffer(b"axbxc", dtype="u1")[::2])
    assert [bytes(record.body) for record in broker.log()] == [b"abc"]


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100, 16383, 16384, 200_000])
def test_bodies_of_every_size(broker: ThreadBroker, producer: Producer, size: int) -> None:
    body = bytes(i * 7 % 256 for i in range(size))
    producer.send("orders", body)
    producer.send_batch("orders", [body] * 5, keys=["k"] * 5)
    assert [bytes(record.body) for record in broker.log()] == [body] * 6


def test_arguments_by_name(broker: ThreadBroker, producer: Producer) -> None:
    producer.send(body=b"a", tags="t", topic="orders")
    producer.send("orders", body=b"b")
    producer.send_batch(topic="orders", bodies=[b"c"])
    assert [bytes(record.body) for record in broker.log()] == [b"a", b"b", b"c"]
    wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}),
        (("orders",), {}),
        (("orders", b"", b""), {}),
        (("orders",), {"topic": "orders"}),
        (("orders",), {"bodies": b""}),
        (("orders", b""), {"body": b""}),
    ]
    for args, names in wrong:
        with pytest.raises(TypeError):
            producer.send(*args, **names)


def test_queues_take_turns(broker: ThreadBroker, producer: Producer) -> None:
    broker.topic("other", queues=3)
    assert [producer.send("orders", b"").queue for _ in range(10)] == [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]
    assert [producer.send("other", b"").queue for _ in range(4)] == [0, 1, 2, 0]


def test_a_queue_key_keeps_its_queue(broker: ThreadBroker, producer: Producer) -> None:
    queues = {key: producer.send("orders", b"", queue_key=key).queue for key in ("a", "b", "c", "d", "tail-42")}
    assert len(set(queues.values())) > 1
    for key, queue in queues.items():
        assert {receipt.queue for receipt in producer.send_batch("orders", [b""] * 9, queue_key=key.encode())} == {queue}


@pytest.mark.parametrize("count", [0, 1, 3, 8, 9, 1000])
def test_a_batch_is_spread_evenly(broker: ThreadBroker, producer: Producer, count: int) -> None:
    for _ in range(8):
        receipts = producer.send_batch("orders", [b"%d" % i for i in range(count)])
        assert len(receipts) == count
        per_queue = Counter(receipt.queue for receipt in receipts)
        assert not per_queue or max(per_queue.values()) - min(per_queue.values()) <= 1
    total = Counter(record.queue_id for record in broker.log())
    assert len(total) == 8 * (count > 0)
    assert len(set(total.values())) == 1 * (count > 0)  # evenness over batches, too


def test_receipts_are_in_order_and_dense(broker: ThreadBroker, producer: Producer) -> None:
    """Several windows and many frames: each receipt names the record that holds its body."""
    bodies = [b"%06d" % i * (1 + i % 30) for i in range(20_000)]
    keys = [f"k{i}" if i % 3 else (f"k{i}", "x") if i % 2 else None for i in range(20_000)]
    tags = [None if i % 5 == 0 else f"t{i % 5}" for i in range(20_000)]
    more = [None if i % 7 == 0 else {f"name{k}": "x" * (1 + i % 40) for k in range(i % 4)} for i in range(20_000)]
    receipts = producer.send_batch("orders", bodies, tags=tags, keys=keys, properties=more)
    by_place = {record.physical_offset: record for record in broker.log()}
    assert len(by_place) == 20_000
    next_offset: Counter[int] = Counter()
    for i, receipt in enumerate(receipts):
        record = by_place[receipt.physical_offset]
        assert bytes(record.body) == bodies[i]
        assert receipt.offset == next_offset[receipt.queue] == record.queue_offset
        next_offset[receipt.queue] += 1
        key = keys[i]
        wanted = {"TAGS": tags[i], "KEYS": " ".join(key) if isinstance(key, tuple) else key}
        assert properties(record) == {name: value for name, value in wanted.items() if value is not None} | (more[i] or {})
    assert receipts[-1] == receipts[19_999]
    assert receipts[3:5] == [receipts[3], receipts[4]]
    assert len(receipts.raw) == 32 * 20_000


def test_properties_of_a_batch(broker: ThreadBroker, producer: Producer) -> None:
    """One mapping for all messages, or one for each; any mapping, and any sequence."""
    same = {"region": "eu", "price": "7"}
    producer.send_batch("orders", [b"a"] * 3, tags="t", properties=same, queue=0)
    producer.send_batch("orders", [b"b"] * 2, properties=MappingProxyType(same), queue=0)
    producer.send_batch("orders", [b"c"] * 4, properties=(same, None, {}, MappingProxyType({"n": "é"})), queue=0)
    producer.send_batch("orders", [], properties=[])
    want = [same | {"TAGS": "t"}] * 3 + [same] * 2 + [same, {}, {}, {"n": "é"}]
    assert [properties(record) for record in broker.log()] == want


def test_pendings_end_in_any_order_of_asking(broker: ThreadBroker, producer: Producer) -> None:
    pendings = [producer.send_async("orders", b"%d" % i) for i in range(3000)]
    pendings[5:2990] = pendings[5:2990:2]  # half of the askers lose interest
    places = [pending.result().physical_offset for pending in reversed(pendings)]
    assert places == sorted(places, reverse=True)
    assert all(pending.done() for pending in pendings)
    producer.flush()
    assert len(broker.log()) == 3000
    assert producer.failed == 0


def test_flushed_means_on_disk(broker: ThreadBroker) -> None:
    with Producer(broker, durability="flushed") as producer:
        assert producer.send("orders", b"x").durability == "flushed"
        assert {receipt.durability for receipt in producer.send_batch("orders", [b"x"] * 100)} == {"flushed"}
        pending = producer.send_async("orders", b"y")
        assert pending.result().durability == "flushed"
        producer.send("orders", b"z", durability="appended")


def test_a_broker_that_flushes_every_batch_gives_no_earlier_receipt(tmp_path: Path) -> None:
    with ThreadBroker(tmp_path, flush_every=True) as broker, Producer(broker) as producer:
        broker.topic("orders")
        for _ in range(10):
            assert producer.send("orders", b"x", durability="appended").durability == "flushed"
            assert producer.send_batch("orders", [b"x"] * 3)[2].durability == "flushed"


class Interrupted(Exception):
    """Raised by the test's signal handler."""


@pytest.mark.parametrize("wait", ["result", "batch result", "room", "batch room", "flush", "close", "disk"])
def test_a_signal_ends_every_wait(tmp_path: Path, wait: str) -> None:
    """An alarm goes off while the main thread waits in C for something that will not come; its handler's exception must come
    out."""

    def handler(_: int, frame: FrameType | None) -> None:
        if wait == "close" and not any(each.f_code.co_name == "flush" for each, _ in traceback.walk_stack(frame)):
            return  # it has not begun, and would not close anything
        signal.setitimer(signal.ITIMER_REAL, 0)  # here, so that no other alarm goes off on the way out
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with ThreadBroker(tmp_path, flush=False) as broker:
            broker.topic("orders")
            producer = Producer(broker, window=4, timeout=60)
            if wait == "disk":
                pending = producer.send_async("orders", b"", durability="flushed")
            else:
                broker.stall_now()
                pending = producer.send_async("orders", b"")
            batch = producer.send_batch_async("orders", [b""] * 3)
            waits: dict[str, Callable[[], object]] = {
                "result": pending.result,
                "batch result": batch.result,
                "room": lambda: producer.send("orders", b""),
                "batch room": lambda: producer.send_batch("orders", [b""] * 9),
                "flush": producer.flush,
                "close": producer.close,
                "disk": pending.result,
            }
            with pytest.raises(Interrupted):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)  # again and again, should the first one come too early
                    waits[wait]()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            broker.resume()
            if wait == "close":
                assert producer.closed
            else:
                producer.close()
            until(lambda: len(broker.log()) == 4, "the messages that nobody waited for to the end")
    finally:
        signal.signal(signal.SIGALRM, before)


def test_threads_share_a_producer(broker: ThreadBroker) -> None:
    """A small window, so that waits interleave; each thread's messages must come back to it, all of them and in order."""
    failures: list[BaseException] = []

    def work(producer: Producer, name: int) -> None:
        try:
            for round_ in range(30):
                bodies = [b"%d.%d.%d" % (name, round_, i) for i in range(50)]
                pendings = [producer.send_async("orders", body, queue=name) for body in bodies]
                receipts = producer.send_batch("orders", bodies, queue=name)
                single = producer.send("orders", b"s", queue=name)
                places = [pending.result() for pending in pendings] + list(receipts) + [single]
                assert [receipt.offset for receipt in places] == list(range(round_ * 101, round_ * 101 + 101))
        except BaseException as error:
            failures.append(error)

    with Producer(broker, window=64) as producer:
        threads = [threading.Thread(target=work, args=(producer, i)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures
    bodies_seen = Counter(bytes(record.body) for record in broker.log())
    assert sum(bodies_seen.values()) == 4 * 30 * 101


def test_death_gives_every_message_in_flight_one_verdict(broker: ThreadBroker) -> None:
    producer = Producer(broker)
    stored = producer.send_async("orders", b"")
    stored.result()
    broker.stall_now()
    pendings = [producer.send_async("orders", b"") for _ in range(10)]
    batch = producer.send_batch_async("orders", [b""] * 10)
    producer.send_oneway("orders", b"")
    broker.kill()
    for pending in pendings:
        with pytest.raises(PerhapsStored):
            pending.result(10)
        assert pending.done()
    with pytest.raises(PerhapsStored) as lost:
        batch.result(10)
    assert (lost.value.failed, len(lost.value.receipts)) == (10, 10)
    assert producer.failed == 1
    assert stored.result().offset == 0


def test_after_a_death_sends_go_to_the_successor(tmp_path: Path) -> None:
    with ThreadBroker(tmp_path / "a") as first, ThreadBroker(tmp_path / "b") as second:
        first.topic("padding")
        first.topic("orders")
        second.topic("orders", queues=1)
        producer = Producer(first)
        producer.send("orders", b"")
        first.stall_now()
        pending = producer.send_async("orders", b"")
        first.kill()
        producer._opener = second
        with pytest.raises(PerhapsStored):
            pending.result(10)
        assert [producer.send("orders", b"").queue for _ in range(2)] == [0, 0]
        assert len(second.log()) == 2
        producer.close()


def test_a_stopping_broker_takes_nothing_new_and_answers_the_rest(broker: ThreadBroker) -> None:
    producer = Producer(broker)
    pending = producer.send_async("orders", b"")
    broker.begin_to_stop()
    for send in (producer.send, producer.send_async, producer.send_oneway, lambda topic, _: producer.send_batch(topic, [b""])):
        with pytest.raises(BrokerStopped):
            send("orders", b"")
    assert pending.result(10).offset == 0
    producer.close()


def test_a_fork_gets_its_own_session(broker: ThreadBroker) -> None:
    with Producer(broker) as producer:
        producer.send("orders", b"parent")
        broker.stall_now()
        pending = producer.send_async("orders", b"parent")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                opened = broker.sessions_opened
                try:
                    pending.result(1)
                except Closed:
                    # The broker's threads stayed with the parent: only a one-way message can be posted from here.
                    producer.send_oneway("orders", b"child")
                    alone = broker.sessions_opened == opened + 1 and producer.in_flight == 1
                    code = 0 if alone and producer.failed == 0 else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        broker.resume()
        assert pending.result(10).offset == 0
        assert producer.send("orders", b"parent").queue == 2


def test_closing(broker: ThreadBroker) -> None:
    producer = Producer(broker)
    pending = producer.send_async("orders", b"")
    producer.close()
    producer.close()
    assert producer.closed
    assert pending.result().offset == 0
    with pytest.raises(Closed):
        producer.send("orders", b"")
    late = Producer(broker, timeout=0.05)
    broker.stall_now()
    pending = late.send_async("orders", b"")
    with pytest.raises(TimedOut) as short:
        late.close()
    assert short.value.in_flight == 1
    with pytest.raises(PerhapsStored):
        pending.result()
    broker.resume()


def test_nothing_leaks(broker: ThreadBroker, producer: Producer) -> None:
    """Reference counts of everything that a send touches are the same after a thousand sends of each kind."""
    topic, tags, key, body = (
        "".join(["ord", "ers"]),
        "".join(["ta", "gs"]),
        "".join(["k", "1"]),
        bytes(bytearray(b"body")),
    )
    keys = [key]
    same = {"a": key}

    def all_kinds() -> None:
        producer.send(topic, body, tags=tags, keys=keys, properties={"a": key})
        producer.send_async(topic, body, tags=tags)
        producer.send_oneway(topic, body, keys=[key, key])
        producer.send_batch(topic, [body] * 3, tags=tags, keys=[key, keys, None], properties=[{"a": key}, None, same])[1]
        producer.send_batch(topic, [body] * 3, properties=same)
        producer.send_batch_async(topic, (body, memoryview(body)), tags=[tags, None]).result()
        for call in (
            lambda: producer.send("no", body),
            lambda: producer.send(topic, body, keys=["a b"]),
            lambda: producer.send_batch(topic, [body, body], properties=[same, {"a": ""}]),
        ):
            with pytest.raises(UsageError):
                call()

    def counts() -> list[int]:
        producer.flush()
        gc.collect()
        return [sys.getrefcount(thing) for thing in (topic, tags, key, body, keys, same, producer)]

    all_kinds()
    before = counts()
    for _ in range(1000):
        all_kinds()
    assert counts() == before


def test_a_producer_goes_with_its_last_user(broker: ThreadBroker) -> None:
    producer = Producer(broker)
    pending = producer.send_async("orders", b"")
    del producer
    gc.collect()
    assert pending.result().offset == 0
    slot = broker.sessions_opened - 1
    assert broker.session_state(slot) == 1
    del pending
    gc.collect()
    assert broker.session_state(slot) != 1
