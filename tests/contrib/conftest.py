"""Fixtures: a broker for the tests of a file, connections of kombu's to it, and a name for a test's queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import kombu
import pytest

import orbitmq
import orbitmq.contrib.kombu
from tests.trees import small_broker

Connect = Callable[..., kombu.Connection]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[orbitmq.Broker]:
    room = {"topic_capacity": 512, "queue_capacity": 4096, "log_file_size": 8 << 20}
    with small_broker(tmp_path_factory.mktemp("store"), offsets_interval_s=0.05, **room) as made:
        yield made


@pytest.fixture
def connect(broker: orbitmq.Broker) -> Iterator[Connect]:
    with ExitStack() as stack:

        def made(**options: Any) -> kombu.Connection:
            return stack.enter_context(kombu.Connection(f"orbitmq://{broker.name}", transport_options={"queues": 1, **options}))

        yield made


@pytest.fixture
def connection(connect: Connect) -> kombu.Connection:
    return connect()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Of a queue or an exchange. It has characters that topics cannot have."""
    return f"{request.node.name[:60]}.queue@here"
