"""Fixtures: a broker for the tests of a file, connections of kombu's to it, a name for a test's queues, Celery's worker."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import kombu
import pytest

import orbitmq
import orbitmq.contrib.kombu
from tests.contrib.celery_worker import EXAMPLES, Worker
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


@pytest.fixture
def worker(broker: orbitmq.Broker, tmp_path: Path) -> Iterator[Worker]:
    made = Worker(tmp_path, f"orbitmq://{broker.name}")
    yield made
    made.end()


@pytest.fixture
def tasks(broker: orbitmq.Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The application as a program that sends tasks has it."""
    monkeypatch.setenv("SHOP_BROKER", f"orbitmq://{broker.name}")
    monkeypatch.syspath_prepend(EXAMPLES)
    module = importlib.import_module("tests.contrib.celery_tasks")
    yield module
    module.app.close()
    for name in ("tests.contrib.celery_tasks", "celery_shop"):
        sys.modules.pop(name, None)
