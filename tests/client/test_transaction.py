"""Goal: a message of a transaction comes once if it was committed and never otherwise, and a transaction ends once, whoever
ends it (client/transaction/transaction.py, client/transaction/settling.py, TransactionAdministration,
client/transaction/open_transactions.py).

Method: a real broker. That a message does not come is shown by one that was sent after it, to the same queue."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.client.transaction.transaction import Transaction
from orbitmq.errors import (
    GroupNameError,
    NoPermission,
    TransactionSettled,
    UnknownTopic,
    UnknownTransaction,
    UsageError,
)
from orbitmq.store.halves import HALF_TOPIC, OP_TOPIC
from tests.trees import everything, kill, small_broker, stopped
from tests.waiting import until


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path / "store") as running:
        running.create_topic("t", 2)
        yield running


def bodies(client: orbitmq.Client, topic: str = "t") -> list[bytes]:
    """Of all that is in the topic when this begins."""
    end = client.status().positions.wrote
    until(lambda: client.status().positions.reput >= end, "the queues to be complete")
    return sorted(body for body, *_ in everything(client, topic))


def test_a_block_commits_or_rolls_back(broker: orbitmq.Broker) -> None:
    with broker.producer(group="shop") as producer:
        with producer.transaction("t", b"yes", tags="a", keys="k", properties={"p": "q"}, queue=1) as tx:
            assert bodies(broker) == []
            assert tx.state == "open"
        assert tx.state == "committed"
        with pytest.raises(ValueError, match="mine"), producer.transaction("t", b"no") as other:
            raise ValueError("mine")
        assert other.state == "rolled back"
        assert bodies(broker) == [b"yes"]
    (found,) = broker.find("t", "k")
    assert tx.receipt is not None
    assert (found.id, found.queue, found.offset, found.size) == (tx.receipt.id, 1, tx.receipt.offset, tx.receipt.size)
    names = {"TAGS": "a", "KEYS": "k", "p": "q", "UNIQ_KEY": tx.id}
    real = {"TRAN_MSG": "true", "PGROUP": "shop", "REAL_TOPIC": "t", "REAL_QID": "1"}
    assert found.properties == names | real


def test_on_disk_it_is_as_rocketmq_writes_it(broker: orbitmq.Broker) -> None:
    """The half's offset as the body of one operation message for each end; the message names the half's place."""
    from orbitmq.store.commit_log.record import parse

    with broker.producer() as producer:
        first, second = producer.transaction("t", b"one"), producer.transaction("t", b"two")
        second.rollback()
        receipt = first.commit()
    assert [(body, queue) for body, queue, *_ in everything(broker, OP_TOPIC)] == [(b"1", 0), (b"0", 0)]
    assert bodies(broker, HALF_TOPIC) == [b"one", b"two"]
    log = min((Path(broker.status().store) / "commitlog").iterdir()).read_bytes()
    message, half = parse(log, receipt.physical_offset), parse(log, first.half.physical_offset)
    assert (message.sys_flag & 0xC, message.prepared_offset) == (8, half.physical_offset)
    assert (half.sys_flag & 0xC, half.topic, half.queue_id) == (0, HALF_TOPIC, 0)
    operation = parse(log, receipt.physical_offset + receipt.size)
    assert (operation.topic, bytes(operation.body), operation.properties) == (OP_TOPIC, b"0", {"TAGS": "d", "WAIT": "true"})


@pytest.mark.parametrize("first", ["commit", "rollback"])
@pytest.mark.parametrize("second", ["commit", "rollback"])
def test_the_first_end_counts(lent: orbitmq.Broker, lent_topic: str, first: str, second: str) -> None:
    with lent.producer() as producer:
        tx = producer.transaction(lent_topic, b"x")
        again = Transaction(producer, tx.topic, tx.id, tx.half)
        getattr(tx, first)()
        with pytest.raises(UsageError):
            getattr(tx, second)()
        with pytest.raises(TransactionSettled) as raised:
            getattr(again, second)()
        outcome = {"commit": "committed", "rollback": "rolled back"}
        assert raised.value.outcome == outcome[first]
        doing = "commit" if second == "commit" else "roll back"
        what = f"the transaction {tx.id} of topic {lent_topic!r}"
        assert raised.value.message == f"could not {doing} {what}: it was {outcome[first]} before"
        assert bodies(lent, lent_topic) == ([b"x"] if first == "commit" else [])


def test_many_threads_end_each_transaction_once(broker: orbitmq.Broker) -> None:
    with broker.producer() as producer:
        begun = [producer.transaction("t", b"%03d" % number) for number in range(200)]
        told: list[tuple[int, str]] = []

        def end_all(place: int) -> None:
            for number, tx in enumerate(begun):
                own = Transaction(producer, tx.topic, tx.id, tx.half)
                doing = "commit" if (number + place) % 2 else "rollback"
                try:
                    getattr(own, doing)()
                    told.append((number, doing))
                except TransactionSettled:
                    pass

        threads = [threading.Thread(target=end_all, args=(place,)) for place in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert sorted(number for number, _ in told) == list(range(200))
    assert bodies(broker) == sorted(b"%03d" % number for number, doing in told if doing == "commit")
    assert broker.open_transactions() == []


def test_what_is_no_open_transaction(broker: orbitmq.Broker) -> None:
    for end in (broker.commit_transaction, broker.rollback_transaction):
        with pytest.raises(TypeError, match="transaction: 'an id' is not an OpenTransaction"):
            end("an id")  # type: ignore[arg-type]


def test_others_end_what_a_dead_producer_has_begun(broker: orbitmq.Broker) -> None:
    """Also after a restart of the writer."""
    child = os.fork()
    if child == 0:
        with orbitmq.connect(broker.name) as client, client.producer(group="shop") as producer:
            producer.transaction("t", b"kept", queue=1)
            producer.transaction("t", b"dropped")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    kill(broker, "writer")
    with broker.producer(group="else") as producer:
        producer.transaction("t", b"not theirs")
    kept, dropped = broker.open_transactions("shop")
    assert (kept.topic, kept.queue, kept.group, kept.body) == ("t", 1, "shop", b"kept")
    assert kept.age_s >= 0
    assert broker.commit_transaction(kept).topic == "t"
    broker.rollback_transaction(dropped)
    with pytest.raises(TransactionSettled):
        broker.rollback_transaction(kept)
    assert bodies(broker) == [b"kept"]
    assert [each.body for each in broker.open_transactions()] == [b"not theirs"]


def test_a_start_knows_what_has_ended(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 1)
        with broker.producer() as producer:
            begun = [producer.transaction("t", b"%d" % number) for number in range(5)]
            begun[1].commit()
            begun[3].rollback()
    with small_broker(tmp_path) as broker, broker.producer() as producer:
        assert [each.body for each in broker.open_transactions()] == [b"0", b"2", b"4"]
        for number, tx in enumerate(begun):
            later = Transaction(producer, tx.topic, tx.id, tx.half)
            if number % 2 == 0:
                later.commit()
                continue
            with pytest.raises(TransactionSettled) as raised:
                later.commit()
            assert raised.value.outcome is None
        assert bodies(broker) == [b"0", b"1", b"2", b"4"]


def test_status_counts_them(broker: orbitmq.Broker) -> None:
    assert (broker.status().open_transactions, broker.status().oldest_transaction_ms) == (0, 0)
    with broker.producer() as producer:
        begun = [producer.transaction("t", b"%d" % number) for number in range(70)]
        begun[0].commit()
        begun[40].rollback()
        until(lambda: broker.status().open_transactions == 68, "all to be indexed")
        assert broker.status().oldest_transaction_ms == broker.open_transactions()[0].begun_ms > 0
        for each in begun:
            if each.state == "open":
                each.rollback()
    assert (broker.status().open_transactions, broker.status().oldest_transaction_ms) == (0, 0)


def test_a_handle_of_another_transaction_ends_nothing(broker: orbitmq.Broker) -> None:
    with broker.producer() as producer:
        tx = producer.transaction("t", b"x")
        message = producer.send("t", b"ordinary")
        for wrong in (Transaction(producer, "t", "another", tx.half), Transaction(producer, "t", tx.id, message)):
            with pytest.raises(UnknownTransaction) as raised:
                wrong.rollback()
            assert wrong.id in str(raised.value)
        tx.commit()
        assert bodies(broker) == [b"ordinary", b"x"]


def test_a_deleted_topic_can_only_be_rolled_back(broker: orbitmq.Broker) -> None:
    broker.create_topic("gone", 1)
    with broker.producer() as producer:
        tx = producer.transaction("gone", b"x")
        broker.delete_topic("gone")
        with pytest.raises(UnknownTopic, match="any more"):
            tx.commit()
        tx.rollback()
        with pytest.raises(UnknownTopic):
            producer.transaction("gone", b"x")


def test_what_was_begun_may_be_sent_although_nothing_else_may(broker: orbitmq.Broker) -> None:
    """As with RocketMQ, which asks for the permission when a transaction begins."""
    with broker.producer() as producer:
        tx = producer.transaction("t", b"x")
        broker.set_permissions("t", read=True, write=False)
        with pytest.raises(NoPermission):
            producer.transaction("t", b"y")
        tx.commit()
        broker.set_permissions("t", read=True, write=True)
    assert bodies(broker) == [b"x"]


def test_an_end_does_not_wait_for_room(broker: orbitmq.Broker) -> None:
    """Method: the writer is stopped until the producer's window is full of sends, for which two threads wait; then the end is
    answered while they fill the window as it empties."""
    with broker.producer(window=8) as producer:
        tx = producer.transaction("t", b"x")
        done = threading.Event()

        def fill() -> None:
            while not done.is_set():
                producer.send_oneway("t", b"full")

        with stopped(broker, "writer"):
            filling = [threading.Thread(target=fill) for _ in range(2)]
            for each in filling:
                each.start()
            until(lambda: producer.in_flight == 8, "a full window")
        tx.commit()
        done.set()
        for each in filling:
            each.join()
        assert bodies(broker).count(b"x") == 1


def test_what_has_begun_is_listed(broker: orbitmq.Broker) -> None:
    """Goal: a program sees what it has begun, though reput is behind. Method: reput hangs while another thread lists."""
    found: list[str] = []
    threads: list[int] = []

    def listed() -> None:
        threads.append(threading.get_native_id())
        found.extend(each.id for each in broker.open_transactions())

    def asleep() -> bool:
        stat = Path(f"/proc/self/task/{threads[0]}/stat").read_text() if threads else ""
        return stat.rpartition(")")[2].split(maxsplit=1)[:1] == ["S"]

    with broker.producer() as producer:
        with stopped(broker, "reput"):
            begun = producer.transaction("t", b"x")
            thread = threading.Thread(target=listed)
            thread.start()
            until(lambda: not thread.is_alive() or asleep(), "it to wait")
        thread.join()
        assert found == [begun.id]
        begun.rollback()


def test_groups_have_names(broker: orbitmq.Broker) -> None:
    for name in ("", "a b", "x" * 256, "\x01"):
        with pytest.raises(GroupNameError):
            broker.producer(group=name)
        with pytest.raises(GroupNameError):
            broker.open_transactions(group=name)
    with pytest.raises(GroupNameError, match="cannot name a group 5"):
        broker.open_transactions(group=5)  # type: ignore[arg-type]
    with broker.producer(group="x" * 255) as producer:
        producer.transaction("t", b"x")
    assert broker.open_transactions()[0].group == "x" * 255


def test_a_rollback_that_fails_does_not_hide_the_error(lent: orbitmq.Broker, lent_topic: str) -> None:
    with lent.producer() as producer:
        with pytest.raises(ValueError, match="mine") as raised, producer.transaction(lent_topic, b"x") as tx:
            Transaction(producer, tx.topic, tx.id, tx.half).commit()
            raise ValueError("mine")
        assert "committed before" in raised.value.__notes__[0]


def test_asyncio(broker: orbitmq.Broker) -> None:
    async def run() -> None:
        async with await orbitmq.aio.connect(broker.name) as client, await client.producer(group="shop") as producer:
            async with producer.transaction("t", b"yes") as tx:
                assert tx.state == "open"
            assert (tx.state, tx.topic) == ("committed", "t")
            assert tx.receipt is not None
            with pytest.raises(ValueError, match="mine"):
                async with producer.transaction("t", b"no"):
                    raise ValueError("mine")
            explicit = await producer.transaction("t", b"also")
            await explicit.commit()
            with pytest.raises(UsageError):
                await explicit.rollback()
            with pytest.raises(UsageError, match="has not begun"):
                _ = producer.transaction("t", b"never").id

    asyncio.run(run())
    assert bodies(broker) == [b"also", b"yes"]


