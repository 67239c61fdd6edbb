"""A plugin of pytest: a broker for tests, one for the whole session, with new topics for each test. docs/testing.md.

pytest loads it wherever OrbitMQ is installed. Until a test asks for a fixture, it loads neither client nor C core, and
starts nothing."""

from __future__ import annotations

import itertools
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import orbitmq

_numbers = itertools.count(1)
_NAME_MAX = 60  # characters of a test's name in those of its topics and groups


@pytest.fixture(scope="session")
def orbitmq_settings() -> dict[str, Any]:
    """Settings of `orbitmq_broker`, for a conftest.py that wants others: it overrides this fixture."""
    small = {"log_file_size": 16 << 20, "queue_file_units": 10_000, "index_slots": 10_000, "index_entries": 40_000}
    return {"handlers": 1, **small}


@pytest.fixture(scope="session")
def orbitmq_broker(orbitmq_settings: dict[str, Any]) -> Iterator[orbitmq.Broker]:
    """A broker with a store of its own, from its first use to the end of the session. Code under test that calls
    `orbitmq.connect()` without a name gets this broker, also in other processes that tests start."""
    from orbitmq.client.broker.broker import Broker

    # In the folder of pytest, paths of sockets could become too long.
    folder = Path(tempfile.mkdtemp(prefix="orbitmq-test-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORBITMQ_RUNTIME_DIR", str(folder / "run"))
        try:
            with Broker(folder / "store", **orbitmq_settings) as broker:
                patch.setenv("ORBITMQ_BROKER", broker.name)
                yield broker
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def orbitmq_new_topic(orbitmq_broker: orbitmq.Broker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Makes topics that no other test has: a function that returns the name of a new one. It takes what `create_topic` takes,
    such as queues=4; without it, a topic has one queue, so that its messages come in the order in which they were sent."""

    def make(queues: int = 1, **settings: Any) -> str:
        return orbitmq_broker.create_topic(_fresh(request), queues, **settings).name

    return make


@pytest.fixture
def orbitmq_topic(orbitmq_new_topic: Callable[..., str]) -> str:
    """The name of a new topic with one queue."""
    return orbitmq_new_topic()


@pytest.fixture
def orbitmq_group(request: pytest.FixtureRequest) -> str:
    """A name of a consumer group that no other test has."""
    return _fresh(request)


def _fresh(request: pytest.FixtureRequest) -> str:
    """A name with that of the test in it, so that a status of the broker can be read."""
    return f"{re.sub(r'[^A-Za-z0-9_-]+', '-', request.node.name)[:_NAME_MAX]}-{next(_numbers)}"
