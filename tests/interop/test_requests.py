"""Goal: RocketMQ's own Java client, unchanged, asks over OrbitMQ and gets the reply, and replies to others: Java to Java, Java
to a local program, a local program to Java.

Method: the judge's producer calls DefaultMQProducer.request, and a push consumer of its replies with
MessageUtil.createReplyMessage; OrbitMQ's client is at the other end in turn.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import orbitmq
from tests.interop.judge import Judge
from tests.interop.ours import SMALL_FILES, broker_on
from tests.trees import kill
from tests.waiting import until

BODIES = ["coffee", "tea", "日本", "x" * 20_000]  # Java compresses what is larger than 4 KiB
PATIENCE_S = 180  # a watchdog: Java's consumer may have all queues only when it shares them anew, after 20 s


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with broker_on(tmp_path / "store", SMALL_FILES, name="judged", listen="127.0.0.1:0") as broker:
        broker.create_topic("prices", queues=4)
        yield broker


@contextmanager
def java_desk(visitor: Judge) -> Iterator[None]:
    visitor.ask("reply", member="desk", topic="prices", group="desk")
    try:
        yield
    finally:
        visitor.ask("quit", member="desk")


@contextmanager
def local_desk(broker: orbitmq.Broker) -> Iterator[None]:
    worker = broker.worker("local-desk", ["prices"])
    thread = threading.Thread(target=worker.run, args=(lambda job: job.reply(b"local: " + bytes(job.body)),))
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join()


def ask_java(visitor: Judge) -> list[dict[str, str]]:
    found: list[dict[str, str]] = visitor.ask("request", topic="prices", bodies=BODIES, timeout=1000 * PATIENCE_S)
    return found


def test_java_asks_java(visitor: Judge, broker: orbitmq.Broker) -> None:
    with java_desk(visitor):
        assert ask_java(visitor) == [{"body": "java: " + body, "type": "reply"} for body in BODIES]


def test_java_asks_a_local_program(visitor: Judge, broker: orbitmq.Broker) -> None:
    with local_desk(broker):
        assert ask_java(visitor) == [{"body": "local: " + body, "type": "reply"} for body in BODIES]


def test_a_local_program_asks_java(visitor: Judge, broker: orbitmq.Broker) -> None:
    with java_desk(visitor):
        for body in BODIES:
            assert bytes(broker.request("prices", body, timeout=PATIENCE_S)).decode() == "java: " + body


def test_java_asks_again_after_the_gateway_s_death(visitor: Judge, broker: orbitmq.Broker) -> None:
    with local_desk(broker):
        assert len(ask_java(visitor)) == len(BODIES)
        kill(broker, "gateway")
        until(lambda: asked_once_more(visitor), "the client to find the gateway's successor")


def asked_once_more(visitor: Judge) -> bool:
    try:
        return len(visitor.ask("request", topic="prices", bodies=["again"], timeout=5000)) == 1
    except Exception as error:  # the connection was closed, or the reply did not come
        assert "Exception" in str(error)
        return False
