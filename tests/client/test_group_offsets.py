"""Goal: messages and the offsets up to which their sources were processed are stored together or not at all, and each once
(docs/exactly-once.md). Method: a small tree; tests/crash/test_chain.py kills everything.
Of client/consumer/group_offsets.py and client/admin/exact_groups.py."""

from __future__ import annotations

import asyncio
import os
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import orbitmq
import orbitmq.aio
from orbitmq import errors
from orbitmq.client.admin.group_reset import GroupMove
from orbitmq.client.consumer.consumer import Consumer
from orbitmq.client.producer.producer import Producer
from orbitmq.native._core import lib
from orbitmq.store import group_commits
from orbitmq.store.group_commits import COMMITS_TOPIC, GroupCommits
from orbitmq.store.layout import StoreLayout
from tests.trees import everything, kill, small_broker
from tests.waiting import until

MOST: int = lib.COMMIT_KEYS_MAX


def contents(client: orbitmq.Client, topic: str) -> list[bytes]:
    return [body for body, *_ in everything(client, topic)]


def fill(broker: orbitmq.Client, count: int = 10, queues: int = 1) -> None:
    broker.create_topic("orders", queues=queues)
    broker.create_topic("priced", queues=1)
    with broker.producer() as producer:
        for n in range(count):
            producer.send("orders", b"%d" % n, queue=n % queues)
    assert len(everything(broker, "orders")) == count, "all of them can be read"


def pass_on(producer: Producer, consumer: Consumer, most: int = 100, timeout: float = 0.2) -> list[bytes]:
    """One batch. Returns what it passed on."""
    messages = consumer.poll_batch(most, timeout=timeout)
    with producer.batch() as batch:
        batch.commit(consumer)
        for message in messages:
            batch.send("priced", message.body)
    return [bytes(message.body) for message in messages]


def test_messages_and_offsets_together(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        fill(broker)
        with broker.producer() as producer, broker.consumer("pricing", ["orders"]) as consumer:
            messages = consumer.poll_batch(4, timeout=10)
            with producer.batch() as batch:
                batch.commit(consumer)
                for message in messages:
                    batch.send("priced", message.body)
            assert len(batch.receipts) == len(list(batch.receipts)) == 4, "the record of offsets is none of the caller's"
            assert len(batch.receipts.raw) == 4 * 32
            with pytest.raises(IndexError):
                batch.receipts[4]
            assert consumer.committed() == {("orders", 0): 4}
            assert [group.lag_messages for group in broker.groups()] == [6]
            with producer.batch() as alone:
                consumer.poll_batch(1, timeout=10)
                alone.commit(consumer)
            assert consumer.committed() == {("orders", 0): 5}, "a batch of offsets alone"
            with producer.batch() as nothing:
                nothing.commit(consumer)
            assert len(nothing.receipts) == 0
        with broker.consumer("pricing", ["orders"]) as successor:
            assert bytes(successor.poll(10)) == b"5"  # type: ignore[arg-type]
        assert contents(broker, "priced") == [b"0", b"1", b"2", b"3"]


def test_what_fails_comes_again(tmp_path: Path) -> None:
    """Goal: a block that fails, and a batch that is refused, leave nothing stored, and the consumer goes on where the group
    is."""
    with small_broker(tmp_path) as broker:
        fill(broker)
        broker.create_topic("sealed", queues=1)
        broker.set_permissions("sealed", read=True, write=False)
        with broker.producer() as producer, broker.consumer("pricing", ["orders"]) as consumer:
            for kind in (ZeroDivisionError, errors.NoPermission, errors.UnknownTopic):
                messages = consumer.poll_batch(4, timeout=10)
                assert [bytes(message.body) for message in messages] == [b"0", b"1", b"2", b"3"]
                with pytest.raises(kind), producer.batch() as batch:
                    batch.commit(consumer)
                    batch.send("priced", b"never")
                    if kind is ZeroDivisionError:
                        raise kind
                    batch.send("sealed" if kind is errors.NoPermission else "nowhere", b"")
            assert pass_on(producer, consumer, 10) == [b"%d" % n for n in range(10)]
        assert contents(broker, "priced") == [b"%d" % n for n in range(10)]


def test_a_late_member_stores_nothing(tmp_path: Path) -> None:
    """Goal: of two members that have processed the same messages one stores its results, whatever the other believes to own."""
    with small_broker(tmp_path) as broker:
        fill(broker)
        with broker.producer() as producer, broker.consumer("pricing", ["orders"], max_poll_interval=4) as late:
            assert pass_on(producer, late, 2, 10) == [b"0", b"1"]
            messages = late.poll_batch(3, timeout=10)
            with pytest.raises(errors.Fenced) as caught, producer.batch() as batch:
                batch.commit(late)
                for message in messages:
                    batch.send("priced", message.body)
                with broker.consumer("pricing", ["orders"], start="latest") as other:
                    until(lambda: other.wait(0) and other.assignment, "the queue to come")
                    assert pass_on(producer, other, 5, 10) == [b"2", b"3", b"4", b"5", b"6"]
            assert (caught.value.group, caught.value.queues) == ("pricing", [("orders", 0)])
            assert until(lambda: pass_on(producer, late), "its queue to come back") == [b"7", b"8", b"9"]
        assert contents(broker, "priced") == [b"%d" % n for n in range(10)]


def test_a_queue_that_went_between_two_calls(tmp_path: Path) -> None:
    """Goal: results of messages whose queue was lost are not stored with the offsets of others."""
    with small_broker(tmp_path) as broker:
        fill(broker, 10, queues=2)
        with broker.producer() as producer, broker.consumer("pricing", ["orders"], revoke_timeout=0) as first:
            assert {message.queue for message in first.poll_batch(10, timeout=10)} == {0, 1}
            with broker.consumer("pricing", ["orders"], revoke_timeout=0) as second:
                until(lambda: second.wait(0) and second.assignment, "a queue to come")
                first.poll(0)  # it learns of it
                with pytest.raises(errors.Fenced), producer.batch() as batch:
                    batch.commit(first)
                    batch.send("priced", b"never")
                done = until(lambda: pass_on(producer, second), "its queue")
                done += until(lambda: pass_on(producer, first), "the other one")
        assert sorted(done) == sorted(contents(broker, "priced")) == [b"%d" % n for n in range(10)]


def test_the_group_is_where_the_log_says(tmp_path: Path) -> None:
    """Goal: after a death of everything the group goes on behind its last batch, whether or not a file knows of it."""
    with small_broker(tmp_path, offsets_interval_s=3600) as broker:
        fill(broker)
        with broker.producer() as producer, broker.consumer("pricing", ["orders"]) as consumer:
            pass_on(producer, consumer, 4, 10)
            kill(broker, "writer")
            pass_on(producer, consumer, 2, 10)
            kill(broker, "coordinator")
            assert consumer.committed() == {("orders", 0): 6}
            kill(broker, "supervisor")
    for _ in range(2):
        with small_broker(tmp_path, offsets_interval_s=0.05) as broker:
            assert [(group.name, group.queues[0].committed) for group in broker.groups()] == [("pricing", 6)]
            until((tmp_path / "orbitmq/group_commits").exists, "the note")
    with small_broker(tmp_path) as broker, broker.producer() as producer, broker.consumer("pricing", ["orders"]) as consumer:
        assert pass_on(producer, consumer, 10, 10) == [b"6", b"7", b"8", b"9"]


def test_offsets_that_nobody_knows_the_fate_of(tmp_path: Path) -> None:
    """Goal: when the broker dies with a batch under way, the consumer goes on where the group really is. Method: the tree dies
    after the batch, before its producer could hear of it."""
    with small_broker(tmp_path) as broker:
        fill(broker)
        consumer = broker.consumer("pricing", ["orders"], wait=60)
        producer = broker.producer(wait=60)
        messages = consumer.poll_batch(4, timeout=10)
        with pytest.raises(ZeroDivisionError), producer.batch() as batch:
            batch.commit(consumer)
            lost = batch._take()
            assert len(lost) == 1 and messages
            producer.post_atomic(lost, None, 10).result(10)  # it is stored, and the program does not know
            raise ZeroDivisionError
        assert bytes(consumer.poll(10)) == b"4"  # type: ignore[arg-type]
        consumer.close()
        producer.close()


def test_the_offsets_of_such_a_group(tmp_path: Path) -> None:
    """Goal: what cannot be done with them is refused, with what to do instead."""
    with small_broker(tmp_path) as broker:
        fill(broker)
        with broker.producer() as producer, broker.consumer("pricing", ["orders"]) as consumer:
            consumer.poll_batch(2, timeout=10)
            consumer.commit()  # as long as no batch has
            pass_on(producer, consumer, 3)
            with pytest.raises(errors.UsageError, match="committed with atomic batches"):
                consumer.commit()
            consumer.seek("orders", 0, 1)
            with producer.batch() as batch:
                batch.commit(consumer)
            assert consumer.committed() == {("orders", 0): 1}, "a member moves it"
        with pytest.raises(errors.UsageError, match="committed with atomic batches"):
            broker.work_session("pricing", ["orders"])
        with pytest.raises(errors.NoPermission), broker.producer() as producer:
            producer.send(COMMITS_TOPIC, b"forged")


def test_a_reset(tmp_path: Path) -> None:
    """Goal: the group goes on there, also its members, and also in the next life of the broker."""
    with small_broker(tmp_path, offsets_interval_s=0.02) as broker:
        fill(broker)
        with broker.producer() as producer, broker.consumer("pricing", ["orders"]) as consumer:
            assert pass_on(producer, consumer, 4) == [b"0", b"1", b"2", b"3"]
            assert len(consumer.poll_batch(2, timeout=10)) == 2
            assert broker.reset_group("pricing", 1) == [GroupMove("orders", 0, 4, 1)]
            with pytest.raises(errors.Fenced), producer.batch() as batch:
                batch.commit(consumer)
            assert pass_on(producer, consumer, 2) == [b"1", b"2"]
            assert broker.reset_group("pricing", "+2", dry_run=True) == [GroupMove("orders", 0, 3, 5)]
            assert broker.reset_group("pricing", "+2") == [GroupMove("orders", 0, 3, 5)]
            assert consumer.committed() == {("orders", 0): 5}
            assert [each.topic for each in broker.group("pricing").queues] == ["orders"]
    with small_broker(tmp_path) as broker, broker.producer() as producer, broker.consumer("pricing", ["orders"]) as consumer:
        assert pass_on(producer, consumer, 1) == [b"5"]


def test_resets_beside_a_member(tmp_path: Path) -> None:
    """Goal: a reset and a member that commits all the time, and deaths beside them: after each reset everything is passed on
    again, in order."""
    with small_broker(tmp_path, placement="spread") as broker:
        fill(broker)
        over = threading.Event()

        def run() -> None:
            with broker.producer() as producer, broker.consumer("pricing", ["orders"]) as consumer:
                while not over.is_set():
                    with suppress(errors.Fenced):
                        pass_on(producer, consumer, 1, 0.01)

        member = threading.Thread(target=run)
        member.start()
        try:
            until(lambda: [each.name for each in broker.groups()] == ["pricing"], "the group")
            for actor in ("writer", "coordinator", "scheduler", "handler 0", "writer"):
                until(lambda: broker.group("pricing").lag_messages == 0, "all of them")
                killer = threading.Thread(target=kill, args=(broker, actor))
                killer.start()
                (moved,) = broker.reset_group("pricing", "earliest")
                assert (moved.before, moved.after) == (10, 0)
                killer.join()
            until(lambda: broker.group("pricing").lag_messages == 0, "all of them")
        finally:
            over.set()
            member.join()
        assert contents(broker, "priced") == [b"%d" % n for n in range(10)] * 6


def test_a_group_that_is_deleted(tmp_path: Path) -> None:
    """Goal: nothing of it counts any more, in this life or the next; also if its topic is gone. The note does not keep it."""
    with small_broker(tmp_path, offsets_interval_s=0.02) as broker:
        fill(broker)
        broker.create_topic("other", queues=1)
        with broker.producer() as producer, broker.consumer("pricing", ["orders", "other"]) as consumer:
            producer.send("other", b"x")
            until(lambda: pass_on(producer, consumer, 11) and consumer.committed()["other", 0] == 1, "the other topic")
            with pytest.raises(errors.GroupInUse):
                broker.delete_group("pricing")
        broker.delete_topic("other")
        broker.delete_group("pricing")
        assert broker.groups() == []
        with broker.consumer("pricing", ["orders"], start="earliest") as consumer:
            assert consumer.committed() in ({}, {("orders", 0): 0})
            consumer.poll_batch(3, timeout=10)
            consumer.commit()
        layout = StoreLayout.at(tmp_path)
        until(lambda: (note := group_commits.load(layout)).next > 0 and not note.entries, "the note")
    layout.group_commits.unlink()
    with small_broker(tmp_path) as broker:
        assert broker.group("pricing").lag_messages == 7
        broker.work_session("pricing", ["orders"]).close()


def test_with_asyncio(tmp_path: Path) -> None:
    async def run(name: str) -> list[list[bytes]]:
        passed = []
        async with await orbitmq.aio.connect(name) as client:
            producer, consumer = await client.producer(), await client.consumer("pricing", ["orders"])
            for fails in (True, False, False):
                messages = await consumer.poll_batch(4, timeout=10)
                passed.append([bytes(message.body) for message in messages])
                with suppress(ZeroDivisionError):
                    async with producer.batch() as batch:
                        await batch.commit(consumer)
                        for message in messages:
                            batch.send("priced", message.body)
                        if fails:
                            raise ZeroDivisionError
            with pytest.raises(errors.UsageError, match="has ended"):
                await batch.commit(consumer)
            await consumer.close()
            await producer.close()
        return passed

    with small_broker(tmp_path) as broker:
        fill(broker)
        first, again, others = asyncio.run(run(broker.name))
        assert first == again == [b"0", b"1", b"2", b"3"] and others == [b"4", b"5", b"6", b"7"]
        assert contents(broker, "priced") == [*again, *others]
        assert broker.groups()[0].lag_messages == 2


def test_misuse(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        fill(broker)
        with broker.producer() as producer, broker.consumer(None, ["orders"]) as alone:
            with pytest.raises(TypeError, match="is not a Consumer"), producer.batch() as batch:
                batch.commit(broker)  # type: ignore[arg-type]
            with pytest.raises(errors.UsageError, match="no group"), producer.batch() as batch:
                batch.commit(alone)
            with broker.consumer("pricing", ["orders"]) as consumer, producer.batch() as batch:
                batch.commit(consumer)
                with pytest.raises(errors.UsageError, match="already"):
                    batch.commit(consumer)
            with pytest.raises(errors.UsageError, match="has ended"):
                batch.commit(consumer)


def test_offsets_of_others_are_refused(tmp_path: Path) -> None:
    """Goal: a process commits offsets of a group only by a member of its own, and only in the form that the broker knows."""
    with small_broker(tmp_path) as broker:
        fill(broker)
        with broker.producer() as producer, broker.consumer("pricing", ["orders"]) as consumer:
            handle = consumer._handle
            assert handle is not None

            def post(body: bytes, slot: int = handle.slot, epoch: int = handle.epoch) -> None:
                message = (COMMITS_TOPIC, body, struct.pack("=II", slot, epoch)), ("_commits",)
                producer.post_atomic((message,), None, 10).result(10)

            good = body("pricing", "orders", 0, None, 1)
            for wrong in (
                lambda: post(good, slot=handle.slot + 1),
                lambda: post(good, slot=1 << 31),
                lambda: post(good, epoch=handle.epoch + 1),
                lambda: post(body("billing", "orders", 0, None, 1)),
                lambda: post(body("pricing", "orders", 0, 0, 1)),
                lambda: post(body("pricing", "orders", 0, None, 11)),
            ):
                refused(wrong, errors.Fenced)
            refused(lambda: post(body("pricing", "ordesr", 0, None, 1)), errors.UnknownTopic)
            refused(lambda: post(body("pricing", "orders", 1, None, 1)), errors.UnknownQueue)
            for size in (0, 1, 2, len(good) - 1):
                refused(lambda size=size: post(good[:size]), errors.PropertyError)  # type: ignore[misc]
            refused(lambda: post(good + b"x"), errors.PropertyError)
            refused(lambda: post(os.urandom(len(good))), errors.PropertyError)
            post(good)
            assert consumer.committed() == {("orders", 0): 1}
            refused(lambda: post(good), errors.Fenced)


def test_no_more_than_the_table_holds(tmp_path: Path) -> None:
    """Goal: offsets that the broker cannot keep are refused, and those that it keeps go on. Method: a note that leaves room for
    one."""
    layout = StoreLayout(tmp_path)
    with small_broker(tmp_path) as broker:
        fill(broker, 10, queues=2)
    group_commits.store(layout, GroupCommits(0, [word for n in range(1, MOST) for word in (n, n, n)]))
    with small_broker(tmp_path) as broker, broker.producer() as producer:
        with broker.consumer("pricing", ["orders"]) as consumer:
            consumer.pause([("orders", 1)])
            assert len(pass_on(producer, consumer, 2, 10)) == 2
            assert len(pass_on(producer, consumer, 2, 10)) == 2
            consumer.unpause()
            consumer.pause([("orders", 0)])
            with pytest.raises(errors.Full) as caught:
                pass_on(producer, consumer, 2, 10)
            assert (caught.value.limit, caught.value.size) == ("commits", MOST)
            consumer.pause()
            consumer.unpause([("orders", 0)])
            assert pass_on(producer, consumer, 2, 10) == [b"8"], "what comes next of the queue that is kept"
        assert len(contents(broker, "priced")) == 5


def body(group: str, topic: str, queue: int, base: int | None, to: int) -> bytes:
    name, where = group.encode(), topic.encode()
    start = bytes((1, len(name))) + name + struct.pack(">H", 1) + bytes((len(where),)) + where
    return start + struct.pack(">IQQ", queue, (1 << 64) - 1 if base is None else base, to)


def refused(call: Callable[[], None], error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
