"""Goal: nobody reads a session's memory that is not mapped any more, whatever order things end in. Method: in a forked child,
because a wrong read ends the process. Of client/connection/opened_session.py and client/producer/producer.py."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.client.connection.connection import Connection
from orbitmq.client.producer.producer import Producer
from tests.client.test_connection import in_child, slots
from tests.trees import small_broker
from tests.waiting import until


class Struck(BaseException):
    pass


@pytest.mark.filterwarnings("ignore:the producer:ResourceWarning")
def test_the_collector_finds_the_session_before_its_producer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer in a reference cycle. What the collector has seen before comes after what is new, so it sees the producer once
    between the making of both."""
    opened = Connection.open_session

    def open_after_a_look(connection: Connection, **sizes: int) -> Any:
        gc.collect(0)
        return opened(connection, **sizes)

    monkeypatch.setattr(Connection, "open_session", open_after_a_look)
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 1)

        def work() -> None:
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
