"""Fixtures for tests of producers: the broker's real stages as threads, with a topic; and a producer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.client.producer import Producer
from tests.client.thread_broker import ThreadBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ThreadBroker]:
    with ThreadBroker(tmp_path) as broker:
        broker.topic("orders")
        yield broker


@pytest.fixture
def producer(broker: ThreadBroker) -> Iterator[Producer]:
    with Producer(broker) as producer:
        yield producer
