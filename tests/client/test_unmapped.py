"""Goal: nobody reads a session's memory that is not mapped any more, whatever order things end in. Method: in a forked child,
because a wrong access ends the process. Of client/connection/opened_session.py, client/producer/producer.py,
client/consumer/session.py and client/work/answers.py."""

from __future__ import annotations

import gc
import sys
import warnings
from pathlib import Path
from typing import Any, Literal

import pytest

import orbitmq
from orbitmq.client.connection.connection import Connection
from orbitmq.client.consumer.assignment import Assignment
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import TimedOut
from tests.client.test_connection import in_child, slots
from tests.trees import small_broker
from tests.waiting import WATCHDOG_S, until


class Struck(BaseException):
    pass


@pytest.mark.parametrize("warnings_are", ["error", "ignore"])
def test_the_collector_finds_the_session_before_its_producer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warnings_are: Literal["error", "ignore"]
) -> None:
    """A producer in a reference cycle. What the collector has seen before comes after what is new, so it sees the producer once
    between the making of both. Nobody has closed it, which may be an error."""
    opened = Connection.open_session

    def open_after_a_look(connection: Connection, **sizes: int) -> Any:
        gc.collect(0)
        return opened(connection, **sizes)

    monkeypatch.setattr(Connection, "open_session", open_after_a_look)
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 1)

        def work() -> None:
            warnings.simplefilter(warnings_are)
            sys.unraisablehook = lambda _: None
            with orbitmq.connect(broker.name) as client:
                producer: Any = client.producer()
                producer.send("t", b"x")
                producer.itself = producer
                del producer
                gc.collect()
                until(lambda: slots(client) == set(), "the end of the session")

        assert in_child(work) == 0


def test_struck_when_it_is_attached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The producer is whole, and may be used by who has it."""
    attach: Any = Producer._attach
    made: list[Producer] = []

    def and_strike(producer: Producer, handle: Any) -> None:
        attach(producer, handle)
        made.append(producer)
        raise Struck

    monkeypatch.setattr(Producer, "_attach", and_strike)
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 1)

        def work() -> None:
            with orbitmq.connect(broker.name) as client:
                for used in (True, False):
                    with pytest.raises(Struck):
                        client.producer()
                    producer = made.pop()
                    if used:
                        assert producer.send("t", b"x").offset >= 0
                        producer.close()
                    del producer
                    gc.collect()
                until(lambda: slots(client) == set(), "the end of both sessions")

        assert in_child(work) == 0


@pytest.mark.parametrize("struck", [False, True], ids=["the parent's", "struck in its close"])
def test_a_consumer_that_is_closed_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, struck: bool) -> None:
    positions: Any = Assignment.positions

    def and_strike(assignment: Assignment) -> Any:
        monkeypatch.setattr(Assignment, "positions", positions)
        positions(assignment)
        raise Struck

    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 1)
        with broker.consumer(None, ["t"]) as parents:

            def work() -> None:
                if not struck:
                    parents.close()
                    parents.interrupt()
                    return
                with orbitmq.connect(broker.name) as client:
                    consumer = client.consumer(None, ["t"])
                    monkeypatch.setattr(Assignment, "positions", and_strike)
                    with pytest.raises(Struck):
                        consumer.close()
                    consumer.interrupt()
                    until(lambda: len(slots(client)) == 1, "the end of the session")

            assert in_child(work) == 0
            parents.interrupt()
            with pytest.raises(orbitmq.errors.Interrupted):
                parents.poll()


def test_a_worker_asks_for_its_answers_when_the_broker_has_gone(tmp_path: Path) -> None:
    """It waits for the next broker, in vain, and says how many answers were not applied."""

    def work() -> None:
        with small_broker(tmp_path) as broker, orbitmq.connect(broker.name) as client:
            broker.create_topic("t", 1)
            with broker.producer() as producer:
                producer.send("t", b"x")
            worker = client.work_session("g", ["t"], wait=WATCHDOG_S)
            taken = worker.take(1, WATCHDOG_S)
            broker.close()
            worker.ack(taken)
            assert worker.settled(0.01) == taken, "nobody knows whether it counts"
            with pytest.raises(TimedOut, match="1 are not applied after"):
                worker.settled(0.01)

    assert in_child(work) == 0
