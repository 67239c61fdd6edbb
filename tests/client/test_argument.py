"""Goal: an argument of a wrong type is refused before anything is done, with an error that names the argument and the value.
Method: each call that looks after a broker, or hands out work, with values of other types, and numbers that no question can
carry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import orbitmq
from orbitmq import errors

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


@pytest.fixture(scope="module")
def broker(work_broker: orbitmq.Broker) -> orbitmq.Broker:
    work_broker.create_topic("orders", queues=1)
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


@pytest.mark.parametrize("seconds", ["5", b"1", [1], 1j, float("nan")], ids=repr)
def test_what_is_no_time(broker: orbitmq.Broker, seconds: Any) -> None:
    with broker.worker("workers", ["orders"]) as worker:
        for call in (lambda: worker.take(1, timeout=seconds), lambda: worker.flush(seconds)):
            with pytest.raises(errors.SettingError, match="timeout="):
                call()
    with pytest.raises(errors.SettingError, match="wait="):
        broker.worker("workers", ["orders"], wait=seconds)


def test_numbers_of_other_libraries_count(broker: orbitmq.Broker) -> None:
    class Number:
        def __index__(self) -> int:
            return 0

    number: Any = Number()
    assert broker.lock_queues("locking", [("orders", number)], "one", lease=1) == [("orders", 0)]
    assert broker.unlock_queues("locking", [("orders", number)], "one") == [("orders", 0)]
    with pytest.raises(errors.OffsetOutOfRange):
        broker.dead_letters("readers").letter(number)
