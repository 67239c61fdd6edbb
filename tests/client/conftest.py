"""Fixtures: for tests of producers the broker's real stages as threads, with a topic, and a producer; for tests of asyncio's
consumers a broker without processes, with a topic; for tests that leave a whole broker as it was one that they share, with a
topic of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.client.producer.producer import Producer
from tests.actors.shared_broker import BROKERS, pytest_runtest_teardown
from tests.client.composed_broker import ComposedBroker
from tests.client.pauses import pauses
from tests.client.thread_broker import ThreadBroker
from tests.fast import tmp_path, warm
from tests.trees import small_broker

__all__ = ["pauses", "pytest_runtest_teardown", "tmp_path", "warm"]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ThreadBroker]:
    with ThreadBroker(tmp_path) as broker:
        broker.topic("orders")
        yield broker


@pytest.fixture
def producer(broker: ThreadBroker) -> Iterator[Producer]:
    with Producer(broker) as producer:
        yield producer


@pytest.fixture
def composed(tmp_path: Path) -> ComposedBroker:
    """With the topic "t", of one queue."""
    made = ComposedBroker(tmp_path / "store")
    made.add_topic("t", 1)
    return made


@pytest.fixture
def lent(request: pytest.FixtureRequest) -> Iterator[orbitmq.Broker]:
    """A whole broker that other tests use too (tests/actors/shared_broker.py)."""
    with BROKERS.lend(request, 3, {}) as broker:
        yield broker


@pytest.fixture
def lent_topic(lent: orbitmq.Broker) -> str:
    """The test's own topic there, of three queues."""
    return BROKERS.topic


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Of a topic and of a group for this test."""
    return str(request.node.name).replace("[", "-").replace("]", "")[:100]


@pytest.fixture(scope="module")
def work_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[orbitmq.Broker]:
    """A whole broker for the workers of a file."""
    store = tmp_path_factory.mktemp("store")
    with small_broker(store, offsets_interval_s=0.05, log_file_size=8 << 20, queue_capacity=1024) as made:
        yield made
