"""Goal: what comes for a held pull wakes the gateway, and what comes for others does not; whoever dies, the pull is answered.

Method: the Python client of the protocol, and what the gateway counts of itself: a sleep that it announced to reput, and a wake
that reput sent. Of native/remoting/gateway/gateway_hold.c; the order of its looks is held by
native/litmus/held_or_news.litmus."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from tests.actors.fronts import serving
from tests.actors.remoting_client import HEARTBEAT, PULL, Remote, body_of, records
from tests.trees import actor, indexed, kill, small_broker
from tests.waiting import until

SUCCESS, NOT_FOUND = 0, 19
HOLD_MS = 200_000


@pytest.fixture(params=["spread", "together"])
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path, listen="127.0.0.1:0", placement=request.param) as broker:
        broker.create_topic("t", 4)
        broker.create_topic("other", 1)
        yield broker


def hold(broker: orbitmq.Broker, remote: Remote, offset: int, *, queue: int = 0, topic: str = "t") -> int:
    """A held pull, behind which the gateway sleeps."""
    opaque = remote.put(PULL, **remote.pull_fields(topic, queue, offset, suspend_ms=HOLD_MS))
    assert remote.ask(HEARTBEAT, b"{}").code == SUCCESS, "it is held"
    asleep(broker)
    return opaque


def asleep(broker: orbitmq.Broker, name: str = "") -> None:
    """It sleeps anew. One that listens to no queue counts no sleeps, and so must not be asked. name: of the process, unless it
    is the one that serves the test's clients."""
    before = counted(broker, "sleeps", name)
    until(lambda: counted(broker, "sleeps", name) > before, "the gateway to sleep behind its bell")


def counted(broker: orbitmq.Broker, what: str, name: str = "") -> int:
    return actor(broker, name or serving()).counters[what]


ROUNDS = 10  # in one of them a look may answer before the wake; not in all


def test_arrivals_wake(broker: orbitmq.Broker, remote: Remote) -> None:
    """A look every tenth of a second would answer as well, and so what wakes is counted."""
    before = counted(broker, "wakes")
    with broker.producer() as producer:
        for n in range(ROUNDS):
            opaque = hold(broker, remote, n)
            producer.send("t", b"%d" % n, queue=0)
            said = remote.take()
            assert (said.opaque, said.code) == (opaque, SUCCESS)
            assert [body_of(record) for record in records(said.body)] == [b"%d" % n]
    assert remote.ask(HEARTBEAT, b"{}").code == SUCCESS
    assert counted(broker, "wakes") - before >= ROUNDS / 2


def test_what_comes_for_others_wakes_nobody(broker: orbitmq.Broker, remote: Remote) -> None:
    """Neither other queues, nor a queue whose pull was answered, has run out, or has lost its client."""
    with broker.producer() as producer:
        answered = hold(broker, remote, 0, queue=1)
        producer.send("t", b"1", queue=1)
        assert remote.take().opaque == answered
        remote.put(PULL, **remote.pull_fields("t", 2, 0, suspend_ms=1))
        assert remote.take().code == NOT_FOUND
        with Remote(broker.status().listens) as gone:
            hold(broker, gone, 0, queue=3)
        hold(broker, remote, 0)
        asleep(broker)  # it has seen who is gone
        before = counted(broker, "wakes")
        for _ in range(100):
            producer.send("other", b"x")
            for queue in (1, 2, 3):
                producer.send("t", b"x", queue=queue)
        indexed(broker)
        asleep(broker)
        assert counted(broker, "wakes") == before
        producer.send("t", b"x", queue=0)
        assert remote.take().code == SUCCESS


def test_two_hold_one_queue(broker: orbitmq.Broker, remote: Remote) -> None:
    """The end of the one does not end the other's wait."""
    with broker.producer() as producer, Remote(broker.status().listens) as other:
        first, second = hold(broker, remote, 0), hold(broker, other, 0)
        producer.send("t", b"0", queue=0)
        assert (remote.take().opaque, other.take().opaque) == (first, second)
        woken = 0
        for n in range(1, ROUNDS):
            hold(broker, remote, n)
            other.put(PULL, **other.pull_fields("t", 0, n, suspend_ms=1))
            assert other.take().code == NOT_FOUND
            asleep(broker)
            before = counted(broker, "wakes")
            producer.send("t", b"1", queue=0)
            assert remote.take().code == SUCCESS and remote.ask(HEARTBEAT, b"{}").code == SUCCESS
            woken += counted(broker, "wakes") > before
        assert woken >= ROUNDS / 2


@pytest.mark.parametrize("victim", ["reput", "gateway", "coordinator"])
def test_deaths(tmp_path: Path, victim: str) -> None:
    """A successor of reput tells everybody; one of the gateway begins with nothing held."""
    rng = random.Random(victim)
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker, broker.producer() as producer:
        broker.create_topic("t", 4)
        remote, ends = Remote(broker.status().listens), [0, 0, 0, 0]
        for n in range(12):
            queue = rng.randrange(4)
            hold(broker, remote, ends[queue], queue=queue)
            if rng.random() < 0.4:
                kill(broker, victim)
                if victim == "gateway":
                    remote.socket.close()
                    remote = Remote(broker.status().listens)
                    hold(broker, remote, ends[queue], queue=queue)
            producer.send("t", b"%d" % n, queue=queue)
            said = remote.take()
            ends[queue] += 1
            assert [body_of(record) for record in records(said.body)] == [b"%d" % n]
        remote.socket.close()
