"""Goal: a queue of a queue-ordered group hands out one batch at a time, to whoever asks first, and the next one when nothing
of it is in hand or waits.

Method: a log made by plain Python; the dispatcher's loop is moved by hand, and its workers are sessions in this process. What
clients see is in tests/actors/test_gateway_pop_order.py."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.native._core import ffi, lib
from orbitmq.store import positions
from orbitmq.store.layout import StoreLayout
from orbitmq.store.work import files as work_files
from tests.native.reput_rig import Message, Model, Rig
from tests.native.test_dispatcher_order import Worker

EACH = 100  # messages of each of two queues
BATCH = 32
ANSWER_MAX = 16  # messages in one answer: a quarter of the workers' rings
LONG_MS = 3_600_000


class Group:
    """Two workers of a group, which want all that there is."""

    def __init__(self, store: Path) -> None:
        model = Model(log_file=1 << 20)
        for _ in range(EACH):
            for queue in range(2):
                model.append(Message("T", queue))
        model.save(store)
        self.rig = Rig(store, model, ["T"], queues=2, supervisor_pid=os.getpid())
        reput = self.rig.open()
        reput.run_until(model.end)
        reput.close()
        lib.control_set_tree_state(self.rig.control, lib.TREE_RUNNING)
        self.tree = lib.attachment_open(self.rig.control, self.rig.topics, self.rig.wake, ffi.NULL, 0, lib.ACTOR_DISPATCHER)
        self.workers = [Worker(self.rig, slot) for slot in range(2)]
        layout = StoreLayout.at(store)
        layout.make_folders()
        queues = [("T", 0), ("T", 1)]
        work_files.make(layout, "g", queues)
        self.paths = [os.fsencode(work_files.path_of(layout, "g", queue)) for queue in queues]
        self.dispatcher: Any = None
        self.begin()

    def begin(self) -> None:
        """A dispatcher, perhaps the successor of one."""
        if self.dispatcher is not None:
            lib.dispatcher_close(self.dispatcher)
        self.dispatcher = lib.dispatcher_open(self.tree)
        lib.dispatcher_boot(self.dispatcher, positions.boot_id())
        lib.dispatcher_begin(self.dispatcher, lib.control_work_version(self.rig.control))
        group = lib.dispatcher_group(self.dispatcher, 1, b"g", False, 16, lib.WORK_ORDER_QUEUE)
        for slot in range(2):
            assert lib.dispatcher_worker(self.dispatcher, group, slot, 1, 1, 1000, LONG_MS) == 0
        for slot, path in enumerate(self.paths):
            assert lib.dispatcher_queue(self.dispatcher, group, slot, 0, path, 7, 0) == 0
        lib.dispatcher_settle(self.dispatcher)

    def step(self) -> list[tuple[int, int, int]]:
        """Until nothing happens; what was handed out: queue, first, count."""
        while lib.dispatcher_step(self.dispatcher):
            pass
        return [each for worker in self.workers for each in worker.take()]

    def answer(self, kind: int, queue: int, first: int, count: int, time_ms: int = 0) -> None:
        """By whoever has them: the other one's answer does not count."""
        for at in range(first, first + count, ANSWER_MAX):
            for worker in self.workers:
                worker.answer(kind, queue, at, min(ANSWER_MAX, first + count - at), time_ms)

    def want(self, *wanted: int) -> None:
        """How many messages each worker wants in its hands."""
        for worker, most in zip(self.workers, wanted, strict=True):
            lib.work_link_want(worker.link, most)

    def close(self) -> None:
        lib.dispatcher_close(self.dispatcher)
        for worker in self.workers:
            worker.close()
        lib.attachment_close(self.tree)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    group = Group(tmp_path)
    yield group
    group.close()


def test_one_batch_at_a_time(group: Group) -> None:
    """Each queue has one, whoever wants more; also for a successor of the dispatcher."""
    assert sorted(group.step()) == [(0, 0, BATCH), (1, 0, BATCH)]
    group.want(1000, 0)  # two of them would share the batch
    for at in range(BATCH - 1):
        group.answer(lib.WORK_ACK, 0, (at + 7) % BATCH, 1)
        assert group.step() == []
    group.begin()
    assert group.step() == []
    group.answer(lib.WORK_ACK, 0, (BATCH - 1 + 7) % BATCH, 1)
    assert group.step() == [(0, BATCH, BATCH)]
    assert lib.WORK_RUN_MAX == BATCH


def test_what_comes_again_and_what_waits(group: Group) -> None:
    """In order, equally often handed out; and nothing while one of them waits."""
    group.want(1000, 0)
    group.step()
    group.answer(lib.WORK_ACK, 1, 0, BATCH)
    group.answer(lib.WORK_ACK, 0, 1, 1)
    group.answer(lib.WORK_NACK, 0, 0, 1)
    group.answer(lib.WORK_NACK, 0, 2, BATCH - 4)
    group.answer(lib.WORK_GIVE_BACK, 0, BATCH - 2, 1)
    group.answer(lib.WORK_NACK, 0, BATCH - 1, 1, LONG_MS)
    assert group.step() == [(1, BATCH, BATCH)]
    group.answer(lib.WORK_ACK, 1, BATCH, BATCH)
    assert group.step() == [(1, 2 * BATCH, BATCH)], "the other queue goes on"


def test_the_rest_of_a_batch(group: Group) -> None:
    """What was given back follows what was failed, and comes before what is fresh."""
    group.want(1000, 0)
    group.step()
    group.answer(lib.WORK_GIVE_BACK, 0, 10, BATCH - 10)
    assert group.step() == []
    group.answer(lib.WORK_ACK, 0, 0, 8)
    group.answer(lib.WORK_NACK, 0, 8, 2)
    came = []
    for _ in range(3):
        (found,) = group.step()
        came.append(found)
        group.answer(lib.WORK_ACK, *found)
    assert came == [(0, 8, 2), (0, 10, BATCH - 10), (0, BATCH, BATCH)]
