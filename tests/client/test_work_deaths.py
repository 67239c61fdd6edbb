"""Goal: what workers have answered stays answered, and what they have not comes again, whatever process dies or topic changes.

Method: as in test_work_session.py.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.native._core import lib
from orbitmq.store.config import load_topics, store_topics
from orbitmq.store.layout import StoreLayout
from orbitmq.store.work import files as work_files
from tests.client.work_takes import collect, fill, lag, number
from tests.trees import actors, kill, small_broker
from tests.waiting import WATCHDOG_S, dead, until


@pytest.fixture(scope="module")
def broker(work_broker: orbitmq.Broker) -> orbitmq.Broker:
    return work_broker


@pytest.mark.parametrize("victim", ["dispatcher", "coordinator", "reput", "writer", "notifier"])
def test_a_process_dies(broker: orbitmq.Broker, name: str, victim: str) -> None:
    """Goal: whichever process is killed, the workers go on: nothing acknowledged comes again, nothing is lost, and what is in
    hand stays in hand."""
    fill(broker, name, 300, queues=2)
    with broker.work_session(name, [name], visibility=3600) as worker:
        done, held = collect(worker, 50), collect(worker, 50)
        worker.ack(done)
        assert worker.settled(WATCHDOG_S) == []
        kill(broker, victim)
        until(lambda: actors(broker)[victim].pid, f"the next {victim}")
        fill(broker, name, 100, queues=2, first=300)
        rest = collect(worker, 300)
        assert {each.delivery for each in rest} == {1}
        assert {number(each) for each in done + held + rest} == set(range(400))
        worker.ack(held + rest)
        assert worker.settled(WATCHDOG_S) == []
        assert lag(broker, name) == 0


def test_a_plan_that_cannot_be_read_now(broker: orbitmq.Broker, name: str) -> None:
    """Goal: the dispatcher waits for the means to read it, and lives.

    Method: it can open no more files when a worker comes."""
    pid = actors(broker)["dispatcher"].pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        fill(broker, name, 10)
        with broker.work_session(name, [name]) as worker:
            assert worker.take(10, 0.3) == []
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
            worker.ack(collect(worker, 10))
            assert worker.settled(WATCHDOG_S) == []
    finally:
        resource.prlimit(actors(broker)["dispatcher"].pid or pid, resource.RLIMIT_NOFILE, limits)
    assert actors(broker)["dispatcher"].pid == pid


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_acknowledgements_out_of_order_survive_a_restart(tmp_path: Path, how: str) -> None:
    """Goal: after a death of the whole tree, and after a stop, every message that was acknowledged stays done, whatever stands
    before it."""
    store = tmp_path / "store"
    with small_broker(store, offsets_interval_s=3600) as broker:
        fill(broker, "orders", 200)
        worker = broker.work_session("billing", ["orders"], visibility=3600)
        found = collect(worker, 200)
        worker.ack([each for each in found if number(each) % 3])
        assert worker.settled(WATCHDOG_S) == []
        if how == "kill":
            os.kill(broker.pid, signal.SIGKILL)
            until(lambda: dead(broker.pid), "the death of the broker")
        else:
            broker.stop_broker()
        with pytest.raises((errors.BrokerStopped, errors.BrokerNotRunning)):
            worker.take(1, WATCHDOG_S)
    with small_broker(store) as broker, broker.work_session("billing", ["orders"]) as worker:
        again = collect(worker, 67)
        assert sorted(map(number, again)) == list(range(0, 200, 3))
        assert {each.delivery for each in again} == {2}
        assert worker.take(1, 0.1) == []
        worker.ack(again)
        assert worker.settled(WATCHDOG_S) == []
        assert lag(broker, "billing") == 0


def test_a_late_acknowledgement_is_refused_by_the_next_dispatcher(broker: orbitmq.Broker, name: str) -> None:
    """Goal: an acknowledgement that came too late does not count as one that a dead dispatcher has applied."""
    fill(broker, name, 1, queues=1)
    with broker.work_session(name, [name], in_hand=1) as worker:
        late = collect(worker, 1)
        worker.extend(late[0], 0.01)
        file = work_files.path_of(StoreLayout.at(broker.connection.attachment.store), name, (name, 0))
        until(lambda: not file.read_bytes()[lib.WORK_FILE_SIZE - 8 * lib.WORK_WINDOW] & 3, "the end of its time")
        dispatcher = actors(broker)["dispatcher"].pid
        os.kill(dispatcher, signal.SIGSTOP)
        worker.ack(late)
        kill(broker, "dispatcher")
        assert worker.settled(WATCHDOG_S) == late
        worker.ack(collect(worker, 1))
        assert worker.settled(WATCHDOG_S) == []


def test_what_a_deleted_topic_had_in_hand_takes_no_room(broker: orbitmq.Broker, name: str) -> None:
    """Goal: a worker whose hands were full of messages of a topic that was deleted gets those of its other topics."""
    gone, stays = f"{name}-gone", f"{name}-stays"
    fill(broker, gone, 10, queues=1)
    broker.create_topic(stays, queues=1)
    with broker.work_session(name, [gone, stays], in_hand=10, visibility=3600) as worker:
        mine = collect(worker, 10)
        broker.delete_topic(gone)
        fill(broker, stays, 10, queues=1)
        worker.ack(mine)
        assert worker.settled(WATCHDOG_S) == mine
        worker.ack(found := worker.take(10, 10.0))
        assert found


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_start_removes_the_files_of_deleted_topics(tmp_path: Path, how: str) -> None:
    """Goal: what groups knew of a topic that was deleted takes no room after the next start; what they know of others stays,
    also of a topic that was made again."""
    store = tmp_path / "store"
    layout = StoreLayout.at(store)
    with small_broker(store, offsets_interval_s=3600) as broker:
        for topic in ("gone", "again", "stays"):
            fill(broker, topic, 10, queues=2)
        with broker.work_session("billing", ["gone", "again", "stays"]) as worker, broker.work_session("only", ["gone"]):
            worker.ack([each for each in collect(worker, 30) if number(each) % 3])
            assert worker.settled(WATCHDOG_S) == []
        broker.delete_topic("gone")
        broker.delete_topic("again")
        fill(broker, "again", 3, queues=2)
        assert len(list(work_files.of_group(layout, "billing"))) == 6
        if how == "kill":
            os.kill(broker.pid, signal.SIGKILL)
            until(lambda: dead(broker.pid), "the death of the broker")
        else:
            broker.stop_broker()
    with small_broker(store) as broker:
        found = [queue for queue, _ in work_files.of_group(layout, "billing")]
        assert found == [("again", 0), ("again", 1), ("stays", 0), ("stays", 1)]
        assert work_files.groups(layout) == ["billing"]
        with broker.work_session("billing", ["again", "stays"]) as worker:
            assert sorted(map(number, collect(worker, 7))) == [0, 0, 1, 2, 3, 6, 9]
            assert worker.take(1, 0.0) == []


def test_a_start_forgets_work_on_messages_that_were_cut(tmp_path: Path) -> None:
    """Goal: messages that get the offsets of lost ones are handed out, although the lost ones were done. Method: the broker
    starts on an older log, with the newer state of its workers."""
    then, now = tmp_path / "then", tmp_path / "now"

    def send(broker: orbitmq.Broker, first: int) -> None:
        with broker.producer() as producer:
            producer.send_batch("t", [b"%d" % (first + n) for n in range(5)], queue=0)

    with small_broker(now) as broker:
        fill(broker, "t", 5, queues=1)
    shutil.copytree(now, then)
    with small_broker(now) as broker:
        send(broker, 5)
        with broker.work_session("billing", ["t"]) as worker:
            worker.ack([each for each in collect(worker, 10) if number(each)])  # the group stays at the first message
            assert worker.settled(WATCHDOG_S) == []
    for each in (StoreLayout.at(now).work, now / "config"):
        shutil.copytree(each, then / each.relative_to(now), dirs_exist_ok=True)
    with small_broker(then) as broker:
        send(broker, 100)
        with broker.work_session("billing", ["t"]) as worker:
            assert sorted(map(number, collect(worker, 10))) == [*range(5), *range(100, 105)]


@pytest.mark.parametrize("timeout", [0.0, WATCHDOG_S], ids=["at_once", "waiting"])
def test_what_was_not_taken_is_not_delivered(broker: orbitmq.Broker, name: str, timeout: float) -> None:
    """Goal: what a worker has got from the broker, and its program has not, does not count as delivered when the worker ends.
    Method: the program does not look again until the broker has handed out."""
    broker.create_topic(name, queues=1)
    file = work_files.path_of(StoreLayout.at(broker.connection.attachment.store), name, (name, 0))
    worker = broker.work_session(name, [name])
    assert worker.take(10, 0.0) == []
    fill(broker, name, 3, queues=1)
    until(lambda: file.read_bytes()[lib.WORK_FILE_SIZE - 8 * lib.WORK_WINDOW] & 3, "the first one to be in hand")
    worker.close(timeout)
    with broker.work_session(name, [name]) as worker:
        assert [(number(each), each.delivery) for each in collect(worker, 3)] == [(0, 1), (1, 1), (2, 1)]


def test_a_topic_that_may_not_be_read(broker: orbitmq.Broker, name: str) -> None:
    """Goal: nothing of a topic that may not be read is handed out; when it may, all of it is."""
    fill(broker, name, 20, queues=1)
    with broker.work_session(name, [name], in_hand=5) as worker, broker.work_session(name, [name]) as other:
        mine = collect(worker, 5)
        broker.set_permissions(name, read=False, write=True)
        assert other.take(5, 0.3) == []
        worker.ack(mine)
        assert worker.settled(WATCHDOG_S) == []
        kill(broker, "coordinator")
        assert worker.take(5, 0.3) == []
        broker.set_permissions(name, read=True, write=True)
        rest = collect(other, 10) + collect(worker, 5)
        assert sorted((number(each), each.delivery) for each in rest) == [(at, 1) for at in range(5, 20)]


def test_a_topic_that_grew_when_the_coordinator_died(broker: orbitmq.Broker, name: str) -> None:
    """Goal: workers get the messages of queues that a topic got from a coordinator that died before it could tell them."""
    broker.create_topic(name, queues=1)
    layout = StoreLayout.at(broker.connection.attachment.store)
    with broker.work_session(name, [name]) as worker:
        configs, version = load_topics(layout)
        grown = replace(configs[name], read_queues=2, write_queues=2)
        store_topics(layout, {**configs, name: grown}, version.next())
        kill(broker, "coordinator")
        until(lambda: broker.topic(name).queues[1:], "the second queue")
        with broker.producer() as producer:
            assert producer.send(name, b"7", queue=1).queue == 1
        worker.ack(found := worker.take(1, 10.0))
        assert [number(each) for each in found] == [7]
