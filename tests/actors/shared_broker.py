"""Brokers that tests share, one test after the other. A start and a stop cost more than most tests do, and most of them need
no more than a topic and groups of their own.

A test that asks for the fixture `topic` (conftest.py) gets a shared broker, and that topic; it keeps to names that nobody else
has. Any other test gets a broker of its own with the topic "t", and may kill it, fill it and count what is in it.

After a test its shared broker must be as it was before: no process of it has died or is another one. If it is not, the test
fails, and the next test gets another broker. So it does if the test has failed, because nobody knows what that left behind.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from tests.trees import SMALL, actors, small_broker
from tests.waiting import dead

OWN_TOPIC = "t"  # the topic of a test with a broker of its own
TESTS_MAX = 50  # of one broker: what each leaves makes answers about the whole broker longer
KEPT_MAX = 2  # brokers that wait for a test; a sleeping broker looks around now and then, which costs processor time
ROOM: dict[str, Any] = {"topic_capacity": 512, "queue_capacity": 4096}


@dataclass(slots=True)
class Shared:
    """A broker, and how many tests have had it."""

    broker: orbitmq.Broker
    store: Path
    tests: int = 0

    def end(self, *, keep: bool = False) -> None:
        """keep: the store, to be looked at."""
        self.broker.close()
        if not keep:
            shutil.rmtree(self.store)


class SharedBrokers:
    """Those of this process. topic: of the test that has a broker now."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Shared] = {}
        self.topic = ""

    @contextmanager
    def lend(self, request: pytest.FixtureRequest, queues: int, settings: dict[str, Any]) -> Iterator[orbitmq.Broker]:
        """A broker with these settings, and with this environment's, that has a new topic with so many queues, if
        any."""
        environment = sorted(each for each in os.environ.items() if each[0].startswith(("ORBITMQ_", "XDG_")))
        key = (*sorted(settings.items()), *environment)
        shared = self._kept.pop(key, None) or _started(request, settings)
        shared.tests += 1
        failed, good = request.session.testsfailed, False
        try:
            before = lives(shared.broker)
            self.topic = f"topic-{shared.tests}"
            if queues:
                shared.broker.create_topic(self.topic, queues)
            yield shared.broker
            assert lives(shared.broker) == before, "the test has changed a broker that it shares"
            known = {topic.name for topic in shared.broker.status().topics}
            assert OWN_TOPIC not in known, f"the test has used the topic {OWN_TOPIC!r}, which is no name of its own"
            good = request.session.testsfailed == failed
        finally:
            if good and shared.tests < TESTS_MAX and key not in self._kept:
                self._kept[key] = shared
            else:
                shared.end(keep=not good)
        while len(self._kept) > KEPT_MAX:
            self._kept.pop(next(iter(self._kept))).end()

    def end(self) -> None:
        while self._kept:
            self._kept.popitem()[1].end()


BROKERS = SharedBrokers()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """For the conftest of a folder whose tests share brokers: they end with its last test."""
    if nextitem is None or nextitem.path.parent != item.path.parent:
        BROKERS.end()


@contextmanager
def broker_for(request: pytest.FixtureRequest, queues: int = 2, **settings: Any) -> Iterator[orbitmq.Broker]:
    """A small broker with these settings for the test that asks: a shared one if the test wants the fixture `topic`. queues: of
    the test's topic; 0: it is not made."""
    if "topic" in request.fixturenames:
        with BROKERS.lend(request, queues, settings) as broker:
            yield broker
        return
    with small_broker(request.getfixturevalue("tmp_path"), **settings) as broker:
        if queues:
            broker.create_topic(OWN_TOPIC, queues)
        yield broker


def lives(broker: orbitmq.Broker) -> dict[str, tuple[int, int, str]]:
    """Which process each actor is, which life of it, and how it is; nothing of a broker that has died."""
    found = {} if dead(broker.pid) else actors(broker)
    return {name: (each.pid, each.epoch, "dead" if dead(each.pid) else each.state) for name, each in found.items()}


def _started(request: pytest.FixtureRequest, settings: dict[str, Any]) -> Shared:
    store = request.getfixturevalue("tmp_path_factory").mktemp("shared")
    return Shared(orbitmq.Broker(store, **{**SMALL, **ROOM, **settings}), store)
