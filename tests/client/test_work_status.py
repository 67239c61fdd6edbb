"""Goal: a group of workers says who has what in hand, what waits, and why messages are handed to nobody. Method: worker
sessions on a real broker, which take, nack and ack as the test says (actors/work/describe.py, client/work/status.py)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

import orbitmq
from orbitmq.client.admin.status import GroupStatus
from orbitmq.client.work.hand_out import HandOut
from orbitmq.client.work.retries import waiting_retries
from orbitmq.client.work.session import WorkSession
from orbitmq.client.work.status import QueueWork
from tests.client.awaitable import run_watched
from tests.client.work_takes import collect
from tests.trees import indexed, small_broker
from tests.waiting import WATCHDOG_S, until

WINDOW = 65_536


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path_factory.mktemp("store"), queue_capacity=1024) as made:
        yield made


def fill(broker: orbitmq.Broker, topic: str, count: int, queues: int = 1) -> None:
    broker.create_topic(topic, queues)
    with broker.producer() as producer:
        for queue in range(queues):
            producer.send_batch(topic, [b"x"] * count, queue=queue)
    indexed(broker)


def take(worker: WorkSession, count: int) -> list[HandOut]:
    return sorted(collect(worker, count), key=lambda each: each.offset)


def work_of(group: GroupStatus, queue: int = 0) -> QueueWork:
    work = group.queues[queue].work
    assert work is not None
    return work


def test_who_has_what(broker: orbitmq.Broker, name: str) -> None:
    fill(broker, name, 4)
    with broker.work_session(name, [name], in_hand=50, visibility=600) as worker:
        first, second, third, fourth = take(worker, 4)
        worker.ack([third])
        worker.nack(second, delay=3600)
        assert worker.settled(WATCHDOG_S) == []
        group = broker.group(name)
        (shown,) = group.workers
        work = work_of(group)
        assert (work.in_hand, work.waiting, work.done, work.leaving) == (2, 1, 1, 0)
        assert work.free == 0 and group.lag_messages == 4 and not work.full and group.held_up == ()
        assert (shown.pid, shown.in_hand, shown.in_hand_max, shown.visibility_s) == (os.getpid(), 2, 50, 600.0)
        assert shown.topics == (name,) and shown.deadline_s is not None and 0 < shown.deadline_s <= 601
        assert work.next_s is not None and 600 < work.next_s <= 3601
        assert work.first is not None and work.first.left_s is not None and 0 < work.first.left_s <= 601
        found = work.first
        assert (found.offset, found.state, found.deliveries, found.pid) == (first.offset, "in hand", 1, os.getpid())
        worker.ack([first, fourth])
        assert worker.settled(WATCHDOG_S) == []
        found = work_of(broker.group(name)).first
        assert found is not None and (found.offset, found.state, found.pid) == (second.offset, "waiting", None)
        (listed,) = [each for each in broker.groups() if each.name == name]
        assert listed.workers[0].pid == os.getpid() and listed.workers[0].in_hand is None and listed.queues[0].work is None
        assert [client.groups for client in broker.clients() if name in client.groups] == [(name,)]

        async def same() -> GroupStatus:
            async with orbitmq.aio.connect(broker.name) as client:
                return await client.group(name)

        assert run_watched(same()).workers[0].in_hand == 0
    until(lambda: not broker.group(name).workers, "the worker to leave")
    assert broker.group(name).held_up == ("the group has no workers and no consumers now",)


def test_more_queues_than_one_answer(broker: orbitmq.Broker, name: str) -> None:
    fill(broker, name, 2, queues=40)
    with broker.work_session(name, [name]) as worker:
        taken = take(worker, 80)
        group = broker.group(name)
        assert [work_of(group, queue).in_hand for queue in range(40)] == [2] * 40 and group.workers[0].in_hand == 80
        worker.ack(taken)
        assert worker.settled(WATCHDOG_S) == []
        group = broker.group(name)
        assert group.workers[0].in_hand == 0 and group.workers[0].deadline_s is None and not group.held_up
        assert all(work_of(group, queue).first is None for queue in range(40))


def test_why_nobody_gets_it(broker: orbitmq.Broker, name: str) -> None:
    fill(broker, name, 3)
    fill(broker, f"{name}-2", 3)
    with broker.work_session(name, [name], in_hand=2) as worker:
        with broker.work_session(name, [f"{name}-2"]):
            pass
        reason = f"3 messages of {name}-2: no worker takes this topic"
        until(lambda: reason in broker.group(name).held_up, "the other worker to leave")
        with broker.work_session(f"{name}-other", [f"{name}-2"]):
            pass
        until(lambda: not broker.group(f"{name}-other").workers, "its worker to leave")
        with broker.work_session(f"{name}-other", [name]):  # the group begins anew, and has forgotten the topic
            assert reason in broker.group(f"{name}-other").held_up
        broker.pause_group(name)
        assert "the group is paused" in broker.group(name).held_up
        broker.resume_group(name)
        taken = take(worker, 2)
        assert f"1 message of {name}: each worker has as many in hand as its in_hand allows" in broker.group(name).held_up
        broker.set_permissions(name, read=False, write=True)
        until(lambda: f"1 message of {name}: the topic may not be read" in broker.group(name).held_up, "it to be seen")
        worker.ack(taken)


def test_what_failed_waits(broker: orbitmq.Broker, name: str) -> None:
    """A retry that is not due is in no queue of the group."""
    fill(broker, name, 3)
    with broker.work_session(name, [name]) as worker:
        for each in take(worker, 3)[:2]:
            worker.nack(each, reason="the bank is shut")
        assert worker.settled(WATCHDOG_S) == []
        seen = until(lambda: broker.group(name).retries == 2 and broker.group(name), "the retries to be in the log")
        assert seen.next_retry_s is not None and 0 < seen.next_retry_s <= 10
        (listed,) = [each for each in broker.groups() if each.name == name]
        assert listed.retries is None
        attached, now_ms = broker.connection.attachment, int(time.time() * 1000)
        assert waiting_retries(attached, name, now_ms + 11_000) == (0, None), "they are due then"
        assert waiting_retries(attached, "another", now_ms) == (0, None)
    until(lambda: not broker.group(name).workers, "the worker to leave")
    assert broker.group(name).retries is not None


def test_a_full_window(broker: orbitmq.Broker, name: str) -> None:
    """65,536 messages behind one that is not done."""
    fill(broker, name, WINDOW + 10)
    with broker.work_session(name, [name], in_hand=WINDOW, visibility=3600) as worker:
        first, *others = take(worker, WINDOW)
        assert first.offset == 0 and len(others) == WINDOW - 1
        worker.ack(others)
        assert worker.settled(WATCHDOG_S) == []
        group = broker.group(name)
        work = work_of(group)
        assert work.full and (work.done, work.in_hand, work.free) == (WINDOW - 1, 1, 10)
        assert group.held_up == (f"{name}/0 gives no more until its message 0 is done: its window is full",)
        worker.ack([first])
        take(worker, 10)
        assert not broker.group(name).held_up


def test_messages_that_wait_for_their_key(broker: orbitmq.Broker, name: str) -> None:
    broker.create_topic(name, 1)
    with broker.producer() as producer:
        for key in "aaa":
            producer.send(name, b"x", keys=key)
    indexed(broker)
    reason = f"2 messages of {name}: an earlier message of the same key is not done"
    with broker.work_session(name, [name], key_ordered=True) as worker:
        (first,) = take(worker, 1)
        assert worker.take(2, 0.0) == []  # it asks for more
        group = broker.group(name)
        assert group.key_ordered and group.held_up == (reason,)
        worker.nack(first, delay=3600)
        assert worker.settled(WATCHDOG_S) == []
        assert worker.take(2, 0.0) == []
        assert broker.group(name).held_up == (reason,)
