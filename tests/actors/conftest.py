"""Fixtures of the actors' tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from tests.actors.delay_life import DelayLife, settings_of
from tests.actors.fronts import connect_to_front
from tests.actors.remoting_client import Remote
from tests.actors.shared_broker import BROKERS, OWN_TOPIC, broker_for, pytest_runtest_teardown
from tests.fast import warm

__all__ = ["pytest_runtest_teardown", "warm"]


# Tests of the gateway that run a second time with clients of a front, which passes on to the lead what it does not serve. With
# ORBITMQ_AT_FRONT=1 in the environment, all tests run with clients of a front.
NAMES = ("filters", "half_closed", "holds", "hosts", "members", "memory", "pause", "pull_commits", "requests", "transactions")
AT_FRONT = tuple(f"test_gateway_{name}" for name in NAMES)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in AT_FRONT:
        metafunc.fixturenames.insert(0, "at_front")
        metafunc.parametrize("at_front", [False, True], ids=["lead", "front"], indirect=True)


@pytest.fixture(autouse=True)
def at_front(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if getattr(request, "param", os.environ.get("ORBITMQ_AT_FRONT") == "1"):
        monkeypatch.setenv("ORBITMQ_GATEWAYS", "2")
        monkeypatch.setattr(Remote, "connect", staticmethod(connect_to_front))


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[orbitmq.Broker]:
    """One with a gateway. A module of tests that needs another one has a fixture of its own."""
    with broker_for(request, listen="127.0.0.1:0") as broker:
        yield broker


@pytest.fixture
def remote(broker: orbitmq.Broker) -> Iterator[Remote]:
    """A client of the gateway."""
    with Remote(broker.status().listens) as remote:
        yield remote


@pytest.fixture
def topic(broker: orbitmq.Broker) -> str:
    """A topic of the test's own, on a broker that other tests use too (shared_broker.py)."""
    return BROKERS.topic


@pytest.fixture
def group(topic: str) -> str:
    """The name of a group of the test's own."""
    return f"group-of-{topic}"


@pytest.fixture
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Group and topic of the test, whether or not it shares its broker."""
    if "topic" not in request.fixturenames:
        return "g", OWN_TOPIC
    return request.getfixturevalue("group"), request.getfixturevalue("topic")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that everybody may pass; pytest's own folders belong to root."""
    with tempfile.TemporaryDirectory(prefix="orbitmq-test-") as made:
        Path(made).chmod(0o711)
        monkeypatch.setenv("ORBITMQ_RUNTIME_DIR", f"{made}/run")
        yield Path(made)


@pytest.fixture
def life(in_memory: Path) -> Iterator[DelayLife]:
    living = DelayLife(settings_of(in_memory))
    yield living
    living.end()
