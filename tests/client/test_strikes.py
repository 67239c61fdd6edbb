"""Goal: wherever in a call of the client's the exception of a signal handler appears (Ctrl-C), no lock is lost: the next call
works, in this thread and in others. Method: calls struck at one place after the other, see strikes.py."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.client.consumer.consumer import Consumer
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import Fenced
from tests.client.awaitable import awaitable_producer
from tests.client.composed_broker import ComposedBroker
from tests.client.strikes import handler, strike_everywhere
from tests.client.thread_broker import ThreadBroker
from tests.trees import small_broker
from tests.waiting import WATCHDOG_S, until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def _handled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Of finalizers that are struck. pytest would keep their exceptions, and so what they finalize.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    with handler():
        yield


def composed(root: Path) -> ComposedBroker:
    broker = ComposedBroker(root / "store")
    slot = broker.add_topic("t", 2)
    for number in range(100):
        broker.append("t", slot + number % 2, b"%d" % number)
    broker.publish()
    return broker


KEY = ("t", 0)
CALLS: dict[str, Callable[[Consumer], Any]] = {
    "poll": lambda consumer: consumer.poll(0),
    "poll_batch": lambda consumer: consumer.poll_batch(3, 0),
    "poll_bodies": lambda consumer: consumer.poll_bodies(3, 0),
    "a poll that waits": lambda consumer: (consumer.pause(), consumer.poll(0.0001)),
    "wait": lambda consumer: consumer.wait(0),
    "iterate": lambda consumer: next(iter(consumer)),
    "commit": lambda consumer: consumer.commit(),
    "commit offsets": lambda consumer: consumer.commit({KEY: 1}),
    "committed": lambda consumer: consumer.committed(),
    "position": lambda consumer: (consumer.position(), consumer.lag()),
    "seek": lambda consumer: (consumer.seek(*KEY, 1), consumer.seek_to_time(0)),
    "pause": lambda consumer: (consumer.pause([KEY]), consumer.unpause()),
    "settle": lambda consumer: consumer.settle(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("rebalanced", [False, True])
def test_a_consumer(tmp_path: Path, call: str, rebalanced: bool) -> None:
    """rebalanced: each call meets a new assignment, about which callbacks are told."""
    broker = composed(tmp_path)
    consumer = Consumer(broker, "g", ["t"], on_assigned=lambda *_: None, on_revoked=lambda consumer, _: consumer.commit())

    def work() -> None:
        if rebalanced:
            broker.rebalance("g")
        CALLS[call](consumer)

    def check() -> None:
        consumer.unpause()
        consumer.seek(*KEY, 0)
        assert consumer.poll_bodies(100, 0)
        with suppress(Fenced):
            consumer.commit()
        consumer.seek_to_time(0)

    assert strike_everywhere(work, check, step=4)


def test_a_consumer_that_is_closed(tmp_path: Path) -> None:
    """Closing again gives back what the struck call did not."""
    broker = composed(tmp_path)
    made: list[Consumer] = []

    def work() -> None:
        made.append(Consumer(broker, None, ["t"]))
        made[0].poll(0)
        made[0].close()

    def check() -> None:
        if made:
            made[0].close()
            with pytest.raises(orbitmq.errors.Closed):
                made[0].poll(0)
            made.clear()

    assert strike_everywhere(work, check, step=4)


QUESTIONS: dict[str, Callable[[orbitmq.Client], Any]] = {
    "topics": lambda client: client.create_topic("letters", 1),
    "status": lambda client: client.status(),
    "producer": lambda client: client.producer(window=64, message_max=1024).close(),
    "consumer": lambda client: client.consumer("g", ["orders"]).close(),
    "worker": lambda client: client.work_session("w", ["orders"]).close(),
    "finalizer": lambda client: client.consumer(None, ["orders"]).position(),
    "connect": lambda client: orbitmq.connect(client.name).close(),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions(tmp_path: Path, question: str) -> None:
    """Calls of one thread; another one asks afterwards. No session is left behind."""
    with small_broker(tmp_path) as broker, ThreadPoolExecutor(1) as other:
        broker.create_topic("orders", 2)

        def check() -> None:
            assert broker.create_topic("orders", 2).queues == 2
            assert not broker.connection._turns.locked()
            assert other.submit(broker.create_topic, "orders", 2).result(WATCHDOG_S).queues == 2

        assert strike_everywhere(lambda: QUESTIONS[question](broker), check, step=8)
        gc.collect()
        until(lambda: not broker.status().sessions, "the end of all sessions")


CLOSED: dict[str, Callable[[orbitmq.Client], Any]] = {
    "producer": lambda client: client.producer(window=64, message_max=1024),
    "consumer": lambda client: client.consumer("g", ["orders"]),
    "worker": lambda client: client.work_session("w", ["orders"]),
}


@pytest.mark.parametrize("kind", CLOSED)
def test_a_close(tmp_path: Path, kind: str) -> None:
    """Struck, and closed again: it has no session any more, though the program has it."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders", 2)
        kept: list[Any] = []

        def work() -> None:
            made = CLOSED[kind](broker)
            kept.append(made)
            made.close()

        def check() -> None:
            for each in kept[-1:]:
                each.close()
            until(lambda: not broker.status().sessions, "the end of the session", look_ms=0)

        assert strike_everywhere(work, check, step=4)


def test_a_producer(tmp_path: Path) -> None:
    with ThreadBroker(tmp_path) as broker, ThreadPoolExecutor(1) as other:
        broker.topic("orders")
        made: list[Producer] = []

        def work() -> None:
            made.append(Producer(broker, window=64, message_max=1024))
            made[0].send("orders", b"x")
            made[0].send_batch("orders", [b"x"] * 3)
            made[0].flush()

        def check() -> None:
            for producer in made:
                producer.send("orders", b"x")
                other.submit(producer.send, "orders", b"x").result(WATCHDOG_S)
                producer.close()
            made.clear()

        assert strike_everywhere(work, check)


# Python's own: struck between the making of `__aexit__` and its await.
@pytest.mark.filterwarnings("ignore:coroutine 'Timeout.__aexit__' was never awaited:RuntimeWarning")
def test_an_asyncio_producer(tmp_path: Path) -> None:
    """Struck in the middle of its waits for receipts, which a thread shares: the producer works in the next event loop."""
    with ThreadBroker(tmp_path) as broker:
        broker.topic("orders")
        producer = awaitable_producer(broker, window=64, message_max=1024, timeout=WATCHDOG_S)

        async def send() -> None:
            await producer.send("orders", b"x", durability="flushed")

        def check() -> None:
            assert asyncio.run(producer.send("orders", b"x")).queue < 8

        assert strike_everywhere(lambda: asyncio.run(send()), check, step=4)
