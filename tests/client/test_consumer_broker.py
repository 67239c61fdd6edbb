"""Goal: consumers get what producers sent, through real trees, their restarts, and the deaths of members. Method: small
brokers, members as threads and processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import orbitmq
import orbitmq.aio
from orbitmq.errors import BrokerStopped, Closed, UsageError
from tests.trees import small_broker
from tests.waiting import WATCHDOG_S, until


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path / "store") as running:
        yield running


def test_all_that_was_sent_arrives_once(broker: orbitmq.Broker) -> None:
    broker.create_topic("t", queues=4)
    producer = broker.producer(message_max=4096)
    bodies = [b"%d" % number + b"." * (number % 400) for number in range(5000)]
    receipts = producer.send_batch("t", bodies, tags="even", keys=[f"k{number}" for number in range(5000)])
    consumer = broker.consumer("g", topics=["t"])
    got = {}
    while len(got) < 5000:
        for message in consumer.poll_batch(700, WATCHDOG_S):
            assert (message.topic, message.tags) == ("t", "even")
            assert (message.queue, message.offset) not in got
            got[message.queue, message.offset] = bytes(message)
    assert got == {(receipt.queue, receipt.offset): body for receipt, body in zip(receipts, bodies, strict=True)}
    consumer.commit()
    assert sum(consumer.committed().values()) == 5000
    assert set(consumer.lag().values()) == {0}


def test_a_client_closed_over_a_poll_gives_the_session_back(broker: orbitmq.Broker) -> None:
    """Goal: no session stays open if a client is closed while another thread still uses what it made. Method: that thread
    waits, and lets the session go only after the connection was closed."""
    broker.create_topic("t")
    client = orbitmq.connect(broker.name)
    consumer = client.consumer("g", ["t"])
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(consumer.poll)
        until(consumer._turns.locked, "the poll")
        client.close()
        assert isinstance(waiting.exception(WATCHDOG_S), Closed)
    until(lambda: not broker.status().sessions, "the session to be given back")


def test_a_waiting_consumer_is_woken(broker: orbitmq.Broker) -> None:
    """Alone on its queue, and one of several on it."""
    broker.create_topic("t", queues=2)
    producer = broker.producer(message_max=4096)
    for audience in (1, 3):
        consumers = [broker.consumer(None, topics=["t"], start="latest") for _ in range(audience)]
        with ThreadPoolExecutor(audience) as threads:
            waits = [threads.submit(consumer.poll_bodies, 1, WATCHDOG_S) for consumer in consumers]
            producer.send("t", b"news", queue=1)
            assert [wait.result(WATCHDOG_S) for wait in waits] == [[b"news"]] * audience
        for consumer in consumers:
            consumer.close()


def test_a_group_outlives_the_tree(tmp_path: Path) -> None:
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("t", queues=2)
        broker.producer(message_max=4096).send_batch("t", [b"%d" % number for number in range(100)])
        consumer = broker.consumer("g", topics=["t"])
        read = 0
        while read < 60:
            read += len(consumer.poll_bodies(60 - read, WATCHDOG_S))
        consumer.commit()
    with pytest.raises(Closed):
        consumer.poll(0)
    with small_broker(tmp_path / "store") as broker:
        consumer = broker.consumer("g", topics=["t"])
        rest: list[bytes] = []
        while len(rest) < 40:
            rest += consumer.poll_bodies(100, WATCHDOG_S)
        assert consumer.poll(0) is None and len(rest) == 40


def test_the_trees_death_ends_a_wait(tmp_path: Path) -> None:
    """SIGKILL for the supervisor; what was delivered stays readable, and reading continues with a successor under the name."""
    with small_broker(tmp_path / "store", name=f"dies-{os.getpid()}") as broker:
        broker.create_topic("t", queues=1)
        broker.producer(message_max=4096).send("t", b"before", durability="flushed")
        with orbitmq.connect(broker.name) as client:
            consumer = client.consumer(None, topics=["t"])
            message = consumer.poll(WATCHDOG_S)
            assert message is not None
            with ThreadPoolExecutor(1) as thread:
                wait = thread.submit(consumer.poll)
                os.kill(broker.pid, signal.SIGKILL)
                with pytest.raises(BrokerStopped):
                    wait.result(WATCHDOG_S)
            assert bytes(message) == b"before"
            with small_broker(tmp_path / "store", name=broker.name) as successor:
                successor.producer(message_max=4096).send("t", b"after")
                found = consumer.poll(WATCHDOG_S)
                assert found is not None and bytes(found) == b"after"


def member(name: str, pipe: Connection) -> None:
    """A process of the group: says what it reads, commits each batch."""
    with orbitmq.connect(name) as client:
        consumer = client.consumer("g", topics=["t"])
        while len(consumer.assignment) < 2:
            consumer.wait(1.0)
        pipe.send(2)
        while True:
            bodies = consumer.poll_bodies(10)
            pipe.send(bodies)
            consumer.commit()


def test_a_dead_members_queues_are_taken_over(broker: orbitmq.Broker) -> None:
    """Killed with SIGKILL while it has half of the queues. Nothing is lost, and only what it had not committed comes twice."""
    broker.create_topic("t", queues=4)
    producer = broker.producer(message_max=4096)
    mine = broker.consumer("g", topics=["t"])
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=member, args=(broker.name, there))
    process.start()
    until(lambda: mine.settle() or len(mine.assignment) == 2, "the other member's share")
    assert here.poll(WATCHDOG_S) and here.recv() == 2
    bodies = [b"%d" % number for number in range(400)]
    producer.send_batch("t", bodies[:200])
    got: list[bytes] = []
    while len(got) < 100:
        got += mine.poll_bodies(1000, WATCHDOG_S)
    assert len(mine.assignment) == 2
    mine.commit()
    assert here.poll(WATCHDOG_S)
    theirs: list[bytes] = here.recv()
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join(WATCHDOG_S)
    producer.send_batch("t", bodies[200:])
    until(lambda: len(mine.lag()) == 4, "the takeover")
    mine.seek_to_time(0)
    again: list[bytes] = []
    while set(again) != set(bodies):
        again += mine.poll_bodies(1000, WATCHDOG_S)
    assert set(theirs) <= set(bodies) and sorted(again) == sorted(bodies)


def test_look_ups(broker: orbitmq.Broker) -> None:
    broker.create_topic("t", queues=2)
    receipts = [broker.producer(message_max=4096).send("t", b"%d" % number, keys=["k", f"k{number}"]) for number in range(5)]
    consumer = broker.consumer(None, topics=["t"])
    read = 0
    while read < 5:
        read += len(consumer.poll_batch(10, WATCHDOG_S))
    assert [bytes(broker.message(receipt.id)) for receipt in receipts] == [b"0", b"1", b"2", b"3", b"4"]
    assert [bytes(message) for message in broker.find("t", "k")] == [b"4", b"3", b"2", b"1", b"0"]
    assert [message.id for message in broker.find("t", "k3")] == [receipts[3].id]
    assert broker.find("t", "other") == []
    with pytest.raises(UsageError):
        broker.message("F" * 32)


def test_asyncio(broker: orbitmq.Broker) -> None:
    broker.create_topic("t", queues=1)

    async def run() -> list[bytes]:
        async with orbitmq.aio.connect(broker.name) as client:
            consumer = await client.consumer("g", topics=["t"])
            waiting = asyncio.create_task(consumer.poll())
            producer = await client.producer(message_max=4096)
            await producer.send("t", b"first")
            first = await asyncio.wait_for(waiting, WATCHDOG_S)
            assert first is not None
            await producer.send("t", b"second")
            rest = await consumer.poll_bodies(10, WATCHDOG_S)
            await consumer.commit()
            return [bytes(first), *rest]

    assert asyncio.run(run()) == [b"first", b"second"]
