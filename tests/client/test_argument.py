"""Goal: an argument of a wrong type is refused before anything is done, with an error that names the argument and the value.
Method: each call that looks after a broker, or hands out work, with values of other types, and numbers that no question can
carry."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq import aio, errors
from tests.trees import indexed, small_broker
from tests.waiting import dead

NO_NAMES: list[Any] = [None, 5, b"orders", ["orders"]]
NO_NUMBERS: list[Any] = ["5", 1.5, True, [1], float("nan"), 2**70]
NO_FLAGS: list[Any] = ["no", 0, 1.0, []]

Call = Callable[[orbitmq.Broker, Any], object]

WITH_GROUP: dict[str, Call] = {
    "group": lambda broker, name: broker.group(name),
    "reset_group": lambda broker, name: broker.reset_group(name, "latest"),
    "delete_group": lambda broker, name: broker.delete_group(name),
    "pause_group": lambda broker, name: broker.pause_group(name),
    "resume_group": lambda broker, name: broker.resume_group(name),
    "lock_queues": lambda broker, name: broker.lock_queues(name, [("orders", 0)], "one"),
    "unlock_queues": lambda broker, name: broker.unlock_queues(name, [("orders", 0)], "one"),
    "work_session": lambda broker, name: broker.work_session(name, ["orders"]),
    "worker": lambda broker, name: broker.worker(name, ["orders"]),
    "dead_letters": lambda broker, name: broker.dead_letters(name),
}
WITH_TOPIC: dict[str, Call] = {
    "topic": lambda broker, name: broker.topic(name),
    "grow_topic": lambda broker, name: broker.grow_topic(name, 2),
    "set_permissions": lambda broker, name: broker.set_permissions(name, read=True, write=True),
    "purge_topic": lambda broker, name: broker.purge_topic(name),
    "delete_topic": lambda broker, name: broker.delete_topic(name),
    "lock_queues": lambda broker, name: broker.lock_queues("locking", [(name, 0)], "one"),
    "worker": lambda broker, name: broker.worker("workers", [name]),
}
WITH_NUMBER: dict[str, tuple[str, Call]] = {
    "grow_topic": ("queues", lambda broker, number: broker.grow_topic("orders", number)),
    "purge_topic": ("queue", lambda broker, number: broker.purge_topic("orders", queue=number)),
    "reset_group": ("queue", lambda broker, number: broker.reset_group("readers", "latest", topic="orders", queue=number)),
    "lock_queues": ("queue", lambda broker, number: broker.lock_queues("locking", [("orders", number)], "one")),
    "work_session": ("max_tries", lambda broker, number: broker.work_session("workers", ["orders"], max_tries=number)),
    "delayed": ("most", lambda broker, number: broker.delayed(most=number)),
    "list": ("most", lambda broker, number: broker.dead_letters("readers").list(most=number)),
    "letter": ("offset", lambda broker, number: broker.dead_letters("readers").letter(number)),
    "redrive": ("offset", lambda broker, number: broker.dead_letters("readers").redrive([number])),
}
WITH_FLAG: dict[str, tuple[str, Call]] = {
    "read": ("read", lambda broker, flag: broker.set_permissions("orders", read=flag, write=True)),
    "write": ("write", lambda broker, flag: broker.set_permissions("orders", read=True, write=flag)),
    "purge_topic": ("dry_run", lambda broker, flag: broker.purge_topic("orders", dry_run=flag)),
    "reset_group": ("dry_run", lambda broker, flag: broker.reset_group("readers", "latest", topic="orders", dry_run=flag)),
    "purge": ("dry_run", lambda broker, flag: broker.dead_letters("readers").purge(dry_run=flag)),
    "list": ("redriven", lambda broker, flag: broker.dead_letters("readers").list(redriven=flag)),
    "work_session": ("key_ordered", lambda broker, flag: broker.work_session("workers", ["orders"], key_ordered=flag)),
    "extend": ("extend", lambda broker, flag: broker.worker("workers", ["orders"], extend=flag)),
    "signals": ("signals", lambda broker, flag: broker.worker("workers", ["orders"], signals=flag)),
}
NO_TIMES: list[Any] = ["5", b"1", [1], 1j, float("nan"), True, Decimal(5), timedelta(1)]
LONG_TIMES: list[Any] = [10**400, math.inf, 1e300]


def reading(read: Callable[[orbitmq.Consumer, Any], object]) -> Call:
    def call(broker: orbitmq.Broker, seconds: Any) -> None:
        # What has been read already is handed out without a look at the time.
        start: Any = "earliest" if seconds in LONG_TIMES else "latest"
        with broker.consumer(topics=["orders"], start=start) as consumer:
            assert read(consumer, seconds)

    return call


def working(work: Callable[[orbitmq.Worker, Any], object]) -> Call:
    def call(broker: orbitmq.Broker, seconds: Any) -> None:
        with broker.worker("workers", ["orders"]) as worker:
            work(worker, seconds)

    return call


def in_a_loop(use: Callable[[aio.AsyncClient, Any], Coroutine[Any, Any, None]]) -> Call:
    def call(broker: orbitmq.Broker, seconds: Any) -> None:
        async def main() -> None:
            async with aio.connect(broker.name) as client:
                await use(client, seconds)

        asyncio.run(main())

    return call


async def poll_async(client: aio.AsyncClient, seconds: Any) -> None:
    start: Any = "earliest" if seconds in LONG_TIMES else "latest"
    async with await client.consumer(topics=["orders"], start=start) as consumer:
        assert await consumer.wait(seconds) and await consumer.poll(seconds)


async def take_async(client: aio.AsyncClient, seconds: Any) -> None:
    async with await client.worker("workers", ["orders"]) as worker:
        assert await worker.take(1, timeout=seconds)


async def flush_async(client: aio.AsyncClient, seconds: Any) -> None:
    async with await client.producer() as producer:
        await producer.flush(seconds)


def flush(broker: orbitmq.Broker, seconds: Any) -> None:
    with broker.producer() as producer:
        producer.flush(seconds)


def settle(broker: orbitmq.Broker, seconds: Any) -> None:
    with broker.work_session("workers", ["orders"]) as session:
        assert session.take(1, seconds)
        session.settled(seconds)


# What is asked for is there at once.
WITH_TIME: dict[str, tuple[str, Call]] = {
    "connect": ("timeout", lambda broker, seconds: orbitmq.connect(broker.name, timeout=seconds).close()),
    "wait for a broker": ("wait", lambda broker, seconds: orbitmq.connect(broker.name, wait=seconds).close()),
    "producer": ("timeout", lambda broker, seconds: broker.producer(timeout=seconds).close()),
    "flush": ("timeout", flush),
    "poll": ("timeout", reading(lambda consumer, seconds: consumer.poll(seconds))),
    "poll_batch": ("timeout", reading(lambda consumer, seconds: consumer.poll_batch(9, seconds))),
    "wait": ("timeout", reading(lambda consumer, seconds: consumer.wait(seconds))),
    "take": ("timeout", working(lambda worker, seconds: worker.take(1, timeout=seconds))),
    "flush a worker": ("timeout", working(lambda worker, seconds: worker.flush(seconds))),
    "close a worker": ("timeout", working(lambda worker, seconds: worker.close(seconds))),
    "worker": ("wait", lambda broker, seconds: broker.worker("workers", ["orders"], wait=seconds).close()),
    "settled": ("timeout", settle),
    "cancel": ("timeout", lambda broker, seconds: broker.cancel_batch([], timeout=seconds)),
    "take in a loop": ("timeout", in_a_loop(take_async)),
    "poll in a loop": ("timeout", in_a_loop(poll_async)),
    "flush in a loop": ("timeout", in_a_loop(flush_async)),
}


@pytest.fixture(scope="module")
def broker(work_broker: orbitmq.Broker) -> orbitmq.Broker:
    work_broker.create_topic("orders", queues=1)
    work_broker.create_topic("sent", queues=1)
    with work_broker.producer() as producer, work_broker.consumer("readers", ["orders"]) as consumer:
        producer.send("orders", b"kept")
        consumer.poll(10)
        consumer.commit()
    return work_broker


@pytest.fixture(autouse=True)
def untouched(broker: orbitmq.Broker) -> Any:
    before = broker.topic("orders"), broker.group("readers").queues
    yield
    assert (broker.topic("orders"), broker.group("readers").queues) == before


@pytest.mark.parametrize("name", NO_NAMES, ids=repr)
@pytest.mark.parametrize(
    ("calls", "call", "error", "what"),
    [
        *((WITH_GROUP, call, errors.GroupNameError, "group") for call in WITH_GROUP),
        *((WITH_TOPIC, call, errors.TopicNameError, "topic") for call in WITH_TOPIC),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_name(
    broker: orbitmq.Broker, calls: Any, call: str, error: type[errors.OrbitError], what: str, name: object
) -> None:
    with pytest.raises(error, match="a name is a str") as caught:
        calls[call](broker, name)
    assert getattr(caught.value, what) == name


@pytest.mark.parametrize("call", sorted(WITH_TOPIC.keys() - {"worker", "lock_queues"}))
def test_a_name_that_is_no_valid_text(broker: orbitmq.Broker, call: str) -> None:
    with pytest.raises((errors.UnknownTopic, errors.UsageError)):
        WITH_TOPIC[call](broker, "\ud800")


@pytest.mark.parametrize("number", NO_NUMBERS, ids=lambda number: repr(number)[:8])
@pytest.mark.parametrize("call", WITH_NUMBER)
def test_what_is_no_number(broker: orbitmq.Broker, call: str, number: object) -> None:
    name, ask = WITH_NUMBER[call]
    with pytest.raises(errors.SettingError, match=f"{name}=.*: it is a whole number") as caught:
        ask(broker, number)
    assert caught.value.setting == name


@pytest.mark.parametrize("flag", NO_FLAGS, ids=repr)
@pytest.mark.parametrize("call", WITH_FLAG)
def test_what_is_neither_true_nor_false(broker: orbitmq.Broker, call: str, flag: object) -> None:
    name, ask = WITH_FLAG[call]
    with pytest.raises(errors.SettingError, match=f"{name}=.*: it is True or False"):
        ask(broker, flag)


@pytest.mark.parametrize("seconds", NO_TIMES, ids=repr)
@pytest.mark.parametrize("call", WITH_TIME)
def test_what_is_no_time(broker: orbitmq.Broker, call: str, seconds: object) -> None:
    setting, ask = WITH_TIME[call]
    with pytest.raises(errors.SettingError, match="a number of seconds") as caught:
        ask(broker, seconds)
    assert caught.value.setting == setting


@pytest.mark.parametrize("seconds", LONG_TIMES, ids=lambda value: f"{value!r:.8}")
@pytest.mark.parametrize("call", WITH_TIME)
def test_a_time_longer_than_any_clock(broker: orbitmq.Broker, call: str, seconds: object) -> None:
    """Each call finds at once what it waits for."""
    WITH_TIME[call][1](broker, seconds)


@pytest.mark.parametrize("seconds", NO_TIMES, ids=repr)
def test_what_is_no_time_sends_nothing(broker: orbitmq.Broker, seconds: Any) -> None:
    """Goal: who corrects the time sends again, or closes again, and the message is not there twice."""

    async def send(client: aio.AsyncClient, seconds: Any) -> None:
        async with await client.producer() as producer:
            for call in (
                lambda: producer.send("sent", b"", timeout=seconds),
                lambda: producer.send_async("sent", b"", timeout=seconds),
                lambda: producer.send_batch("sent", [b""], timeout=seconds),
                lambda: producer.close(seconds),
            ):
                with pytest.raises(errors.SettingError, match="timeout="):
                    await call()  # type: ignore[no-untyped-call]
            assert not producer.closed

    in_a_loop(send)(broker, seconds)
    with broker.producer() as producer:
        with pytest.raises(errors.SettingError, match="timeout="):
            producer.close(seconds)
        assert not producer.closed
    with broker.worker("workers", ["orders"]) as worker:
        with pytest.raises(errors.SettingError, match="timeout="):
            worker.close(seconds)
        assert not worker.closed
    indexed(broker)
    assert [queue.max_offset for queue in broker.topic("sent").queues] == [0]


@pytest.mark.parametrize("seconds", LONG_TIMES, ids=lambda value: f"{value!r:.8}")
def test_a_broker_may_take_as_long_as_it_likes_to_stop(tmp_path: Path, seconds: Any) -> None:
    with small_broker(tmp_path) as broker:
        with orbitmq.connect(broker.name, timeout=seconds) as client:
            client.stop_broker()
        assert dead(broker.pid)


def test_numbers_of_other_libraries_count(broker: orbitmq.Broker) -> None:
    class Number:
        def __index__(self) -> int:
            return 0

    number: Any = Number()
    assert broker.lock_queues("locking", [("orders", number)], "one", lease=600) == [("orders", 0)]
    assert broker.unlock_queues("locking", [("orders", number)], "one") == [("orders", 0)]
    with pytest.raises(errors.OffsetOutOfRange):
        broker.dead_letters("readers").letter(number)
