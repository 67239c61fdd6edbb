"""Goal: every instance of a broadcast group gets every message, and goes on where it was, whoever dies; one consumer at a time
is an instance. Method: real trees, and instances in other processes that are killed."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import orbitmq
from orbitmq import aio
from orbitmq.errors import GroupInUse, GroupNameError, SettingError, UsageError
from orbitmq.store.config import load_offsets
from orbitmq.store.layout import StoreLayout
from tests.actors.test_group_changes import EACH, fill, kill_tree, read
from tests.trees import SMALL, kill, small_broker
from tests.waiting import WATCHDOG_S


def instance(broker: orbitmq.Client, name: str, **settings: str) -> orbitmq.Consumer:
    return broker.consumer("news", ["t"], broadcast=True, instance=name, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path_factory.mktemp("store")) as made:
        fill(made)
        yield made


def test_every_instance_gets_every_message(broker: orbitmq.Broker) -> None:
    """Beside a group of the same name, whose members share the messages."""
    with instance(broker, "a") as a, instance(broker, "b") as b, broker.consumer("news", ["t"]) as shared:
        assert sorted(read(a, 2 * EACH)) == sorted(read(b, 2 * EACH)) == sorted(read(shared, 2 * EACH))
        a.commit()
        shared.commit()
        assert len(a.assignment) == len(b.assignment) == 2
    with instance(broker, "a") as a, instance(broker, "b") as b:
        assert a.poll(0) is None
        assert len(read(b, 2 * EACH)) == 2 * EACH
    assert {"news", "news@a", "news@b"} <= {group.name for group in broker.groups()}
    assert broker.group("news@a").lag_messages == 0 and broker.group("news@b").lag_messages == 2 * EACH


def test_an_instance_is_one_consumer(broker: orbitmq.Broker) -> None:
    with instance(broker, "one") as one:
        with pytest.raises(GroupInUse, match=f"'news' as instance 'one': process {os.getpid()} has joined") as refused:
            instance(broker, "one")
        assert refused.value.pids == [os.getpid()] and one.poll(WATCHDOG_S) is not None
    with instance(broker, "one") as again:
        assert again.poll(WATCHDOG_S) is not None


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"broadcast": True}, "without the name of an instance"),
        ({"broadcast": True, "instance": ""}, "without the name of an instance"),
        ({"instance": "a"}, "only broadcast groups"),
        ({"group": None, "broadcast": True, "instance": "a"}, "without a group"),
    ],
)
def test_settings_that_do_not_fit(broker: orbitmq.Broker, settings: dict[str, object], why: str) -> None:
    with pytest.raises(SettingError, match=why):
        broker.consumer(**{"group": "news", "topics": ["t"], **settings})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a@b", "a b", "ä", "x" * 251])
def test_names_of_instances(broker: orbitmq.Broker, name: str) -> None:
    with pytest.raises(GroupNameError):
        instance(broker, name)
    with pytest.raises(GroupNameError, match=r"not allowed|at most"):
        broker.consumer(f"news@{name}", ["t"])


def test_who_looks_after_them(broker: orbitmq.Broker) -> None:
    """An instance is reset, paused and deleted as a group is."""
    with instance(broker, "kept", start="latest") as kept:
        assert kept.poll(0) is None
        broker.reset_group("news@kept", "-1", topic="t", queue=0)
        assert kept.poll_bodies(1, WATCHDOG_S) == [b"0.%d" % (EACH - 1)]
        with pytest.raises(GroupInUse):
            broker.delete_group("news@kept")
    broker.delete_group("news@kept")
    assert "news@kept" not in {group.name for group in broker.groups()}


def test_in_asyncio(broker: orbitmq.Broker) -> None:
    async def get() -> int:
        async with (
            aio.connect(broker.name) as client,
            await client.consumer("news", ["t"], broadcast=True, instance="async") as consumer,
        ):
            return len(await consumer.poll_batch(1000, WATCHDOG_S))

    assert asyncio.run(get()) > 0


def _serve(name: str, pipe: Connection) -> None:
    """An instance that commits each message, tells which it was, and waits until it may go on."""
    with orbitmq.connect(name) as client, instance(client, "served") as consumer:
        for message in consumer:
            consumer.commit()
            pipe.send((message.queue, message.offset))
            pipe.recv()


@pytest.mark.parametrize("end", ["process", "coordinator", "tree"])
def test_it_goes_on_where_it_was(tmp_path: Path, end: str) -> None:
    """Whoever is killed with SIGKILL. The name of a killed process is free at once."""
    broker = orbitmq.Broker(tmp_path, **SMALL)
    fill(broker)
    try:
        mine, theirs = multiprocessing.Pipe()
        served = multiprocessing.get_context("spawn").Process(target=_serve, args=(broker.name, theirs))
        served.start()
        got = []
        for number in range(EACH):
            if number:
                mine.send(None)
            assert mine.poll(WATCHDOG_S)
            got.append(mine.recv())
        if end == "coordinator":
            kill(broker, "coordinator")
        elif end == "tree":
            kill_tree(broker)
        assert served.pid is not None
        os.kill(served.pid, signal.SIGKILL)
        served.join(WATCHDOG_S)
        if end == "tree":
            broker = orbitmq.Broker(tmp_path, **SMALL)
        with instance(broker, "served") as consumer:
            while len(got) < 2 * EACH:
                message = consumer.poll(WATCHDOG_S)
                assert message is not None
                got.append((message.queue, message.offset))
            assert consumer.poll(0) is None
        assert sorted(got) == [(queue, offset) for queue in range(2) for offset in range(EACH)], "none twice"
    finally:
        broker.close()
    assert ("t", "news@served") in load_offsets(StoreLayout.at(tmp_path))


def test_a_forked_child_is_no_instance(tmp_path: Path) -> None:
    """It would share the instance's messages."""
    with small_broker(tmp_path) as broker:
        fill(broker)
        with instance(broker, "parent") as consumer:
            assert consumer.poll(WATCHDOG_S) is not None
            child = os.fork()
            if not child:
                try:
                    consumer.poll(WATCHDOG_S)
                except UsageError:
                    os._exit(0)
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert len(read(consumer, 2 * EACH - 1)) == 2 * EACH - 1
