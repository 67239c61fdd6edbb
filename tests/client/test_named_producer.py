"""Named producers: what was on its way when the broker died is sent again, and stored once. Against real trees, which die.
Of client/transaction/committed.py."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

import orbitmq
from orbitmq import errors
from tests.client.restarts import Restarts
from tests.trees import everything, indexed, kill, small_broker
from tests.waiting import WATCHDOG_S, until

PATIENT_S = 60.0


def halted(client: orbitmq.Client, name: str = "writer") -> None:
    """Stops the writer, so that what is sent from now on has no verdict; or another process."""
    for actor in client.status().actors:
        if actor.name == name:
            os.kill(actor.pid, signal.SIGSTOP)


def test_ids(tmp_path: Path) -> None:
    """Goal: each message of a named producer has an id of its own, in all forms; the user's own id counts before it."""
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("orders", queues=1)
        with broker.producer(name="shop-3") as producer, broker.producer(name="shop-3") as other:
            producer.send("orders", b"a")
            producer.send_batch("orders", [b"b", b"c"], tags="t")
            producer.send_oneway("orders", b"d")
            producer.send("orders", b"e", dedup="order-17")
            assert producer.send("orders", b"e", dedup="order-17").duplicate
            other.send("orders", b"f")
            producer.flush()
        indexed(broker)
        with broker.consumer("g", ["orders"], start="earliest") as consumer:
            got = until(lambda: (messages := consumer.poll_batch(10, timeout=1)) and messages, "the messages")
        ids = [message.properties["DEDUP_ID"] for message in got]
        assert [message.body for message in got] == [b"a", b"b", b"c", b"d", b"e", b"f"]
        name, incarnation, number = ids[0].split(":")
        assert (name, number) == ("\x03Pshop-3", "1")
        assert ids[1:4] == [f"\x03Pshop-3:{incarnation}:{n}" for n in (2, 3, 4)]
        assert ids[4] == "order-17"
        assert ids[5].startswith("\x03Pshop-3:") and incarnation not in ids[5]


@pytest.mark.parametrize("name", ["", "x" * 129, "a\x01", 17])
def test_what_is_no_name(lent: orbitmq.Broker, name: str) -> None:
    with pytest.raises(errors.SettingError):
        lent.producer(name=name)


@pytest.mark.parametrize("durability", ["appended", "flushed"])
def test_what_is_on_its_way_is_sent_again(tmp_path: Path, durability: orbitmq.Durability) -> None:
    """Goal: all forms of sends that a kill of the tree finds on their way get their receipts from the next tree, in order.
    Method: the writer is stopped before they are sent, so that none of them is stored."""
    with Restarts(tmp_path / "store") as broker:
        broker.start()
        with broker.connect() as client:
            client.create_topic("orders", queues=1)
            with client.producer(name="shop", window=16, wait=PATIENT_S, durability=durability) as producer:
                producer.send("orders", b"0")
                halted(client)
                first = producer.send_async("orders", b"1")
                producer.send_oneway("orders", b"2")
                batch = producer.send_batch_async("orders", [b"3", b"4", b"5"])
                dropped = producer.send_async("orders", b"6")
                del dropped
                assert producer.in_flight == 6
                broker.kill()
                broker.start()
                assert producer.send("orders", b"7").offset == 7
                assert first.result(PATIENT_S).offset == 1
                assert [receipt.offset for receipt in batch.result(PATIENT_S)] == [3, 4, 5]
                assert first.result(0).durability in {durability, "flushed"}, "the disk may have been faster than the verdict"
                assert (producer.in_flight, producer.failed) == (0, 0)
            assert [body for body, *_ in everything(client, "orders")] == [b"%d" % n for n in range(8)]


def test_what_the_disk_did_not_have_is_sent_again(tmp_path: Path) -> None:
    """Goal: a message that was appended, and waits for the disk when the tree dies, is its own duplicate in the next one, which
    sees to the disk. Method: the flush service is stopped."""
    with Restarts(tmp_path / "store") as broker:
        broker.start()
        with broker.connect() as client:
            client.create_topic("orders", queues=1)
            with client.producer(name="shop", wait=PATIENT_S, durability="flushed") as producer:
                halted(client, "flush")
                single = producer.send_async("orders", b"0")
                batch = producer.send_batch_async("orders", [b"1", b"2"])
                until(lambda: len(everything(client, "orders")) == 3, "the log")
                assert not single.done() and not batch.done()
                with pytest.raises(errors.TimedOut):
                    batch.result(0.01)
                broker.kill()
                broker.start()
                receipts = [single.result(PATIENT_S), *batch.result(PATIENT_S)]
                assert [(each.offset, each.durability, each.duplicate) for each in receipts] == [
                    (n, "flushed", True) for n in range(3)
                ]
                broker.kill()
                broker.start()
                producer.send("orders", b"3")
                broker.kill()
                broker.start()
                producer.send("orders", b"4")
                assert single.result(0).durability == batch.result(0)[1].durability == "flushed"
            assert [body for body, *_ in everything(client, "orders")] == [b"%d" % n for n in range(5)]


def test_the_rest_of_a_frame_is_sent_again(tmp_path: Path) -> None:
    """Goal: of a frame whose first messages have their verdicts, the others are sent again, and get their own. Method: the
    first is a duplicate that the disk has; the flush service is stopped before the others come there."""
    with Restarts(tmp_path / "store") as broker:
        broker.start()
        with broker.connect() as client:
            client.create_topic("orders", queues=1)
            with client.producer(name="shop", wait=PATIENT_S, durability="flushed") as producer:
                producer.send("orders", b"0", dedup="a")
                halted(client, "flush")
                batch = producer.send_batch_async("orders", [b"x", b"1", b"2"], dedup=["a", "b", "c"])
                last = producer.send_async("orders", b"3")
                until(lambda: producer.in_flight == 3, "the first verdict")
                broker.kill()
                broker.start()
                assert [receipt.offset for receipt in batch.result(PATIENT_S)] == [0, 1, 2]
                assert last.result(PATIENT_S).offset == 3
                assert producer.in_flight == 0
            assert [body for body, *_ in everything(client, "orders")] == [b"0", b"1", b"2", b"3"]


def test_the_ring_keeps_what_has_no_verdict(tmp_path: Path) -> None:
    """Goal: what is to be sent again is not overwritten. Method: large messages until the ring has no room, although the
    handler has taken all of them."""
    with Restarts(tmp_path / "store") as broker:
        broker.start()
        with broker.connect() as client:
            client.create_topic("orders", queues=1)
            with client.producer(name="shop", wait=PATIENT_S, window=256, message_max=16384, on_full="error") as producer:
                for n in range(7):  # so that it begins somewhere
                    producer.send("orders", b"%d" % n * 5000)
                halted(client)
                pendings = []
                with pytest.raises(errors.Full, match="ring"):
                    for n in range(256):
                        pendings.append(producer.send_async("orders", b"%03d" % n * 4000))
                assert 16 <= len(pendings) <= 21
                broker.kill()
                broker.start()
                assert [pending.result(PATIENT_S).offset for pending in pendings] == list(range(7, 7 + len(pendings)))
            bodies = [body for body, *_ in everything(client, "orders")][7:]
            assert bodies == [b"%03d" % n * 4000 for n in range(len(pendings))]


def test_when_no_broker_comes_in_time(tmp_path: Path) -> None:
    """Goal: the limits of a wait and of the producer's patience are kept apart: the first leaves the messages as they are, the
    second loses them all, and a broker that comes after that does not get them."""
    with Restarts(tmp_path / "store") as broker:
        broker.start()
        with broker.connect() as client:
            client.create_topic("orders", queues=1)
            with client.producer(name="shop", wait=0.5) as producer:
                producer.send("orders", b"0")
                halted(client)
                pendings = [producer.send_async("orders", b"x") for _ in range(2)]
                producer.send_oneway("orders", b"x")
                broker.kill()
                with pytest.raises(errors.TimedOut):
                    pendings[0].result(0.01)
                assert (producer.in_flight, producer.failed) == (3, 0)
                for pending in pendings:
                    with pytest.raises(errors.PerhapsStored):
                        pending.result()
                assert (producer.in_flight, producer.failed) == (0, 1)
                broker.start()
                assert producer.send("orders", b"1").offset == 1


def test_closing_loses_what_waits_for_a_broker(tmp_path: Path) -> None:
    with Restarts(tmp_path / "store") as broker:
        broker.start()
        with broker.connect() as client:
            client.create_topic("orders")
            producer = client.producer(name="shop", wait=PATIENT_S)
            halted(client)
            pending = producer.send_async("orders", b"x")
            broker.kill()
            assert not pending.done()
            with pytest.raises(errors.TimedOut):
                producer.close(timeout=0.1)
            with pytest.raises(errors.PerhapsStored):
                pending.result()


def test_after_half_of_the_window_it_is_not_sent_again(tmp_path: Path) -> None:
    """Goal: what may have been stored so long ago that its id is forgotten is perhaps stored, as without a name."""
    with Restarts(tmp_path / "store", dedup_window_s=1) as broker:
        broker.start()
        with broker.connect() as client:
            client.create_topic("orders", queues=1)
            with client.producer(name="shop", wait=PATIENT_S) as producer:
                halted(client)
                late = producer.send_async("orders", b"late")
                begun = time.monotonic()
                broker.kill()
                until(lambda: time.monotonic() - begun > 0.6, "half of the window")
                broker.start()
                soon = producer.send_async("orders", b"soon")
                with pytest.raises(errors.PerhapsStored):
                    late.result(PATIENT_S)
                assert soon.result(PATIENT_S).offset == 0


def test_a_forked_child_has_ids_of_its_own(tmp_path: Path) -> None:
    """Goal: a child does not send what its parent has to send again, and none of its ids is one of the parent's."""
    with Restarts(tmp_path / "store") as broker:
        broker.start()
        with broker.connect() as client:
            client.create_topic("orders", queues=1)
            with client.producer(name="shop", wait=PATIENT_S) as producer:
                halted(client)
                pending = producer.send_async("orders", b"parent")
                broker.kill()
                assert not pending.done()
                broker.start()
                child = os.fork()
                if child == 0:
                    code = 1
                    try:
                        with contextlib.suppress(errors.Closed):
                            pending.result(0)
                            os._exit(2)
                        code = 0 if not producer.send("orders", b"child").duplicate else 3
                    finally:
                        os._exit(code)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
                assert not pending.result(PATIENT_S).duplicate
                assert producer.failed == 0
            assert sorted(body for body, *_ in everything(client, "orders")) == [b"child", b"parent"]


def test_delayed_messages(tmp_path: Path) -> None:
    """Goal: what waits first is sent again like the others, and comes once."""
    with Restarts(tmp_path / "store") as broker:
        broker.start()
        with broker.connect() as client:
            client.create_topic("orders", queues=1)
            with client.producer(name="shop", wait=PATIENT_S) as producer:
                producer.send("orders", b"soon", delay=0.01)
                halted(client)
                later = [producer.send_async("orders", b"later", delay=0.05)]
                later.append(producer.send_async("orders", b"level", delay_level=1))
                broker.kill()
                broker.start()
                for each in later:
                    each.result(PATIENT_S)
            until(lambda: len(everything(client, "orders")) >= 3, "all of them")
            assert sorted(body for body, *_ in everything(client, "orders")) == [b"later", b"level", b"soon"]


@pytest.mark.parametrize(("stopped", "how"), [("writer", "commit"), ("flush", "commit"), ("flush", "rollback")])
def test_the_end_of_a_transaction_is_settled_in_the_next_tree(tmp_path: Path, stopped: str, how: str) -> None:
    """Goal: a named producer's transaction ends once, and the program sees one receipt, if the broker dies while the end is on
    its way. Method: the end is not stored (the writer is stopped), or it is, and waits for the disk (the flush service is);
    then committed_receipt finds the message."""
    with Restarts(tmp_path / "store") as broker:
        broker.start()
        with broker.connect() as client:
            client.create_topic("orders", queues=1)
            with client.producer(name="shop", wait=PATIENT_S, durability="flushed") as producer:
                transaction = producer.transaction("orders", b"apples")
                halted(client, stopped)
                wrote = client.status().positions.wrote
                thread = threading.Thread(target=getattr(transaction, how))
                thread.start()
                until(lambda: producer.ends.in_flight == 1 or client.status().positions.wrote > wrote, "the end on its way")
                if stopped == "flush":
                    until(lambda: client.status().positions.wrote > wrote, "the end in the log")
                broker.kill()
                broker.start()
                thread.join(WATCHDOG_S)
                assert transaction.state == ("committed" if how == "commit" else "rolled back")
                if how == "commit":
                    (message,) = until(lambda: client.find("orders", transaction.id), "the index")
                    assert transaction.receipt is not None and transaction.receipt.durability == "flushed"
                    assert transaction.receipt.id == message.id and message.body == b"apples"
            assert [body for body, *_ in everything(client, "orders")] == ([b"apples"] if how == "commit" else [])
            assert client.open_transactions() == []


def test_tasks_wait_for_the_next_tree(tmp_path: Path) -> None:
    """Goal: awaiting a receipt, without a limit, ends with the next tree, or with the producer's patience."""

    async def main(broker: Restarts, client: orbitmq.Client) -> None:
        async with orbitmq.aio.connect(broker.name) as own:
            patient = await own.producer(name="shop", wait=PATIENT_S)
            hasty = await own.producer(name="shop", wait=0.2)
            halted(client)
            pendings = [await each.send_async("orders", b"x", durability="flushed") for each in (hasty, patient)]
            broker.kill()
            with pytest.raises(errors.PerhapsStored):
                await pendings[0]
            broker.start()
            assert (await pendings[1]).durability == "flushed"
            await hasty.send("orders", b"y")
            for each in (hasty, patient):
                await each.close()

    with Restarts(tmp_path / "store") as broker:
        broker.start()
        with broker.connect() as client:
            client.create_topic("orders", queues=1)
            asyncio.run(main(broker, client))
            assert [body for body, *_ in everything(client, "orders")] == [b"x", b"y"]


# ---- a model: some producers, each with one way to send, while the whole tree dies again and again

ROUNDS = 6
QUEUES = 2


class Course:
    """What one producer has sent: numbers, each in a queue that its number determines."""

    def __init__(self, who: int, over: threading.Event) -> None:
        self.who, self.over, self.next = who, over, 0
        self.errors: list[BaseException] = []

    def take(self, count: int) -> list[bytes]:
        self.next += count
        return [b"%d %d" % (self.who, number) for number in range(self.next - count, self.next)]


def singly(client: orbitmq.Client, course: Course) -> None:
    with client.producer(name="model", window=16, wait=PATIENT_S, timeout=PATIENT_S, message_max=1024) as producer:
        while not course.over.is_set():
            producer.send("load", course.take(1)[0], queue=course.next % QUEUES)


def in_batches(client: orbitmq.Client, course: Course) -> None:
    """Batches larger than the window: a kill finds them half on their way."""
    with client.producer(name="model", window=32, wait=PATIENT_S, timeout=PATIENT_S, message_max=1024) as producer:
        while not course.over.is_set():
            receipts = producer.send_batch("load", course.take(100), queue=course.next % QUEUES)
            assert [receipt.offset for receipt in receipts] == sorted({receipt.offset for receipt in receipts})


def pipelined(client: orbitmq.Client, course: Course) -> None:
    """Pendings whose results are asked for much later, or never; some wait for the disk, some are one-way."""
    rng = random.Random(course.who)
    waiting: list[tuple[int, orbitmq.Pending]] = []
    seen = [-1] * QUEUES
    with client.producer(name="model", window=64, wait=PATIENT_S, timeout=PATIENT_S, message_max=1024) as producer:
        while not course.over.is_set():
            queue, (body,) = course.next % QUEUES, course.take(1)
            if rng.randrange(4) == 0:
                producer.send_oneway("load", body, queue=queue)
                continue
            durability: orbitmq.Durability = "flushed" if rng.randrange(8) == 0 else "appended"
            pending = producer.send_async("load", body, queue=queue, durability=durability)
            if rng.randrange(3):
                waiting.append((queue, pending))
            while len(waiting) > 200:
                queue, pending = waiting.pop(0)
                receipt = pending.result(PATIENT_S)
                assert receipt.queue == queue and receipt.offset > seen[queue]
                seen[queue] = receipt.offset
        for _, pending in waiting:
            pending.result(PATIENT_S)
        producer.flush(PATIENT_S)
        assert producer.failed == 0


def with_tasks(client: orbitmq.Client, course: Course) -> None:
    async def main() -> None:
        async with orbitmq.aio.connect(client.name) as own:
            producer = await own.producer(name="model", window=32, wait=PATIENT_S, timeout=PATIENT_S, message_max=1024)
            while not course.over.is_set():
                pendings = [
                    await producer.send_async("load", body, queue=course.next % QUEUES, durability=level)
                    for level in ("appended", "flushed")
                    for body in course.take(1)
                ]
                await producer.send_batch("load", course.take(50), queue=course.next % QUEUES)
                for pending in pendings:
                    await pending
                await producer.send_oneway("load", course.take(1)[0], queue=course.next % QUEUES)
                await producer.flush()
            await producer.close()

    asyncio.run(main())


def test_named_producers_store_everything_once_and_in_order(tmp_path: Path) -> None:
    """Goal: whatever dies, and however often, each message of a named producer is in its topic once, in the order in which it
    was sent to its queue, and nobody sees an error. Method: kills of single processes and of the whole tree under load of all
    forms; then the topic against the numbers that were sent."""
    rng = random.Random(os.urandom(8).hex())
    over = threading.Event()
    # As many ids as the four windows hold: of what a producer cannot send again, the broker must forget all, and nothing else.
    with Restarts(tmp_path / "store", placement="spread", dedup_ids=16 + 32 + 64 + 32) as broker:
        broker.start()
        with broker.connect(wait=PATIENT_S) as client:
            client.create_topic("load", queues=QUEUES)
            ways = (singly, in_batches, pipelined, with_tasks)
            courses = [Course(who, over) for who in range(len(ways))]

            def run(way: Callable[[orbitmq.Client, Course], None], course: Course) -> None:
                try:
                    way(client, course)
                except BaseException as error:
                    course.errors.append(error)
                    raise

            threads = [threading.Thread(target=run, args=each) for each in zip(ways, courses, strict=True)]
            for thread in threads:
                thread.start()
            for _ in range(ROUNDS):
                reached = [course.next for course in courses]
                until(
                    lambda reached=reached: over.is_set()  # type: ignore[misc]
                    or any(course.errors for course in courses)
                    or all(course.next > before + 150 for course, before in zip(courses, reached, strict=True)),
                    "progress of all producers",
                )
                if rng.randrange(3) == 0:
                    kill(client, rng.choice(("writer", "handler 0", "flush")))
                else:
                    broker.kill()
                    broker.start()
            over.set()
            for thread in threads:
                thread.join(WATCHDOG_S)
                assert not thread.is_alive()
            assert [course.errors for course in courses] == [[]] * len(ways)
            stored: dict[tuple[int, int], list[int]] = defaultdict(list)
            for body, queue, *_ in everything(client, "load"):
                who, number = body.split()
                stored[int(who), queue].append(int(number))
    assert sum(map(len, stored.values())) == sum(course.next for course in courses)
    for (who, queue), numbers in stored.items():
        assert numbers == sorted(set(numbers)), (who, queue)
