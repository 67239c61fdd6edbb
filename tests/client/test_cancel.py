"""Goal: a delayed message that was cancelled never comes, and a handle that does not name one cancels nothing. Method: a real
broker; a message that comes at the same time and was stored later shows that the cancelled one would have come before it. If
the machine is too slow for a time, a later one is tried (client/delay/cancel.py, the Targets of client/delay/cancel_target.py,
DelayAdministration). Also of client/delay/administration.py."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.client.admin.status import read_positions
from orbitmq.client.client import Client
from orbitmq.client.delay.cancel_producer import AT_ONCE
from orbitmq.client.delay.delayed import DelayedMessage
from orbitmq.errors import (
    Closed,
    NoPermission,
    OrbitError,
    SettingError,
    UnknownTopic,
    UsageError,
)
from tests.client.delayed_view import DAY_S, TIMER, comes, stored
from tests.trees import kill, small_broker
from tests.waiting import WATCHDOG_S, until


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path / "store") as running:
        running.create_topic("t", 2)
        yield running


def sessions(client: Client) -> int:
    """Producers of this process."""
    return sum(each.producers for each in client.clients() if each.pid == os.getpid())


def in_time(client: Client, count: int, cancels: Callable[[list[orbitmq.Receipt]], list[bool]]) -> float:
    """Sends so many messages, cancels them, and sends one that comes at the same time. Returns that time."""
    delay, come = 0.3, 0
    while True:
        with client.producer() as producer:
            due = time.time() + delay
            receipts = [producer.send("t", b"cancelled", deliver_at=due) for _ in range(count)]
            # what is sent after its time, in whole milliseconds, does not wait: its handle is refused
            never = cancels(receipts) if time.time() < due - 0.002 else [False] * count
            producer.send("t", b"last", deliver_at=due)
        if all(never):
            return due
        assert delay < WATCHDOG_S
        delay *= 2
        come += never.count(False) + 1
        # one that came after the purge would stand before the next last one
        until(lambda: sum(each.max_offset for each in client.topic("t").queues) == come, f"{come} messages to come")
        client.purge_topic("t")


def listed(client: Client, receipt: orbitmq.Receipt) -> DelayedMessage | orbitmq.Receipt:
    """As it is in the list of those that wait; the receipt if its time has come."""
    found = next((each for each in client.delayed() if each.message.offset == receipt.offset), None)
    assert found is not None or not client.cancel(receipt), "it waits, and is not listed"
    return found or receipt


HOW: dict[str, Callable[[Client, orbitmq.Receipt], Any]] = {
    "receipt": lambda client, receipt: receipt,
    "id": lambda client, receipt: receipt.id,
    "small letters": lambda client, receipt: receipt.id.lower(),
    "place": lambda client, receipt: f"{TIMER}/0@{receipt.offset}",
    "listed": listed,
}


def test_it_never_comes(broker: orbitmq.Broker) -> None:
    """By each kind of handle; and it is not listed any more."""

    def cancels(receipts: list[orbitmq.Receipt]) -> list[bool]:
        never = [broker.cancel(how(broker, each)) for how, each in zip(HOW.values(), receipts, strict=True)]
        waiting = [each.message.offset for each in broker.delayed("t")]
        assert not any(never) or not {each.offset for each, gone in zip(receipts, never, strict=True) if gone} & set(waiting)
        return never

    in_time(broker, len(HOW), cancels)
    assert set(comes(broker, b"last")) == {b"last"}


def test_many(broker: orbitmq.Broker) -> None:
    """The receipts of a batch are handles, more than are sent at once too; those that were not cancelled come."""
    count = AT_ONCE + 100
    bodies = [b"%d" % n for n in range(count)]
    with broker.producer() as producer:
        receipts = producer.send_batch("t", bodies, delay=DAY_S)
        here = producer.send("t", b"last", delay=0.001)
        assert comes(broker, b"last") == [b"last"]
        others = [receipts[0], here, receipts[5].id]
        assert broker.cancel_batch(others) == [True, False, True]
        assert broker.cancel_batch(receipts[6:]) == [True] * (count - 6)
        assert broker.cancel_batch([]) == []
    assert [each.body for each in broker.delayed()] == bodies[1:5]
    assert broker.cancel_batch(dict.fromkeys(receipts).keys()) == [True] * count
    assert broker.delayed() == []


def test_too_late(broker: orbitmq.Broker) -> None:
    """Its time has come: no record is sent."""
    with broker.producer() as producer:
        receipt = producer.send("t", b"first", delay=0.001)
        comes(broker, b"first")
        before = stored(broker)
        for how in list(HOW.values())[:4]:
            assert broker.cancel(how(broker, receipt)) is False
        assert broker.cancel_batch([receipt, receipt]) == [False, False]
        assert stored(broker) == before and sessions(broker) == 1


def test_a_time_that_comes_meanwhile(broker: orbitmq.Broker) -> None:
    """Each message either comes or was cancelled, however close the two are."""
    with broker.producer() as producer:
        never = {}
        for n in range(100):
            receipt = producer.send("t", b"%d" % n, delay=0.002 + n % 7 / 1000)
            never[b"%d" % n] = broker.cancel(receipt)
        producer.send("t", b"last", delay=0.02)
        found = comes(broker, b"last")
    assert sorted(found) == sorted([b"last", *(body for body, cancelled in never.items() if not cancelled)])


def test_twice(broker: orbitmq.Broker) -> None:
    """Before its time it is true as often as it is asked, also if nothing else waits and nothing reminds of it."""
    with broker.producer() as producer:
        receipt = producer.send("t", b"x", delay=DAY_S)
        other = producer.send("t", b"y", delay=DAY_S)
    assert [broker.cancel(receipt) for _ in range(3)] == [True] * 3
    assert broker.cancel_batch([receipt, other, other]) == [True] * 3
    until(lambda: broker.cancel(receipt) and stored(broker) > 8)
    kill(broker, "scheduler")
    assert broker.cancel(receipt)


def wrong(broker: orbitmq.Broker, tmp_path: Path) -> Iterator[tuple[Any, str]]:
    """Handles that name nothing that could be cancelled, and what the error says."""
    with broker.producer() as producer:
        ordinary, level = producer.send("t", b"now"), producer.send("t", b"level", delay_level=4)
        waits = producer.send("t", b"waits", delay=DAY_S)
        gone = producer.send("t", b"gone", delay=DAY_S)
    assert broker.cancel(gone)
    with small_broker(tmp_path / "other") as other:
        other.create_topic("t", 1)
        other.create_topic("u", 1)
        with other.producer() as producer:
            yield producer.send("u", b"1", delay=DAY_S), "another message is there"
            yield producer.send("t", b"another size", delay=DAY_S), "no message begins at its physical offset"
            producer.send("t", bytes(100_000))
            yield producer.send("t", b"far behind", delay=DAY_S), "the log ends at physical offset"
        listed = other.delayed("t")[0]
        yield listed, "no message begins|another message is there"
    yield ordinary, "that message is in 't' already"
    yield ordinary.id, "that message is in 't' already"
    yield level, "waits with a delay level, 4; send such messages with delay=30 of send"
    yield f"SCHEDULE_TOPIC_XXXX/3@{level.offset}", "waits with a delay level, 4"
    yield next(each for each in broker.delayed() if each.body == b"level"), "waits with a delay level, 4"
    yield f"{TIMER}/0@{waits.offset + 1000}", "the queue ends at offset"
    yield f"{TIMER}/1@{waits.offset}", "wait in rmq_sys_wheel_timer, queue 0"
    yield f"t/0@{waits.offset}", "wait in rmq_sys_wheel_timer, queue 0"
    yield f"{TIMER}/0@{gone.offset + 1}", "the record that cancels another message"
    yield waits.id[:-1], "neither an id nor a place"
    yield "x" * 32, "32 or 56 hexadecimal digits"
    yield waits.id[:-2] + "FF", "no message begins|another message"
    yield "11" * 8 + waits.id[16:], "id differ"
    yield "", "neither an id nor a place"
    yield 17, "of type int"
    yield None, "of type NoneType"
    yield [waits], "cancel_batch.. takes a list"
    assert broker.delayed("t")[-1].body == b"waits"


def test_handles_of_nothing(broker: orbitmq.Broker, tmp_path: Path) -> None:
    """Each is refused with a reason, alone and among good ones; nothing is sent."""
    for handle, why in wrong(broker, tmp_path):
        before = stored(broker)
        with pytest.raises(UsageError, match=why):
            broker.cancel(handle)
        good = next(each for each in broker.delayed() if each.body == b"waits")
        with pytest.raises(UsageError, match=why):
            broker.cancel_batch([good, handle])
        assert stored(broker) == before


def test_nothing_was_ever_delayed(broker: orbitmq.Broker) -> None:
    with pytest.raises(UsageError, match="the queue ends at offset 0"):
        broker.cancel(f"{TIMER}/0@0")


def test_what_is_asked_for_is_checked(broker: orbitmq.Broker) -> None:
    with broker.producer() as producer:
        receipt = producer.send("t", b"x", delay=DAY_S)
    for timeout in (-1, float("nan"), "5"):
        with pytest.raises(SettingError, match="number of seconds"):
            broker.cancel(receipt, timeout=timeout)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="durability"):
        broker.cancel(receipt, durability="soon")  # type: ignore[arg-type]
    for one in (receipt.id, receipt):
        with pytest.raises(SettingError, match=r"takes a list of handles; use cancel\(\)"):
            broker.cancel_batch(one)  # type: ignore[arg-type]
    assert broker.cancel(receipt, durability="flushed")
    positions = read_positions(broker.connection.attachment)
    assert positions.flushed == positions.wrote


def test_permissions_of_the_topic(broker: orbitmq.Broker) -> None:
    """To cancel is to write to the topic that the message is for."""
    broker.create_topic("gone", 1)
    with broker.producer() as producer:
        receipt = producer.send("t", b"x", delay=DAY_S)
        deleted = producer.send("gone", b"x", delay=DAY_S)
    broker.set_permissions("t", read=True, write=False)
    with pytest.raises(NoPermission, match=f"could not cancel '{receipt.id}': .*'t'") as raised:
        broker.cancel(receipt)
    assert "repeating is safe" in str(raised.value)
    broker.set_permissions("t", read=True, write=True)
    assert broker.cancel(receipt)
    broker.delete_topic("gone")
    with pytest.raises(UnknownTopic, match=f"could not cancel '{deleted.id}': .*'gone'"):
        broker.cancel(deleted)


def test_after_a_restart(tmp_path: Path) -> None:
    """What was cancelled before does not come; what was not can be cancelled by the handles of then, by the client of then."""
    store = tmp_path / "store"
    with small_broker(store) as broker:
        broker.create_topic("t", 1)
    with small_broker(store, name="again") as broker:
        client = orbitmq.connect("again", wait=WATCHDOG_S)
        with broker.producer() as producer:
            kept, gone, later = producer.send_batch("t", [b"kept", b"gone", b"later"], delay=DAY_S)
        due = in_time(client, 3, client.cancel_batch)
        assert client.cancel(gone)
    with small_broker(store, name="again") as broker, client:
        assert set(comes(broker, b"last")) == {b"last"}
        assert time.time() >= due
        assert client.cancel(later) and client.cancel(gone)
        assert [each.body for each in broker.delayed()] == [b"kept"]
        assert broker.cancel(kept.id)


def test_a_store_that_is_only_read(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 1)
        with broker.producer() as producer:
            receipt = producer.send("t", b"x", delay=DAY_S)
    with small_broker(tmp_path, read_only=True) as broker:
        with pytest.raises(OrbitError, match=f"could not cancel '{receipt.id}': .*read") as raised:
            broker.cancel(receipt)
        assert "repeating is safe" in str(raised.value)
        assert [each.body for each in broker.delayed()] == [b"x"]


def test_a_session_only_for_those_who_cancel(broker: orbitmq.Broker) -> None:
    """One for the life of the client; nobody is warned about it."""
    name = broker.name
    with broker.producer() as producer:
        receipts = producer.send_batch("t", [b"x"] * 4, delay=DAY_S)
    client = orbitmq.connect(name)
    until(lambda: sessions(broker) == 0, "the end of the producer")
    for each in receipts:
        assert client.cancel(each)
        assert sessions(client) == 1
    client.close()
    until(lambda: sessions(broker) == 0)
    with pytest.raises(Closed):
        client.cancel(receipts[0])
    client = orbitmq.connect(name)
    assert client.cancel(receipts[0])
    gc.collect()  # what earlier tests have left
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        del client
        gc.collect()
    assert ["Client" in str(each.message) for each in seen if name in str(each.message)] == [True]
    seen.clear()  # a warning keeps its object
    until(lambda: sessions(broker) == 0)


def test_threads_share_a_client(broker: orbitmq.Broker) -> None:
    with broker.producer() as producer:
        receipts = list(producer.send_batch("t", [b"x"] * 200, delay=DAY_S))
    never: list[bool] = []
    with orbitmq.connect(broker.name) as client:
        threads = [
            threading.Thread(target=lambda part: never.extend(map(client.cancel, part)), args=[receipts[n::8]])
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: sessions(client) == 1, "one session, without that of the sends")
    assert never == [True] * 200
    assert broker.delayed() == []


def test_after_a_fork(broker: orbitmq.Broker) -> None:
    """The child has a session of its own, and the parent keeps its."""
    with broker.producer() as producer:
        first, second, third, fourth = producer.send_batch("t", [b"x"] * 4, delay=DAY_S)
    with orbitmq.connect(broker.name) as client:
        assert client.cancel(first)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 0 if client.cancel(second) and client.cancel_batch([third, first]) == [True, True] else 2
                client.close()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert client.cancel(fourth)
    assert broker.delayed() == []


def test_asyncio(broker: orbitmq.Broker) -> None:
    name = broker.name

    async def run() -> None:
        async with orbitmq.aio.connect(name) as client, await client.producer() as producer:
            receipts = await producer.send_batch("t", [b"x"] * 9, delay=DAY_S)
            assert await client.cancel(receipts[0], timeout=WATCHDOG_S, durability="flushed")
            assert await client.cancel_batch(receipts[1:4]) == [True] * 3
            assert all(await asyncio.gather(*(client.cancel(each.id) for each in receipts[4:])))
            with pytest.raises(UsageError):
                await client.cancel("none")
            assert await client.delayed() == []

    asyncio.run(run())
