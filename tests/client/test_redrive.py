"""Goal: a dead letter is sent again once, whatever is killed meanwhile. Method: processes that redrive are killed when random
numbers of messages have arrived, and actors of the broker with them; the last one must find exactly what is left."""

from __future__ import annotations

import copy
import os
import random
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.client.admin.status import read_positions
from orbitmq.client.connection.attachment import Attachment
from orbitmq.client.dead_letter import redrive
from orbitmq.errors import BrokerStopped, Retry, TimedOut
from orbitmq.shm.topic_table import TopicTable
from tests.client.dead_stores import store_with_letters
from tests.trees import actors, everything, kill, small_broker, stopped
from tests.waiting import WATCHDOG_S, until

LETTERS = 700
STRIKES = 6


def arrived(broker: orbitmq.Client) -> int:
    table = TopicTable(broker.connection.attachment.topics)
    topic = table.find("orders")
    assert topic is not None
    return sum(table.bounds(topic.first_slot + queue).maximum for queue in range(topic.queues))


def redriver(name: str) -> int:
    """The pid of a process that redrives all."""
    pid = os.fork()
    if pid == 0:
        code = 1
        with suppress(BaseException):
            with orbitmq.connect(name) as client:
                client.dead_letters("billing").redrive()
            code = 0
        os._exit(code)
    return pid


def test_each_is_sent_once(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    store_with_letters(tmp_path, LETTERS)
    with small_broker(tmp_path, retention_hours=0) as broker:
        for strike in range(STRIKES):
            goal = arrived(broker) + dice.randrange(LETTERS // STRIKES)
            pid = redriver(broker.name)
            ended = until(lambda: arrived(broker) >= goal or os.waitpid(pid, os.WNOHANG)[0], look_ms=0)
            if strike % 3 == 2:
                kill(broker, dice.choice(["writer", "reput", "coordinator"]))
            if ended is True:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        broker.dead_letters("billing").redrive()
        found = sorted(int(body) for body, *_ in everything(broker, "orders"))
        assert found == list(range(LETTERS))
        assert broker.dead_letters("billing").list() == []


@pytest.mark.parametrize("stopped", ["handler", "reput"])
def test_what_a_killed_one_had_sent_is_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: str) -> None:
    """Goal: messages of a killed redrive that are still on their way are not sent a second time, nor those that are in the log
    and not in the index. Method: one is killed when it has sent, while the broker's handlers, or reput, are stopped; they go on
    when the next one waits."""
    store_with_letters(tmp_path, 5)
    with small_broker(tmp_path, retention_hours=0, timeout=WATCHDOG_S) as broker:
        before = read_positions(broker.connection.attachment).wrote
        handlers = [each.pid for name, each in actors(broker).items() if stopped in name]
        assert len(handlers) == (2 if stopped == "handler" else 1)
        for handler in handlers:
            os.kill(handler, signal.SIGSTOP)
        try:
            with monkeypatch.context() as patch:
                strike: Any = lambda name: name == "redrive_sent" and os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
                patch.setattr(redrive, "crash_point", strike)
                pid = redriver(broker.name)
            assert os.waitpid(pid, 0)[1] == signal.SIGKILL
            if stopped == "reput":
                until(lambda: read_positions(broker.connection.attachment).wrote > before, "what was sent to be in the log")
            waits = threading.Event()
            owner, name = (Attachment, "_reput_reached") if stopped == "reput" else (redrive, "_pause")
            look = getattr(owner, name)

            def noted(*arguments: Any) -> Any:
                waits.set()
                return look(*arguments)

            monkeypatch.setattr(owner, name, noted)
            thread = threading.Thread(target=broker.dead_letters("billing").redrive)
            thread.start()
            until(waits.is_set)
        finally:
            for handler in handlers:
                os.kill(handler, signal.SIGCONT)
        thread.join()
        assert sorted(body for body, *_ in everything(broker, "orders")) == [b"%d" % n for n in range(5)]
        assert broker.dead_letters("billing").list() == []


def test_handlers_that_stand_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Receipts that do not come are waited for no longer than a send is. Repeated, nothing is sent twice."""
    store_with_letters(tmp_path, 5)
    with small_broker(tmp_path, retention_hours=0, timeout=WATCHDOG_S) as broker:
        usual = broker.producer
        monkeypatch.setattr(broker, "producer", lambda **settings: usual(**settings, timeout=0.2))
        with stopped(broker, "handler 0"), stopped(broker, "handler 1"), pytest.raises(TimedOut):
            broker.dead_letters("billing").redrive()
        monkeypatch.undo()
        broker.dead_letters("billing").redrive()
        assert sorted(body for body, *_ in everything(broker, "orders")) == [b"%d" % n for n in range(5)]


def test_a_redrive_that_sent_some_may_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: error.retry of a redrive that was cut short is as true as its hint: it may be repeated, and nothing is sent twice.
    Method: the broker stops when a part of the letters was sent and the next one was not."""
    letters = 2 * redrive.AT_ONCE
    store_with_letters(tmp_path, letters)
    with small_broker(tmp_path, retention_hours=0) as broker:
        parts: list[str] = []

        def stop(name: str) -> None:
            parts.extend([name] if name == "redrive_sending" else [])
            if len(parts) == 2:
                raise BrokerStopped("could not send: the broker stops")

        with monkeypatch.context() as patch:
            patch.setattr(redrive, "crash_point", stop)
            with pytest.raises(BrokerStopped) as caught:
                broker.dead_letters("billing").redrive()
        assert caught.value.sent == redrive.AT_ONCE
        assert {caught.value.retry, copy.copy(caught.value).retry} == {Retry.SAFE}
        assert len(broker.dead_letters("billing").redrive()) == letters - redrive.AT_ONCE
        assert sorted(int(body) for body, *_ in everything(broker, "orders")) == list(range(letters))
