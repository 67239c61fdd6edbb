"""Goal: whoever hangs or dies while a message is cancelled, nobody is told what is not true, and repeating is safe. Method: a
real broker, whose processes are stopped and killed, and a broker's memory that says what cannot be brought about
(client/delay/cancel.py, client/delay/cancel_producer.py)."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.client.admin.status import read_positions
from orbitmq.client.delay import cancel
from orbitmq.errors import (
    BrokerNotRunning,
    BrokerStopped,
    Closed,
    Full,
    TimedOut,
)
from orbitmq.native._core import lib
from tests.client.delayed_view import DAY_S, TIMER, comes, stored
from tests.trees import kill, small_broker, stopped
from tests.waiting import WATCHDOG_S, until


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path / "store") as running:
        running.create_topic("t", 2)
        yield running


@pytest.mark.parametrize("actor", ["scheduler", "reput", "writer"])
def test_the_time_is_over(broker: orbitmq.Broker, actor: str) -> None:
    """Nobody answers: it is an error that does not say too much, and repeating is safe."""
    with broker.producer() as producer:
        receipts = producer.send_batch("t", [b"x"] * 3, delay=DAY_S)
        assert broker.cancel(receipts[0])
        with (
            stopped(broker, actor),
            pytest.raises(TimedOut, match=f"{receipts[1].id}.*may be cancelled or not; repeating is safe"),
        ):
            broker.cancel(receipts[1], timeout=0.05)
        if actor == "reput":
            with stopped(broker, actor):
                late = producer.send("t", b"x", delay=DAY_S)
                for handle in (late, f"{TIMER}/0@{late.offset}"):
                    with pytest.raises(TimedOut, match="the queues are behind the log"):
                        broker.cancel(handle, timeout=0.05)
            assert broker.cancel(late)
    assert broker.cancel_batch(receipts) == [True] * 3


def in_a_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """What the work returns or raises."""
    told: list[object] = []

    def run() -> None:
        try:
            told.append(work())
        except BaseException as error:
            told.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, told


@pytest.mark.parametrize("end", ["client", "broker"])
def test_an_end_meanwhile(tmp_path: Path, end: str) -> None:
    """Somebody waits for an answer, and the client is closed, or the broker dies."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 1)
        with broker.producer() as producer:
            first, second = producer.send_batch("t", [b"x"] * 2, delay=DAY_S)
        client = orbitmq.connect(broker.name)
        assert client.cancel(first)
        before = stored(broker)
        with stopped(broker, "scheduler"):
            thread, told = in_a_thread(partial(client.cancel, second, timeout=WATCHDOG_S))
            until(lambda: stored(broker) > before, "the record that cancels it")
            if end == "client":
                client.close()
            else:
                os.kill(broker.pid, signal.SIGKILL)
            thread.join()
        assert isinstance(told[0], Closed if end == "client" else BrokerStopped)
        assert "repeating is safe" in str(told[0])
        if end == "broker":
            with pytest.raises((BrokerStopped, BrokerNotRunning)):
                client.cancel(second)
            client.close()
    with small_broker(tmp_path) as broker:
        assert broker.cancel(second) and broker.cancel(first)
        assert broker.delayed() == []


def test_a_task_that_is_cancelled(broker: orbitmq.Broker) -> None:
    """Its thread does not go on waiting for an answer that nobody wants."""
    with broker.producer() as producer:
        receipt = producer.send("t", b"x", delay=DAY_S)

    async def run() -> None:
        async with orbitmq.aio.connect(broker.name) as client:
            task = asyncio.create_task(client.cancel(receipt, timeout=10 * WATCHDOG_S))
            await asyncio.to_thread(until, lambda: stored(broker) == 2, "the record that cancels it")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with stopped(broker, "scheduler"):
        asyncio.run(run())  # which waits for its threads
    assert broker.cancel(receipt)


@pytest.mark.parametrize("victim", ["scheduler", "reput", "writer", "handler 0"])
def test_deaths(broker: orbitmq.Broker, victim: str) -> None:
    """Processes of the broker are killed again and again: each answer stands."""
    with broker.producer() as producer:
        receipts = producer.send_batch("t", [b"%d" % n for n in range(200)], delay=DAY_S)
    thread, told = in_a_thread(lambda: [broker.cancel(each, timeout=WATCHDOG_S) for each in receipts[::2]])
    for _ in range(3):
        kill(broker, victim)
    thread.join()
    assert told == [[True] * 100]
    assert [int(each.body) for each in broker.delayed()] == list(range(1, 200, 2))
    assert not any(map(int, [stored(broker, "t")]))


@pytest.mark.parametrize("point", ["cancel_sending", "cancel_sent"])
def test_the_caller_is_killed(broker: orbitmq.Broker, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """Before it has sent anything, or before it knows what became of that: the next one repeats the call."""
    with broker.producer() as producer:
        first, second = producer.send_batch("t", [b"x"] * 2, delay=DAY_S)
    strike: Any = lambda name: name == point and os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
    pid = os.fork()
    if pid == 0:
        try:
            monkeypatch.setattr(cancel, "crash_point", strike)
            with orbitmq.connect(broker.name) as client:
                client.cancel(first)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    if point == "cancel_sent":
        until(lambda: len(broker.delayed()) == 1, "the record of the killed one")
    else:
        assert len(broker.delayed()) == 2
    assert broker.cancel_batch([first, second]) == [True, True]


class Forgetful:
    """The broker's memory of what became of cancels, which has lost some."""

    def __init__(self, outcome: int) -> None:
        self.outcome = outcome
        self.asked = 0

    def __call__(self, attached: Any, offset: int) -> int:
        self.asked += 1
        decided = int(lib.delay_cancel_outcome(attached.control, offset))
        return self.outcome if decided != lib.CANCEL_OPEN else decided


def test_an_outcome_that_is_forgotten(broker: orbitmq.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log tells: a message whose time lies ahead, and that is not there, was cancelled."""
    forgetful = Forgetful(lib.CANCEL_FORGOTTEN)
    monkeypatch.setattr(cancel, "outcome_of", forgetful)
    with broker.producer() as producer:
        receipt = producer.send("t", b"x", delay=DAY_S)
        assert broker.cancel(receipt) and forgetful.asked


def test_an_outcome_that_is_forgotten_of_one_that_came(broker: orbitmq.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time comes between the look at the clock and the cancel; here the clock of the caller is behind."""
    monkeypatch.setattr(cancel, "outcome_of", Forgetful(lib.CANCEL_FORGOTTEN))
    with broker.producer() as producer:
        receipt = producer.send("t", b"x", delay=0.001, queue=1)
        came = comes(broker, b"x")
        monkeypatch.setattr(cancel, "_now_ms", lambda: 0)
        assert came == [b"x"] and broker.cancel(receipt) is False


def test_a_clock_that_was_set_back(broker: orbitmq.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker says that it is too late, and the clock says that the time lies ahead: the message has come."""
    with broker.producer() as producer:
        receipt = producer.send("t", b"x", delay=0.001, queue=1)
        comes(broker, b"x")
    before = stored(broker)
    monkeypatch.setattr(cancel, "_now_ms", lambda: 0)
    assert broker.cancel(receipt) is False
    assert stored(broker) == before + 1


def test_nobody_knows(broker: orbitmq.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was cancelled, and that was forgotten until its time came."""
    monkeypatch.setattr(cancel, "outcome_of", Forgetful(lib.CANCEL_FORGOTTEN))
    with broker.producer() as producer:
        receipt = producer.send("t", b"x", delay=DAY_S)
        timeout, told = 0.05, ""
        while "nobody knows whether it comes" not in told:
            assert timeout < WATCHDOG_S, told
            monkeypatch.setattr(cancel, "_now_ms", partial(next, iter([0]), 1 << 62))
            with pytest.raises(TimedOut) as raised:
                broker.cancel(receipt, timeout=timeout)
            told = str(raised.value)
            timeout *= 2  # on a slow machine the time is over before that is known


def test_too_many_between(broker: orbitmq.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancel, "outcome_of", Forgetful(lib.CANCEL_REFUSED))
    with broker.producer() as producer:
        receipt = producer.send("t", b"x", delay=DAY_S)
        with pytest.raises(Full, match="too many messages are stored between"):
            broker.cancel(receipt)


def test_a_broker_that_was_started_again_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the message and the send another broker comes under the name: nothing is sent to it."""
    with small_broker(tmp_path / "one", name="same") as broker:
        broker.create_topic("t", 1)
        with broker.producer() as producer:
            receipt = producer.send("t", b"x", delay=DAY_S)
        client = orbitmq.connect("same", wait=WATCHDOG_S)
        first = client.connection.attachment
    with small_broker(tmp_path / "two", name="same") as broker:
        broker.create_topic("t", 1)
        with broker.producer() as producer:
            producer.send("t", b"x", delay=DAY_S)
        until(broker.delayed)
        monkeypatch.setattr(type(client.connection), "attachment", property(lambda self: first))
        monkeypatch.setattr(first, "alive", lambda: True)
        with pytest.raises(BrokerStopped, match="started again meanwhile"):
            client.cancel(receipt)
        monkeypatch.undo()
        assert [each.body for each in broker.delayed()] == [b"x"]
        client.close()


def test_retention_has_removed_it(tmp_path: Path) -> None:
    """It came long ago: it is too late."""
    with small_broker(tmp_path, retention_hours=0) as broker:
        broker.create_topic("t", 1)
        with broker.producer() as producer:
            receipt = producer.send("t", b"x", delay=0.001)
            comes(broker, b"x")
    with small_broker(tmp_path, retention_bytes=3 << 20, allow_deletion=True) as broker:
        with broker.producer() as producer:
            for _ in range(80):
                producer.send("t", bytes(100_000))
        until(lambda: read_positions(broker.connection.attachment).min_offset > receipt.physical_offset, "retention")
        assert broker.cancel(receipt) is False and broker.cancel(receipt.id) is False
