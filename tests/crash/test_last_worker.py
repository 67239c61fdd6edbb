"""Goal: what the last worker of a group has done stays done for whoever comes next, however late the dispatcher writes down how
far the group is.

Method: a message that has failed for the last time is on its way to be a dead letter when its group loses its last worker. The
dispatcher hangs between the word that says that it is done and the floor of the queue's file, until the coordinator has let the
group go."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.store.layout import StoreLayout
from orbitmq.store.work import plan as work_plan
from orbitmq.store.work.plan import PlannedGroup
from tests.client.work_takes import collect, lag
from tests.crash import crash_build
from tests.crash.load import Load
from tests.waiting import until

GROUP = TOPIC = "last"


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    crash_build.build()
    made = Load(tmp_path, 1, roles=())
    made.client.create_topic(TOPIC, queues=1)
    with made.client.producer() as producer:
        producer.send(TOPIC, b"x")
    yield made
    made.close()


@pytest.mark.parametrize("point", ["dispatcher_put_landed", "dispatcher_put_over"])
def test_the_group_is_let_go_before_its_floor_rises(load: Load, point: str) -> None:
    client = load.client

    def plan() -> dict[str, PlannedGroup]:
        return work_plan.load(StoreLayout.at(load.folder / "store"), client.connection.attachment.generation)

    writer = load.actors()["writer"].pid
    os.kill(writer, signal.SIGSTOP)
    with client.work_session(GROUP, [TOPIC], max_tries=1) as worker:
        (found,) = collect(worker, 1)
        worker.nack(found)
        worker.close(0)
    until(lambda: not plan()[GROUP].workers, "the worker's end")
    load.plan.arm(point, pause=True)
    os.kill(writer, signal.SIGCONT)
    until(lambda: load.plan.victim(point), point)
    load.plan.disarm()
    until(lambda: GROUP not in plan(), "the group to be let go")
    os.kill(load.plan.victim(point), signal.SIGCONT)
    assert lag(client, GROUP) == 0
    with client.consumer(GROUP, [TOPIC]) as consumer:
        assert consumer.poll(0.1) is None
