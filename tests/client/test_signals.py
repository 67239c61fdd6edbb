"""Goal: a signal is handled in the middle of every wait of both clients, even if it interrupts no system call, because it came
just before a sleep, or because the kernel gave it to another thread. Method: the main thread blocks the signal, so that another
thread gets it every time. Python's handler, which belongs to the main thread, can run only if the wait looks for it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.consumer.consumer import Consumer
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import Closed, UsageError
from tests.client.composed_broker import ComposedBroker
from tests.client.thread_broker import ThreadBroker
from tests.waiting import until


class Rung(Exception):
    pass


class Elsewhere:
    """Another thread, which gets the signal once `waiting` says so."""

    def __init__(self) -> None:
        self.waiting: Callable[[], object] = lambda: True
        self._go = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()  # with the signal unblocked

    def _run(self) -> None:
        self._go.wait(60)
        while not self.waiting():
            pass
        os.kill(os.getpid(), signal.SIGUSR1)

    def rings_once(self, waiting: Callable[[], object]) -> None:
        self.waiting = waiting
        self._go.set()


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    """The handler raises Rung."""

    def ring(*_: object) -> None:
        raise Rung

    before = signal.signal(signal.SIGUSR1, ring)
    other = Elsewhere()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    yield other
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    signal.signal(signal.SIGUSR1, before)


def waits(consumer: Consumer) -> bool:
    """True if it waits in C now."""
    try:
        consumer._reader.ready()
    except UsageError:
        return True
    return False


@pytest.mark.parametrize("call", ["poll", "poll_batch", "poll_bodies", "wait", "iterate"])
def test_a_consumer_that_waits(
    tmp_path: Path, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Goal: handled within the wait in C, not when it ends by itself. Method: a wait that ends by itself, as it does every few
    seconds, looks for new queues; the test notes that."""
    broker = ComposedBroker(tmp_path / "store")
    slot = broker.add_topic("t", 1)
    consumer = Consumer(broker, None, ["t"])
    looks: list[None] = []
    monkeypatch.setattr(consumer, "_refresh", lambda: looks.append(None))
    consumer._refresh_at = float("inf")
    calls: dict[str, Callable[[], Any]] = {"iterate": lambda: next(iter(consumer))}
    until(lambda: (consumer.poll(0.001), looks)[1], "the first wait, which does so at once")
    looks.clear()
    elsewhere.rings_once(lambda: waits(consumer))
    with pytest.raises(Rung):
        (calls.get(call) or getattr(consumer, call))()
    assert looks == []
    broker.append("t", slot, b"x")
    broker.publish()
    assert consumer.poll_bodies(10) == [b"x"]


def sends(producer: Producer) -> dict[str, Callable[[], Any]]:
    """All calls of a producer that wait; the first four find room."""
    return {
        "receipt": lambda: producer.send("orders", b"x", timeout=3600),
        "disk": lambda: producer.send("orders", b"x", timeout=3600, durability="flushed"),
        "pending": lambda: producer.send_async("orders", b"x").result(),
        "batch": lambda: producer.send_batch("orders", [b"x"] * 3, timeout=3600),
        "room": lambda: [producer.send_oneway("orders", b"x", timeout=3600) for _ in range(9)],
        "room for a batch": lambda: producer.send_batch("orders", [b"x"] * 9, timeout=3600),
        "flush": lambda: (producer.send_oneway("orders", b"x"), producer.flush(3600)),
    }


@pytest.mark.parametrize("call", ["receipt", "disk", "pending", "batch", "room", "room for a batch", "flush"])
def test_a_producer_that_waits(tmp_path: Path, elsewhere: Elsewhere, call: str) -> None:
    with ThreadBroker(tmp_path) as broker:
        broker.topic("orders")
        with Producer(broker, window=4) as producer:
            broker.stall_now()
            elsewhere.rings_once(lambda: producer.in_flight)
            with pytest.raises(Rung):
                sends(producer)[call]()
            broker.resume()
            producer.flush(30)
            producer.send("orders", b"after", timeout=240)


def test_a_batch_that_always_finds_room(tmp_path: Path, elsewhere: Elsewhere) -> None:
    """Goal: one call with a million messages can be ended while the broker keeps up with it."""
    with ThreadBroker(tmp_path) as broker:
        broker.topic("orders")
        with Producer(broker, window=64) as producer:
            elsewhere.rings_once(lambda: producer.in_flight)
            with pytest.raises(Rung) as caught:
                producer.send_batch("orders", [b"x"] * 1_000_000, timeout=3600)
            sent: int = caught.value.sent  # type: ignore[attr-defined]
            assert 0 < sent < 1_000_000
            assert len(caught.value.pending.result(30)) == sent  # type: ignore[attr-defined]


def test_a_handler_that_closes(tmp_path: Path, elsewhere: Elsewhere) -> None:
    """Goal: a handler may close the object that the main thread waits with: the wait ends with Closed."""
    broker = ComposedBroker(tmp_path / "store")
    broker.add_topic("t", 1)
    consumer = Consumer(broker, None, ["t"])
    signal.signal(signal.SIGUSR1, lambda *_: consumer.close())
    elsewhere.rings_once(lambda: waits(consumer))
    with pytest.raises(Closed):
        consumer.poll()
    assert broker.closed == [0]
