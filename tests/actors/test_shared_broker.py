"""Goal: tests that share a broker do not disturb each other, and the one that has spoilt it fails. Method: one loan after the
other, with what a test may do to its broker in between."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import UnknownTopic
from tests.actors.shared_broker import KEPT_MAX, OWN_TOPIC, TESTS_MAX, SharedBrokers, broker_for
from tests.trees import kill
from tests.waiting import dead, until


@pytest.fixture
def shared() -> Iterator[SharedBrokers]:
    made = SharedBrokers()
    yield made
    made.end()


def test_one_after_the_other(shared: SharedBrokers, request: pytest.FixtureRequest) -> None:
    """Each test has a topic of its own; a broker is for tests with the same settings and environment."""
    with shared.lend(request, 3, {}) as broker:
        first, pid = shared.topic, broker.pid
        assert len(broker.topic(first).queues) == 3
    with shared.lend(request, 1, {"handlers": 1}) as other:
        assert other.pid != pid and len(other.topic(shared.topic).queues) == 1
    with shared.lend(request, 2, {}) as broker:
        assert broker.pid == pid and shared.topic != first and len(broker.topic(shared.topic).queues) == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORBITMQ_GATEWAYS", "2")
        with shared.lend(request, 2, {}) as another:
            assert another.pid not in (pid, other.pid)


def test_few_are_kept(shared: SharedBrokers, request: pytest.FixtureRequest) -> None:
    """Goal: nobody gets a broker that somebody has, and no more than some wait for a test: those that were used last."""
    pids = []
    for number in range(KEPT_MAX + 1):
        settings = {"lane_capacity": 1 << 18 + number}
        with shared.lend(request, 1, settings) as broker:
            pids.append(broker.pid)
    with shared.lend(request, 1, settings) as broker, shared.lend(request, 1, settings) as other:
        assert broker.pid == pids[-1] != other.pid
        pids.append(other.pid)
    assert [dead(pid) for pid in pids] == [True, *[False] * (KEPT_MAX - 1), True, False]


@pytest.mark.parametrize("victim", ["handler 0", "supervisor"])
def test_a_broker_that_is_not_as_it_was(shared: SharedBrokers, request: pytest.FixtureRequest, victim: str) -> None:
    """Goal: the test fails in which a process of it has died, also if that was replaced; the next test has a sound one."""
    with pytest.raises(AssertionError, match="has changed a broker"), shared.lend(request, 1, {}) as broker:
        pid = broker.pid
        if victim == "supervisor":
            os.kill(pid, signal.SIGKILL)
            until(lambda: dead(pid), "its end")
        else:
            kill(broker, victim)
    with shared.lend(request, 1, {}) as broker:
        assert broker.pid != pid
        with broker.producer() as producer:
            producer.send(shared.topic, b"x")


def test_a_topic_of_others(shared: SharedBrokers, request: pytest.FixtureRequest) -> None:
    """Goal: a test that shares a broker, and says the topic of those that do not, fails."""
    with pytest.raises(AssertionError, match=f"the topic '{OWN_TOPIC}'"), shared.lend(request, 1, {}) as broker:
        broker.create_topic(OWN_TOPIC, 1)
    with shared.lend(request, 1, {}) as broker, pytest.raises(UnknownTopic):
        broker.topic(OWN_TOPIC)


def test_a_test_that_has_failed(shared: SharedBrokers, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: nobody gets the broker after it; and its store is kept."""
    with shared.lend(request, 1, {}) as broker:
        pid, store = broker.pid, Path(broker.status().store)
        monkeypatch.setattr(request.session, "testsfailed", request.session.testsfailed + 1)
    monkeypatch.undo()
    assert dead(pid) and store.exists()
    with shared.lend(request, 1, {}) as broker:
        assert broker.pid != pid


def test_a_worn_broker(shared: SharedBrokers, request: pytest.FixtureRequest) -> None:
    """Goal: what tests leave behind is bounded."""
    pids = []
    for _ in range(TESTS_MAX + 1):
        with shared.lend(request, 1, {}) as broker:
            pids.append(broker.pid)
            store = Path(broker.status().store)
        assert store.exists() == (len(pids) != TESTS_MAX)
    assert pids[:-1] == pids[:1] * TESTS_MAX and pids[-1] != pids[0] and dead(pids[0])


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[orbitmq.Broker]:
    with broker_for(request, handlers=1) as broker:
        yield broker


def test_who_asks_for_a_topic_shares(broker: orbitmq.Broker, topic: str) -> None:
    assert len(broker.topic(topic).queues) == 2
    with pytest.raises(UnknownTopic):
        broker.topic(OWN_TOPIC)


def test_who_does_not_has_its_own(broker: orbitmq.Broker) -> None:
    assert len(broker.topic(OWN_TOPIC).queues) == 2
    kill(broker, "handler 0")
