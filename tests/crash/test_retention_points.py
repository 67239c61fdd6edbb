"""Goal: whichever process dies while old files are removed, the next one finishes it, and the store is whole.

Method: a store whose messages are all old but the newest, with one topic that has a time of its own. For each point of
retention a broker of the crash build starts on a copy of it. The process that passes the point dies, the whole tree is killed
at once, and the store is verified. Then it is started again, until nothing but the newest file is left, and verified again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.client.broker.launch import start_tree
from orbitmq.errors import BrokerBroken
from orbitmq.store import config
from orbitmq.store.layout import StoreLayout
from tests.crash import crash_build
from tests.crash.crash_plan import CrashPlan
from tests.crash.retained import FILE_SIZE, TOPICS, faults, make_old_store, points
from tests.waiting import dead, until


@pytest.fixture(scope="module", autouse=True)
def build() -> None:
    crash_build.build()


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield make_old_store(tmp_path_factory.mktemp("old") / "store")


def die_at(point: str, store: Path, plan: CrashPlan) -> None:
    """Starts a tree of which a process dies at the point, and kills the rest."""
    environment = crash_build.environment(plan.path)
    plan.arm(point)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        try:
            options = {"name": f"retention-{os.getpid()}", "owner": os.getpid(), "handlers": 1, "retention_hours": 72}
            process = start_tree(str(store), options, allow_deletion=True).process
        except BrokerBroken:  # the supervisor itself hides what a topic no longer keeps, before the tree runs
            process = None
    victim = int(until(lambda: plan.victim(point), f"somebody to pass {point}"))
    until(lambda: dead(victim), "its death")
    plan.disarm()
    if process is not None:
        process.kill()
        process.wait()


@pytest.mark.parametrize("point", points())
def test_a_death_at_every_point(old: Path, tmp_path: Path, point: str) -> None:
    store = tmp_path / "store"
    shutil.copytree(old, store)
    plan = CrashPlan(tmp_path / "plan")
    die_at(point, store, plan)
    # Killed trees end a moment after their supervisor; the next start waits for them, and verify too would find the store held.
    until(lambda: faults(store) is not None, "the store to be let go")
    assert faults(store) == []
    with orbitmq.Broker(store, handlers=1, retention_hours=72, allow_deletion=True) as broker:
        until(lambda: min(int(path.name) for path in (store / "commitlog").iterdir()) == 3 * FILE_SIZE, "files to go")
        assert broker.status().positions.min_offset == 3 * FILE_SIZE

        def hidden() -> dict[str, Any] | None:
            """The bounds of all queues, once nothing is left of the topic that keeps its messages for an hour. After a kill
            reput may give its queues the last of the log again, until retention looks."""
            found = {topic.name: topic.queues for topic in broker.status().topics}
            return found if all(queue.min_offset == queue.max_offset > 0 for queue in found["short"]) else None

        bounds = until(hidden, "what the topic no longer keeps to be hidden")
        assert all(0 < queue.min_offset < queue.max_offset for queue in bounds["usual"])
        with broker.producer() as producer:
            receipts = {topic: producer.send(topic, b"new", queue=0) for topic in TOPICS}
        assert {topic: receipt.offset for topic, receipt in receipts.items()} == {
            topic: queues[0].max_offset for topic, queues in bounds.items()
        }
    assert faults(store) == []
    assert config.load_topics(StoreLayout.at(store))[0]["short"].retention_hours == 1
