"""Goal: every message that a producer takes gets exactly one verdict, and the log holds what was sent.

Method: the broker's real handler, writer and flush service as threads (thread_broker.py); a stalled handler makes
window and ring full at will; the tree's death and fork are played.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.producer import Producer
from orbitmq.errors import (
    BrokerStopped,
    Closed,
    Full,
    MessageTooLarge,
    NoPermission,
    PerhapsStored,
    PropertiesTooLarge,
    PropertyError,
    SettingError,
    StoreFull,
    TimedOut,
    TopicNameError,
    UnknownQueue,
    UnknownTopic,
    UsageError,
)
from orbitmq.native._core import lib
from orbitmq.store.record import unpack_properties
from tests.actors.trees import until
from tests.client.thread_broker import ThreadBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ThreadBroker]:
    with ThreadBroker(tmp_path) as broker:
        broker.topic("orders")
        yield broker


@pytest.fixture
def producer(broker: ThreadBroker) -> Iterator[Producer]:
    with Producer(broker) as producer:
        yield producer


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
        properties={"a": "b", "WAIT": "true"},
        flag=7,
    )
    (record,) = broker.log()
    assert bytes(record.body) == b"\x00body\xff"
    assert properties(record) == {"TAGS": "paid", "KEYS": "o-1 o-2", "a": "b"}
    assert (record.topic, record.queue_id, record.flag) == ("orders", 3, 7)
    assert (receipt.topic, receipt.queue, receipt.offset, receipt.physical_offset) == ("orders", 3, 0, 0)
    assert receipt.size == record.size
    assert receipt.id == "7F00000100002A9F0000000000000000"


@pytest.mark.parametrize("body", [b"abc", bytearray(b"abc"), memoryview(b"xabcx")[1:4], "abc", memoryview(b"abc").cast("B")])
def test_bodies_of_every_kind(broker: ThreadBroker, producer: Producer, body: Any) -> None:
    producer.send("orders", body)
    producer.send_batch("orders", [body, b"", body])
    assert [bytes(record.body) for record in broker.log()] == [b"abc", b"abc", b"", b"abc"]


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
    receipts = producer.send_batch("orders", bodies, tags=tags, keys=keys)
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
        assert properties(record) == {name: value for name, value in wanted.items() if value is not None}
    assert receipts[-1] == receipts[19_999]
    assert receipts[3:5] == [receipts[3], receipts[4]]
    assert len(receipts.raw) == 32 * 20_000


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
    """What the test's signal handler raises."""


@pytest.mark.parametrize("wait", ["result", "batch result", "room", "batch room", "flush", "close", "disk"])
def test_a_signal_ends_every_wait(tmp_path: Path, wait: str) -> None:
    """An alarm goes off while the main thread waits in C for what will not come; its handler's exception must come out."""

    def handler(*_: object) -> None:
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
            signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)  # again and again, should the first one come too early
            with pytest.raises(Interrupted):
                try:
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


def test_names_that_cannot_be(broker: ThreadBroker, producer: Producer) -> None:
    with pytest.raises(UnknownTopic, match="orbitmq topic create nothing") as unknown:
        producer.send("nothing", b"")
    assert unknown.value.topic == "nothing"
    for name in ("", "x" * 128, "a b", "ü"):
        with pytest.raises(TopicNameError):
            producer.send(name, b"")
    with pytest.raises(TypeError):
        producer.send(b"orders", b"")  # type: ignore[arg-type]
    with pytest.raises(UnknownQueue, match="queue 8 of topic 'orders': it has 8 queues") as queue:
        producer.send("orders", b"", queue=8)
    assert (queue.value.queue, queue.value.queues) == (8, 8)
    for wrong in (-1, 1 << 70):
        with pytest.raises(UnknownQueue, match=f"queue {wrong}:") as queue:
            producer.send("orders", b"", queue=wrong)
        assert queue.value.queue == wrong
    with pytest.raises(UsageError):
        producer.send("orders", b"", queue=1, queue_key="a")
    assert broker.log() == []


def test_the_brokers_refusals(broker: ThreadBroker, producer: Producer) -> None:
    broker.topic("frozen", perm=4)
    with pytest.raises(NoPermission) as refused:
        producer.send("frozen", b"")
    assert refused.value.topic == "frozen"
    producer.send_oneway("frozen", b"")
    producer.flush()
    assert producer.failed == 1
    with pytest.raises(NoPermission) as batch:
        producer.send_batch("frozen", [b"a", b"b"])
    assert (batch.value.failed, batch.value.index, len(batch.value.receipts)) == (2, 0, 2)
    with pytest.raises(NoPermission):
        batch.value.receipts[1]


def test_properties_that_cannot_be(producer: Producer) -> None:
    bad: list[dict[str, Any]] = [
        {"tags": ""},
        {"tags": "a\x01b"},
        {"keys": ["a b"]},
        {"keys": [""]},
        {"keys": "a\x02"},
        {"properties": {"": "x"}},
        {"properties": {"a": ""}},
        {"properties": {"a\x01": "x"}},
        {"properties": {"TAGS": "x"}},
        {"properties": {"__CRC32#": "x"}},
        {"tags": "a||b"},
        {"tags": "||"},
    ]
    for arguments in bad:
        with pytest.raises(PropertyError):
            producer.send("orders", b"", **arguments)
    with pytest.raises(PropertyError):
        producer.send_batch("orders", [b"", b""], keys=["a", "b c"])
    with pytest.raises(PropertyError, match="separates"):
        producer.send_batch("orders", [b"", b""], tags=["a", "a||b"])
    producer.send("orders", b"", tags="a|b")
    for arguments in ({"tags": 1}, {"keys": [1]}, {"properties": {"a": 1}}, {"nothing": 1}, {"queue_key": 1}):
        with pytest.raises(TypeError):
            producer.send("orders", b"", **arguments)
    with pytest.raises(UsageError):
        producer.send_batch("orders", [b"", b""], keys=["a"])
    with pytest.raises(TypeError):
        producer.send_batch("orders", b"abc")


def test_limits_on_sizes(broker: ThreadBroker) -> None:
    with Producer(broker, message_max=4096) as producer:
        room = 4096 - 91 - 20 - len("orders")
        assert producer.send("orders", bytes(room)).size == 4096
        for send in (producer.send, lambda topic, body: producer.send_batch(topic, [b"", body])):
            with pytest.raises(MessageTooLarge, match="message_max= of producer") as large:
                send("orders", bytes(room + 1))
            assert (large.value.size, large.value.limit) == (4097, 4096)
        assert len(broker.log()) == 1
        with pytest.raises(MessageTooLarge, match="in parts") as hopeless:
            producer.send("orders", bytes(5 << 20))
        assert "message_max" not in str(hopeless.value), "no knob lets so much through"
    with Producer(broker, message_max=1 << 20) as producer:
        producer.send("orders", b"", properties={"a": "x" * (32746 - 3)})
        for arguments in (
            {"properties": {"a": "x" * (32746 - 2)}},
            {"keys": ["k" * 1000] * 40},
            {"tags": "t" * 40_000},
        ):
            with pytest.raises(PropertiesTooLarge) as properties_error:
                producer.send("orders", b"", **arguments)  # type: ignore[arg-type]
            assert properties_error.value.limit == 32746
        assert len(broker.log()) == 2


def test_a_disk_without_room_is_named(broker: ThreadBroker, producer: Producer, tmp_path: Path) -> None:
    """Goal: StoreFull says where room is missing and how much. Method: what C calls for the writer's verdict."""
    settings = lib.control_settings(broker.control)
    with pytest.raises(StoreFull, match="'orders'") as full:
        producer._store_full("orders", errno.ENOSPC)
    assert full.value.need == settings.log_file_size and full.value.free > 0
    assert full.value.mount in full.value.hint and full.value.path.startswith(str(tmp_path))
    with pytest.raises(StoreFull, match=os.strerror(errno.EIO)) as broken:
        producer._store_full("orders", errno.EIO)
    assert broken.value.errno == errno.EIO


def test_settings_that_cannot_be(broker: ThreadBroker, producer: Producer) -> None:
    for arguments in (
        {"window": 0},
        {"window": 1 << 20},
        {"message_max": 1},
        {"message_max": 5 << 20},
        {"on_full": "no"},
        {"durability": "no"},
        {"timeout": -1.0},
    ):
        with pytest.raises(SettingError):
            Producer(broker, **arguments)  # type: ignore[arg-type]
    for arguments in ({"durability": "no"}, {"timeout": -1}, {"timeout": float("nan")}, {"flag": 1 << 32}):
        with pytest.raises(SettingError):
            producer.send("orders", b"", **arguments)  # type: ignore[arg-type]


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
        assert len(producer.send_batch("orders", [b"x"] * 1000, timeout=30)) == 1000
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
    with Producer(broker, timeout=0.05) as producer:
        with pytest.raises(UnknownTopic) as refused:
            producer.send("nowhere", b"")
        assert not hasattr(refused.value, "pending")
        for durability in ("appended", "flushed"):
            broker.stall_now()
            with pytest.raises(TimedOut) as short:
                producer.send("orders", b"late", durability=durability)
            assert not short.value.pending.done()
            broker.resume()
            assert short.value.pending.result(10).durability == durability
    assert len(broker.log()) == 2


def test_threads_share_a_producer(broker: ThreadBroker) -> None:
    """Small window, so that waits interleave; each thread's messages must come back to it, all and in order."""
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
    """Reference counts of everything that a send touches are the same after a thousand of each kind."""
    topic, tags, key, body = (
        "".join(["ord", "ers"]),
        "".join(["ta", "gs"]),
        "".join(["k", "1"]),
        bytes(bytearray(b"body")),
    )
    keys = [key]

    def all_kinds() -> None:
        producer.send(topic, body, tags=tags, keys=keys, properties={"a": key})
        producer.send_async(topic, body, tags=tags)
        producer.send_oneway(topic, body, keys=[key, key])
        producer.send_batch(topic, [body] * 3, tags=tags, keys=[key, keys, None])[1]
        producer.send_batch_async(topic, (body, memoryview(body)), tags=[tags, None]).result()
        for call in (lambda: producer.send("no", body), lambda: producer.send(topic, body, keys=["a b"])):
            with pytest.raises(UsageError):
                call()

    def counts() -> list[int]:
        producer.flush()
        gc.collect()
        return [sys.getrefcount(thing) for thing in (topic, tags, key, body, keys, producer)]

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
