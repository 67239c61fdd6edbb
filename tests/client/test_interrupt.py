"""Goal: an interruption ends one wait, with an error of its own, and loses nothing; iteration and polls of two threads exclude
each other. Method: a composed broker in this process; waits that must end have a watchdog around them."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from orbitmq.client.consumer.consumer import Consumer
from orbitmq.errors import Interrupted, UsageError
from tests.client.composed_broker import ComposedBroker
from tests.client.test_consumer import fill, finish, in_thread


@pytest.fixture
def broker(tmp_path: Path) -> ComposedBroker:
    return ComposedBroker(tmp_path / "store")


@pytest.mark.parametrize("timeout", [0, 1.0, 3600.0, None])
def test_one_wait_ends(broker: ComposedBroker, timeout: float | None) -> None:
    """Goal: poll, poll_batch and wait end alike, once each. Method: the interruption comes before the wait."""
    broker.add_topic("t", 1)
    consumer = Consumer(broker, None, ["t"])
    for call in (consumer.poll, lambda timeout: consumer.poll_batch(10, timeout), consumer.wait):
        consumer.interrupt()
        with pytest.raises(Interrupted):
            call(timeout)
        assert not call(0), "one wait, not all later ones"


def test_a_wait_of_another_thread_ends(broker: ComposedBroker) -> None:
    """Goal: whenever the interruption comes, the poll ends and the next one gets what is there. Method: many rounds, without
    knowing how far the other thread is."""
    slot = broker.add_topic("t", 1)
    consumer = Consumer(broker, None, ["t"])
    for number in range(200):
        thread, results = in_thread(consumer.poll)
        if number % 2:
            while not consumer._turns.locked() and thread.is_alive():
                pass
        consumer.interrupt()
        finish(thread)
        assert isinstance(results[0], Interrupted)
        broker.append("t", slot, b"%d" % number)
        broker.publish()
        message = consumer.poll(0)
        assert message is not None and bytes(message) == b"%d" % number


def test_messages_come_first(broker: ComposedBroker) -> None:
    fill(broker, "t", 1, 3)
    consumer = Consumer(broker, None, ["t"])
    consumer.interrupt()
    assert len(consumer.poll_bodies(10)) == 3
    with pytest.raises(Interrupted):
        consumer.poll_bodies(10)


def test_an_interruption_can_be_taken_back(broker: ComposedBroker) -> None:
    broker.add_topic("t", 1)
    consumer = Consumer(broker, None, ["t"])
    consumer.interrupt()
    consumer.resume()
    assert consumer.poll(0) is None
    assert consumer.poll(0.01) is None


def test_an_interruption_outlives_a_session(broker: ComposedBroker) -> None:
    """Goal: an interruption while the consumer has no session ends the first wait of the next one. Method: the session is
    lost."""
    broker.add_topic("t", 1)
    consumer = Consumer(broker, None, ["t"])
    consumer._stale = True
    consumer.interrupt()
    with pytest.raises(Interrupted):
        consumer.poll()
    assert broker.opened == 2


def test_a_signal_handler_may_interrupt(broker: ComposedBroker) -> None:
    broker.add_topic("t", 1)
    consumer = Consumer(broker, None, ["t"])
    before = signal.signal(signal.SIGALRM, lambda *_: consumer.interrupt())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Interrupted):
            consumer.poll()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert consumer.poll(0) is None


def test_iteration_and_a_poll_exclude_each_other(broker: ComposedBroker) -> None:
    """Goal: while one thread polls, another one's iteration is refused, whatever it had fetched. Method: the consumer's lock is
    held, as by a thread in the middle of a call."""
    fill(broker, "t", 1, 10)
    consumer = Consumer(broker, None, ["t"])
    iteration = iter(consumer)
    assert bytes(next(iteration)) == b"0.0"
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with consumer._turns:
            held.set()
            done.wait(60)

    thread, _ = in_thread(hold)
    held.wait(60)
    with pytest.raises(UsageError):
        next(iteration)
    done.set()
    finish(thread)
    assert [bytes(message) for message in consumer.poll_batch(100)] == [b"0.%d" % n for n in range(1, 10)]


def test_iteration_ends_when_another_thread_closes(broker: ComposedBroker) -> None:
    """Goal: `for message in consumer` ends with close, even between two messages that were fetched together."""
    fill(broker, "t", 1, 10)
    consumer = Consumer(broker, None, ["t"])
    got = 0
    for _ in consumer:
        got += 1
        if got == 3:
            thread, _results = in_thread(consumer.close)
            finish(thread)
    assert got == 3 and broker.closed == [0]
