"""A user's program that uses all of the public API, and has types everywhere.

tests/test_types.py has mypy and pyright check it, both in their strict modes, and runs it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from with_arrow import look_at_all, poll_arrow, poll_arrow_later

import orbitmq
from orbitmq import aio
from orbitmq.errors import (
    Closed,
    GroupInUse,
    Interrupted,
    OffsetOutOfRange,
    OrbitError,
    RequestTimeout,
    TimedOut,
    TransactionSettled,
    UnknownTopic,
    UnknownTransaction,
)

QueueKey = tuple[str, int]


def begin(path: Path) -> orbitmq.Broker:
    """A broker with settings of every kind."""
    with orbitmq.Broker(path, log_file_size=1 << 24, flush="timed", shared_groups=False, group=None, offsets_interval_s=1):
        settings: orbitmq.BrokerSettings = {"handlers": 1, "flush": "batch", "retention_hours": None}
    return orbitmq.Broker(path, name=None, timeout=10, allow_deletion=False, **settings)


def look_at(broker: orbitmq.Client, more: Sequence[str]) -> None:
    """Topics, settings and status."""
    made: orbitmq.TopicInfo = broker.create_topic("orders", queues=2, retention_hours=0, durability="appended")
    again = broker.create_topic("orders", 2)
    assert (made.name, made.queues, made.perm, made.retention_hours, made.durability) == ("orders", 2, 6, 0, "appended")
    assert made == again and [topic.name for topic in broker.topics()] == ["orders"]
    change: orbitmq.StoredSettings = {"flush_interval_ms": 100}
    changed: list[str] = broker.change_settings(change)
    changed += broker.change_settings({"restarts": 40, "flush": "batch"}, forget=["flush_interval_ms", *more])
    changed += broker.change_settings(forget=("restarts", "flush"), allow_deletion=False)
    assert "flush" in changed and {setting.name: setting.value for setting in broker.settings()}["read_only"] is False
    broker.believe_clock()
    status = broker.status()
    names: list[str] = [status.name, status.state, status.store, status.version, status.flush, status.after_failed_sync]
    numbers: list[int] = [status.pid, status.generation, status.flush_interval_ms, status.message_max, status.oldest_ms]
    numbers += [status.retention_hours, status.retention_bytes, status.clock_ahead_ms]
    numbers += [status.open_transactions, status.oldest_transaction_ms]
    flags: list[bool] = [status.read_only, bool(status.health)]
    health = broker.health()
    backed = broker.backup(Path(status.store + "-backup"), progress=lambda done, whole: None)
    assert backed.took_s > 0 and {setting.source for setting in broker.settings()}
    numbers += [backed.copied, backed.kept, backed.note.begin, backed.note.end, backed.note.made_ms]
    flags += [health.ready, health.live, health.running]
    names += [health.state, *health.reasons, *health.silent]
    print(status.listens, status.addresses)
    parts = [*status.actors, *status.groups, *status.sessions, *status.topics, *status.notes, *status.lost, status.positions]
    print([(each.actor, each.ended, each.words) for each in status.deaths])
    assert names and numbers and flags and parts and broker.connection.name == broker.name
    print(broker)


def look_after(broker: orbitmq.Client) -> None:
    """Groups and clients."""
    with broker.consumer("billing", ["orders"]):
        lags: list[int] = [group.lag_messages for group in broker.groups()]
        assert lags and broker.group("billing").members[0].queues and not broker.group("billing").paused
        moved: list[int] = [move.after for move in broker.reset_group("billing", "earliest", topic="orders", dry_run=False)]
        before: list[int | None] = [move.before for move in broker.reset_group("billing", "latest", dry_run=True)]
        broker.reset_group("billing", 0, topic="orders", queue=0)
        broker.reset_group("billing", datetime.now())
        paused: bool = broker.pause_group("billing").paused and broker.resume_group("billing").paused
        assert moved and len(before) == len(moved) and not paused
        assert [client.producers + client.consumers for client in broker.clients()] == [1]
        assert [(client.command != "", client.connections > 0, client.uid) for client in broker.clients()] != []
        sizes: list[int] = [queue.max_offset - queue.min_offset for queue in broker.topic("orders").queues]
        assert broker.grow_topic("orders", len(sizes)).queues == broker.set_permissions("orders", read=True, write=True).queues
        waiting: list[str] = [each.topic for each in broker.delayed("orders", most=10)]
        assert not waiting
        with broker.producer() as producer:
            reminders = [producer.send("orders", b"pay", delay=1000.0) for _ in range(4)]
            cancelled: bool = broker.cancel(reminders[0], timeout=30.0, durability="flushed")
            never: list[bool] = broker.cancel_batch([reminders[1], reminders[2].id], timeout=30.0, durability=None)
            assert cancelled and never == [True, True]
            assert broker.cancel_batch(producer.send_batch("orders", [b"one", b"two"], delay=1000.0)) == [True, True]
        later = broker.delayed("orders")
        assert [(each.body, each.due_ms > 0) for each in later] == [(b"pay", True)]
        assert broker.cancel(later[0]) and broker.cancel(later[0].place)
        gone: int = sum(each.messages for each in broker.purge_topic("orders", datetime.now(), queue=0, dry_run=True))
        first: list[int] = [each.before for each in broker.purge_topic("orders", 0, dry_run=True)]
        assert gone >= 0 and first
        locked: list[tuple[str, int]] = broker.lock_queues("far", [("orders", 0)], "owner", lease=30.0)
        assert broker.unlock_queues("far", locked, "owner") == locked
        broker.consumer("all", ["orders"], broadcast=True, instance="one").close()
        broker.delete_group("all@one")
        broker.create_topic("spare")
        broker.delete_topic("spare")
        try:
            broker.delete_group("billing")
        except GroupInUse as error:
            count: int | None = error.members
            assert count == 1


def hand_out(broker: orbitmq.Client) -> None:
    """Jobs in loops and handlers."""
    broker.create_topic("jobs", 1)
    with broker.producer() as producer:
        producer.send_batch("jobs", [b"%d" % n for n in range(6)], properties={"price": "7"})
        producer.send_batch("jobs", [b"6", b"7"], properties=[{"price": "7"}, None])
    with broker.worker("work", ["jobs"], concurrency=2, idle=1, timeout=None, visibility=10.0) as worker:
        for job in worker:
            place: tuple[str, int, str] = (job.topic, job.delivery, job.state)
            assert job.deadline and job.message.keys == [] and place == ("jobs", 1, "open") and job.body
            job.extend(30)
            break
        for jobs in worker.batches(2):
            jobs[0].nack(delay=0, reason="not now")
            break
        for each in worker.take(1, timeout=5.0):
            with each:
                each.ack()
        worker.flush(timeout=30)
        group = broker.group("work")
        assert group.workers[0].in_hand is not None and not group.key_ordered and group.workers[0].topics == ("jobs",)
        assert not group.queue_ordered and not group.order
        reasons: tuple[str, ...] = group.held_up
        assert group.retries == 0 and group.next_retry_s is None and not group.dead_letters
        worker.stop()
        assert worker.stopped and not worker.closed and worker.settings.group == "work" and isinstance(reasons, tuple)
        worker.close()

    @broker.work("work", ["jobs"], executor="threads", idle=1)
    def handle(job: orbitmq.Job) -> int:
        return len(job.body)

    done: int = handle.run(jobs=1)
    with broker.worker("chosen", ["jobs"], idle=1, tags="a || b", sql="price = 7") as worker:
        chosen = broker.group("chosen").workers[0]
        tags: tuple[str, ...] = chosen.tags
        assert tags == ("a", "b") and chosen.sql == "price = 7" and worker.settings.tags == "a || b"
    with broker.worker("work", ["jobs"], idle=1) as worker:
        done += worker.run(handle, executor="threads", jobs=1)
    assert done == 2


async def hand_out_later(client: aio.AsyncClient) -> None:
    """The same, awaitable."""
    async with client.worker("work", ["jobs"], idle=1) as worker:
        async for job in worker:
            assert job.body
            break
        async for jobs in worker.batches(1):
            assert jobs
            break

        async def handle(job: orbitmq.Job) -> None:
            assert job.body

        done: int = await worker.run(handle, jobs=1)
        assert done <= 1 and isinstance(await worker.take(1, timeout=0), list)
        await worker.flush(timeout=30)
        worker.stop()
        assert worker.stopped and not worker.closed
        await worker.close()
    letters = client.dead_letters("billing")
    dead: list[int] = [each.tries for each in [*await letters.list(redriven=None, most=1), *await letters.redrive(most=None)]]
    assert not dead and await letters.purge(dry_run=True) == 0
    opened: aio.AsyncWorker = await client.worker("work", ["jobs"])
    await opened.close()

    @client.work("work", ["jobs"], idle=0)
    async def count(job: orbitmq.Job) -> int:
        return job.delivery

    assert await count.run() <= 9


def bury(broker: orbitmq.Client) -> None:
    """Dead letters, of which there are none."""
    letters = broker.dead_letters("billing")
    reasons: list[str] = [letter.reason + letter.digest for letter in letters]
    again: list[str | None] = [letter.redriven for letter in letters.redrive([], most=None)]
    numbers: list[int] = [letter.tries + letter.died_ms for letter in letters.list(redriven=None, most=10)]
    ids: list[str | None] = [letter.first_id for letter in letters]
    assert not numbers and not ids and letters.bounds.minimum == letters.bounds.maximum == 0
    try:
        letters.letter(0)
    except OffsetOutOfRange as error:
        assert error.offset == 0
    assert not reasons and not again and broker.dead_letter_groups() == [] and letters.purge(dry_run=False) == 0


def work(broker: orbitmq.Client) -> None:
    """A worker without work."""
    with broker.work_session("packing", ["orders"], visibility=1.5, in_hand=10, start="latest") as worker:
        hand_outs = worker.take(5, 0.0)
        worker.ack(hand_outs)
        worker.give_back(hand_outs)
        late: list[int] = [each.delivery for each in worker.settled(5)]
        assert not hand_outs and not late


def bodies() -> Iterator[bytes]:
    """A batch need not be a list."""
    yield from (b"a", b"b")


def look_up(transaction: orbitmq.OpenTransaction) -> Literal["commit", "rollback"] | None:
    """A check function."""
    return "commit" if transaction.checks == 1 else "rollback" if transaction.age_s > 3600 else None


async def look_up_later(transaction: orbitmq.OpenTransaction) -> Literal["commit", "rollback", "unknown"] | None:
    """One for an event loop."""
    return "unknown" if transaction.checks > 1 else look_up(transaction)


def transactions(broker: orbitmq.Client) -> list[orbitmq.Receipt]:
    """Every way to begin and end one."""
    level: Literal["appended", "flushed"] = "flushed"
    receipts: list[orbitmq.Receipt] = []
    with broker.producer(group="shop") as producer:
        with producer.transaction("orders", b"tx", tags="t", keys="tx", queue=0, properties={"a": "b"}, timeout=5) as tx:
            assert (tx.state, tx.topic, tx.half.topic, tx.receipt) == ("open", "orders", "orders", None)
            assert tx.id
        assert tx.receipt is not None
        receipts.append(tx.receipt)
        receipts.append(producer.transaction("orders", "2", queue_key="k", durability="flushed").commit(timeout=5))
        producer.transaction("orders", b"3").rollback(durability=level, timeout=5)
        left = [producer.transaction("orders", b"4"), producer.transaction("orders", b"5")]
        first, last = broker.open_transactions("shop")
        assert [first.id, last.id] == [each.id for each in left] and first.age_s >= 0 and first.body == bytes(first.message)
        assert (first.topic, first.queue >= 0, first.group, first.begun_ms > 0) == ("orders", True, "shop", True)
        assert first.place.endswith("/0@3") and first.checks == 0 and first.check_due_ms > first.begun_ms
        receipts.append(broker.commit_transaction(first, durability=None, timeout=5))
        broker.rollback_transaction(last, durability=None, timeout=5)
        try:
            left[1].commit()
        except TransactionSettled as error:
            assert error.outcome == "rolled back"
        try:
            broker.rollback_transaction(replace(first, id="another"))
        except UnknownTransaction as error:
            assert error.message
    with broker.producer(group="shop", check=look_up) as producer, broker.check_transactions("shop", look_up) as checker:
        producer.transaction("orders", b"6", check=look_up).rollback()
        assert (checker.group, checker.closed, checker.wait(timeout=0)) == ("shop", False, False)
    checker.close()
    return receipts


async def transactions_later(client: aio.AsyncClient, producer: aio.AsyncProducer) -> None:
    """Every way to begin and end one."""
    async with producer.transaction("orders", b"tx", tags="t", keys=["k"], queue=0) as tx:
        assert (tx.state, tx.topic, tx.half.queue) == ("open", "orders", 0) and tx.id
    assert tx.receipt is not None
    await (await producer.transaction("orders", b"tx")).commit(durability=None, timeout=30)
    await (await producer.transaction("orders", b"tx")).rollback(durability=None, timeout=30)
    await producer.transaction("orders", b"tx")
    await producer.transaction("orders", b"tx")
    async with await client.check_transactions("else", look_up_later) as checker:
        assert (checker.group, checker.closed) == ("else", False)
    async with await client.producer(group="else", check=look_up_later) as other:
        await (await other.transaction("orders", b"tx", check=look_up)).rollback()
    await checker.close()
    open_ones = await client.open_transactions()
    await client.commit_transaction(open_ones[0], durability=None, timeout=30)
    await client.rollback_transaction(open_ones[1], durability=None, timeout=30)


def send(broker: orbitmq.Client) -> list[orbitmq.Receipt]:
    """Every way to send."""
    level: Literal["appended", "flushed"] = "flushed"
    with broker.producer(
        window=64, message_max=1 << 16, on_full="wait", timeout=30.0, durability=None, wait=None, name="shop"
    ) as producer:
        receipt = producer.send("orders", b"first", tags="new", keys=["1", "one"], queue=0, properties={"from": "here"}, flag=7)
        receipts = [receipt, producer.send("orders", "text", keys="2", queue_key="customer", durability=level, timeout=5)]
        pending = producer.send_async("orders", bytearray(b"later"), queue_key=b"customer")
        receipts.append(pending.result(timeout=5))
        producer.send_oneway("orders", memoryview(b"whenever"))
        mixed: list[bytes | str] = [b"a", "b"]
        batch = producer.send_batch("orders", mixed, tags=["x", None], keys=["1", ["2", "3"]])
        receipts += [batch[0], *batch[1:], *producer.send_batch("orders", bodies(), tags="y", queue=1)]
        later = producer.send_batch_async("orders", (b"c", b"d"))
        receipts += later.result(timeout=5)
        slowly = producer.make_batch("orders", [b"e"], keys=["5"])
        while not (producer.push(slowly) and slowly.answered):
            assert producer.ready and producer.wait_settled(producer.settled, 0, 1.0)
        receipts.append(slowly.receipt(0))
        assert slowly.cut() == 1 and slowly.flush_end >= 0
        receipts += [producer.send("orders", b"f", dedup="17"), *producer.send_batch("orders", [b"g", b"h"], dedup=["a", b"b"])]
        assert not receipts[-1].duplicate
        assert pending.done() and later.done() and len(batch.raw) == 64
        with producer.batch(durability="appended", timeout=5) as together:
            number: int = together.send("orders", b"f", tags="z", keys="6", queue=0, properties={"a": "b"}, flag=1)
            together.send("orders", "g", queue_key="customer", delay=None)
        receipts += [together.receipts[number], *together.receipts[1:]]
        assert len(together.receipts.first(1)) == 1
        with broker.consumer("billing", ["orders"], start="earliest") as reader, producer.batch() as exact:
            exact.commit(reader)
        at_once = producer.post_atomic(((("orders", b"h"), ()),), None, None)
        receipts += at_once.result(timeout=5)
        producer.flush(timeout=5)
        assert (producer.in_flight, producer.failed, producer.closed) == (0, 0, False)
        producer.close(timeout=5)
    receipts += transactions(broker)
    try:
        with broker.producer() as producer:
            producer.prepare()
            producer.send("elsewhere", b"")
    except UnknownTopic as error:
        assert isinstance(error, OrbitError) and error.message and error.hint and error.topic == "elsewhere"
        producer.retire()
    host, place = receipt.store_host, (receipt.topic, receipt.queue, receipt.offset, receipt.physical_offset, receipt.size)
    assert host and place and receipt.durability in ("appended", "flushed")
    assert broker.message(receipt.id).id == receipt.id
    assert [bytes(each) for each in broker.find("orders", "one", begin_ms=0, end_ms=None, most=1)] == [b"first"]
    return receipts


def read(message: orbitmq.Message) -> int:
    """What a message has."""
    texts: list[str] = [message.topic, message.id, *message.keys, *message.properties.values(), message.tags or ""]
    texts += [message.born_host, *message.user_properties.values()]
    numbers = [message.queue, message.offset, message.physical_offset, message.size, message.born_ms, message.stored_ms]
    numbers += [message.flag, message.sys_flag, message.reconsume_times, message.prepared_offset]
    copy = orbitmq.Message.from_record(message.record())
    assert texts and bytes(copy) == bytes(message.body) and len(copy) == len(message)
    return sum(numbers)


def told(consumer: orbitmq.Consumer, queues: list[QueueKey]) -> None:
    """A callback."""
    assert not consumer.closed and queues


def consume(broker: orbitmq.Client, count: int) -> None:
    """Every way to read."""
    settings = broker.consumer(
        "billing",
        ["orders"],
        tags=None,
        sql="price IS NULL OR price > 0",
        start="earliest",
        batch=100,
        verify=True,
        removed="skip",
        on_assigned=told,
        on_revoked=told,
        on_lost=lambda _, queues: print(queues),
        max_poll_interval=None,
        revoke_timeout=1.0,
        wait=0,
    )
    with settings as consumer:
        assert consumer.wait(timeout=30)
        message: orbitmq.Message | None = consumer.poll(timeout=30)
        assert message is not None and read(message) > 0
        rest: list[orbitmq.Message] = consumer.poll_batch(2, timeout=30)
        left: list[bytes] = consumer.poll_bodies(1000, timeout=30)
        assert 1 + len(rest) + len(left) == count
        position: dict[QueueKey, int] = consumer.position()
        consumer.commit()
        consumer.commit(position)
        assert consumer.committed() == position and set(consumer.lag().values()) == {0}
        consumer.seek("orders", 0, position["orders", 0])
        consumer.pause([("orders", 0)])
        assert consumer.paused == [("orders", 0)]
        consumer.unpause()
        consumer.seek_to_time(0)
        consumer.seek_to_time(time.time() * 1000, nearest=True)
        for again in consumer:
            assert read(again)
            break
        assert poll_arrow(consumer) and consumer.assignment and not consumer.skipped and consumer.rebalances >= 0
        consumer.settle()
        consumer.interrupt()
        consumer.resume()
        consumer.interrupt()
        try:
            while consumer.poll():
                pass
        except Interrupted:
            assert consumer.prompt
        for group in broker.status().groups:
            assert (group.name, len(group.queues), len(group.members)) == ("billing", 2, 1)
            assert group.lag_messages == group.removed_messages == 0 < group.epoch
            for member in group.members:
                assert member.topics == ("orders",) and member.pid and member.slot >= 0
                assert len(member.queues) == 2 and not member.leaving
    try:
        consumer.poll()
    except Closed:
        print(consumer)
    for topics in (("orders",), {"orders"}, {"orders": 1}.keys(), deque(["orders"])):
        broker.consumer(topics=topics).close()


def ask(broker: orbitmq.Client) -> None:
    """Requests and replies."""
    broker.create_topic("asked", 1)
    try:
        broker.request("asked", b"nobody", 0.01, tags="t", keys="k", queue=0, properties={"a": "b"}, flag=1, durability=None)
    except RequestTimeout as error:
        receipt: orbitmq.Receipt = error.receipt or error.pending.result(30)
        assert receipt.offset == 0 and error.correlation_id and error.timeout == 0.01
    with broker.worker("answering", ["asked"]) as worker:
        for job in worker.take(1, timeout=30.0):
            replied: orbitmq.Receipt = job.reply("late", keys=["x"], properties={"c": "d"}, flag=2, timeout=30.0)
            replies = [replied, job.message.reply(b"again"), broker.reply(job.message, bytearray(b"and again"))]
            assert len({each.offset for each in replies}) == 3
            job.ack()
        worker.flush(30)


async def ask_later(client: aio.AsyncClient) -> None:
    """The same, awaitable."""
    asking = asyncio.create_task(client.request("asked", "somebody", 30.0))
    async with await client.consumer("answers", ["asked"]) as consumer:
        async for message in consumer:
            assert (await client.reply(message, b"here", properties=None)).size
            if asking.done() or bytes(message) == b"somebody":
                break
    reply: orbitmq.Message = await asking
    assert bytes(reply) == b"here"


async def told_later(consumer: aio.AsyncConsumer, queues: list[QueueKey]) -> None:
    """A callback of asyncio's."""
    assert await consumer.position() and queues


async def with_asyncio(name: str) -> None:
    """The same names, awaitable."""
    async with aio.connect(name, store=None, timeout=10, wait=1) as client:
        topic: orbitmq.TopicInfo = await client.create_topic("orders", 2)
        assert topic in await client.topics() and (await client.status()).name == client.name
        assert (await client.health()).ready
        assert (await client.backup((await client.status()).store + "-backup", progress=None)).copied
        assert await client.settings() and await client.change_settings({"restarts": 41}) == ["restarts"]
        await client.change_settings(forget=["restarts"])
        await client.believe_clock()
        assert await client.delayed() == [] and await client.cancel_batch([]) == []
        async with await client.producer(window=64, on_full="error", durability="flushed") as producer:
            receipt: orbitmq.Receipt = await producer.send("orders", b"one", keys=("a",), timeout=30)
            async with producer.batch(durability=None, timeout=30) as together:
                together.send("orders", b"at once")
            assert len(together) == len(together.receipts) == 1
            async with await client.consumer("shipping", ["orders"]) as reader, producer.batch() as exact:
                await exact.commit(reader)
            pending = await producer.send_async("orders", b"two")
            later = await producer.send_batch_async("orders", [b"three"], keys=[None])
            assert [(await pending).topic, *(each.topic for each in await later)] == ["orders", "orders"]
            assert await client.cancel(await producer.send("orders", b"pay", delay=1000.0), timeout=30.0, durability="appended")
            await transactions_later(client, producer)
            await producer.send_oneway("orders", b"four")
            receipts: Sequence[orbitmq.Receipt] = await producer.send_batch("orders", [b"five"])
            await producer.flush()
            assert receipts and not (producer.failed or producer.in_flight or producer.closed)
            await producer.close()
        assert (await client.message(receipt.id)).queue == receipt.queue
        assert await client.find("orders", "a", most=1)
        async with await client.consumer("shipping", ["orders"], batch=10, on_assigned=told_later) as consumer:
            assert await consumer.wait(30)
            first: orbitmq.Message | None = await consumer.poll(timeout=30)
            assert first and await consumer.poll_batch(1, timeout=30) and await consumer.poll_bodies(1, timeout=30)
            assert await poll_arrow_later(consumer) == 1
            async for message in consumer:
                assert read(message)
                break
            await consumer.commit(await consumer.position())
            assert await consumer.committed() and await consumer.lag()
            await consumer.pause(consumer.assignment)
            assert consumer.paused and not consumer.closed and consumer.rebalances >= consumer.skipped
            await consumer.unpause()
            await consumer.seek("orders", 0, 0)
            await consumer.seek_to_time(0, nearest=False)
            await consumer.settle()
            await consumer.close()
        await hand_out_later(client)
        await ask_later(client)
    client = await aio.connect(name)
    await client.close()


def main(path: Path) -> None:
    """All of it but Spark's."""
    with begin(path) as broker:
        assert broker.pid
        with orbitmq.connect(broker.name, timeout=10.0, wait=0) as client, orbitmq.connect(store=path):
            look_at(client, ())
            look_after(client)
            bury(client)
            consume(client, len(send(client)) + 1)
            work(client)
            hand_out(client)
            ask(client)
        asyncio.run(with_asyncio(broker.name))
        async_stop(broker.name)
    assert look_at_all(path)
    print(orbitmq.__version__)


def async_stop(name: str) -> None:
    """Stops the broker, in either way."""

    async def stop() -> None:
        async with aio.connect(name) as client:
            try:
                await client.stop_broker()
            except TimedOut:
                orbitmq.connect(name).stop_broker()

    asyncio.run(stop())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
