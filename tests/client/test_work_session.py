"""Goal: a worker gets each message of its group alone, answers for each alone, and loses what it does not answer.

Method: sessions of workers on a real broker, most of them in this process; one broker for the file, a topic and a group for
each test.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.actors.coordinator.coordinator import LATER_S
from orbitmq.client.work.hand_out import HandOut
from orbitmq.client.work.session import WorkSession
from orbitmq.native._core import lib
from orbitmq.store.layout import StoreLayout
from tests.client.work_takes import collect, fill, lag, number
from tests.trees import actor, indexed, kill, small_broker, stopped
from tests.waiting import WATCHDOG_S, until


@pytest.fixture(scope="module")
def broker(work_broker: orbitmq.Broker) -> orbitmq.Broker:
    return work_broker


def test_each_message_once(broker: orbitmq.Broker, name: str) -> None:
    fill(broker, name, 500)
    with broker.work_session(name, [name]) as worker:
        found = collect(worker, 500)
        assert sorted(map(number, found)) == list(range(500))
        assert {each.delivery for each in found} == {1}
        assert worker.take(1, 0.0) == []
        worker.ack(found)
        assert worker.settled(WATCHDOG_S) == []
        assert lag(broker, name) == 0


def test_more_workers_than_queues(broker: orbitmq.Broker, name: str) -> None:
    """Goal: workers share one queue, and one that is busy with a few messages does not hold up the others."""
    fill(broker, name, 300, queues=1)
    workers = [broker.work_session(name, [name]) for _ in range(3)]
    slow = collect(workers[0], 5)
    found = [number(each) for each in slow]
    while len(found) < 300:
        for worker in workers[1:]:
            got = worker.take(20, 0.05)
            worker.ack(got)
            found += map(number, got)
    assert sorted(found) == list(range(300))
    assert lag(broker, name) > 0
    workers[0].ack(slow)
    for worker in workers:
        assert worker.settled(WATCHDOG_S) == []
        worker.close()
    assert lag(broker, name) == 0


def test_a_worker_waits_for_messages(broker: orbitmq.Broker, name: str) -> None:
    broker.create_topic(name, queues=2)
    with broker.work_session(name, [name]) as worker:
        found: list[HandOut] = []
        thread = threading.Thread(target=lambda: found.extend(worker.take(10, WATCHDOG_S)))
        thread.start()
        fill(broker, name, 1)
        thread.join()
        assert [number(each) for each in found] == [0]


def test_no_more_in_hand_than_asked_for(broker: orbitmq.Broker, name: str) -> None:
    """Goal: what one worker has not asked for is left to the others."""
    fill(broker, name, 100, queues=1)
    with broker.work_session(name, [name], in_hand=10) as greedy, broker.work_session(name, [name]) as other:
        mine = collect(greedy, 10)
        assert greedy.take(10, 0.05) == []  # ten are in hand
        rest = collect(other, 90)
        assert len({number(each) for each in mine + rest}) == 100
        greedy.ack(mine[:3])
        other.nack(rest[0], delay=0)
        assert number(collect(greedy, 1)[0]) == number(rest[0])


def test_nack_comes_again(broker: orbitmq.Broker, name: str) -> None:
    fill(broker, name, 3, queues=1)
    with broker.work_session(name, [name]) as worker:
        first, second, third = collect(worker, 3)
        worker.nack(second, delay=0, reason="no")
        again = collect(worker, 1)[0]
        assert (number(again), again.delivery) == (1, 2)
        worker.nack(again, delay=0.05)
        late = collect(worker, 1)[0]
        assert (number(late), late.delivery) == (1, 3)
        worker.nack(late)  # ten seconds and more
        assert worker.take(1, 0.0) == []
        worker.ack([first, third])
        assert worker.settled(WATCHDOG_S) == []
        until(lambda: lag(broker, name) == 0, "the retry to be in the log, and the group behind the message")
        indexed(broker)
        assert broker.group(name).retries == 1


def test_visibility(broker: orbitmq.Broker, name: str) -> None:
    """Goal: what a worker neither answers nor extends goes to another one, and its late answer does not count."""
    fill(broker, name, 2, queues=1)
    with broker.work_session(name, [name], visibility=30.0) as slow, broker.work_session(name, [name]) as quick:
        kept, lost = collect(slow, 2)
        before = kept.deadline
        slow.extend(kept, 90.0)
        slow.extend(lost, 0.01)
        assert kept.deadline > before + 30
        again = collect(quick, 1)[0]  # not to the one that hangs, which would get it again and again
        assert (number(again), again.delivery) == (number(lost), 2)
        slow.ack([lost, kept])
        assert slow.settled(WATCHDOG_S) == [lost]
        assert slow.settled(WATCHDOG_S) == []
        quick.ack([again])
        assert quick.settled(WATCHDOG_S) == []
        assert lag(broker, name) == 0


def test_give_back(broker: orbitmq.Broker, name: str) -> None:
    fill(broker, name, 10, queues=1)
    with broker.work_session(name, [name]) as one, broker.work_session(name, [name]) as other:
        found = collect(one, 10)
        one.give_back(found[:4])
        one.nack(found[4], delay=0)
        got = {number(each): each.delivery for each in collect(other, 5)}
        assert got == {0: 1, 1: 1, 2: 1, 3: 1, 4: 2}


def test_close_gives_back_what_was_not_taken(broker: orbitmq.Broker, name: str) -> None:
    fill(broker, name, 20, queues=1)
    one = broker.work_session(name, [name])
    mine = one.take(1, WATCHDOG_S)
    one.ack(mine)
    collect(one, 10)
    one.close(WATCHDOG_S)
    with broker.work_session(name, [name]) as other:
        deliveries = {number(each): each.delivery for each in collect(other, 19)}
        assert set(deliveries.values()) == {1, 2}
        assert sum(count == 2 for count in deliveries.values()) == 10


DYING = """
import orbitmq, os, signal, sys
worker = orbitmq.connect(sys.argv[1]).work_session(sys.argv[2], [sys.argv[2]], visibility=3600)
found = []
while len(found) < 10:
    found += worker.take(10 - len(found), 60)
worker.ack(found[:4])
if sys.argv[3] == "settled":
    worker.settled(60)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["settled", "published"])
def test_a_dead_worker(broker: orbitmq.Broker, name: str, how: str) -> None:
    """Goal: what a killed worker had in hand comes again at once, long before its time is over; what it has acknowledged does
    not."""
    fill(broker, name, 10, queues=1)
    done = subprocess.run([sys.executable, "-c", DYING, broker.name, name, how], check=False)
    assert done.returncode == -signal.SIGKILL
    with broker.work_session(name, [name]) as worker:
        found = {number(each): each.delivery for each in collect(worker, 6)}
        assert found == dict.fromkeys(range(4, 10), 2)
        assert worker.take(1, 0.0) == []


def test_interrupt(broker: orbitmq.Broker, name: str) -> None:
    broker.create_topic(name, queues=1)
    with broker.work_session(name, [name]) as worker:
        worker.interrupt()
        assert worker.take(1, WATCHDOG_S) == []
        thread = threading.Thread(target=worker.take, args=(1, WATCHDOG_S))
        thread.start()
        worker.interrupt()
        thread.join()


def test_answers_do_not_wait_for_take(broker: orbitmq.Broker, name: str) -> None:
    fill(broker, name, 1, queues=1)
    with broker.work_session(name, [name]) as worker:
        mine = collect(worker, 1)
        thread = threading.Thread(target=worker.take, args=(1, WATCHDOG_S))
        thread.start()
        worker.extend(mine[0], 20)
        worker.ack(mine)
        assert worker.settled(WATCHDOG_S) == []
        worker.interrupt()
        thread.join()


def test_close_ends_the_wait_of_another_thread(broker: orbitmq.Broker, name: str) -> None:
    broker.create_topic(name, queues=1)
    worker = broker.work_session(name, [name])
    raised: list[type[Exception]] = []

    def wait() -> None:
        try:
            worker.take(1, WATCHDOG_S)
        except errors.Closed as error:
            raised.append(type(error))

    thread = threading.Thread(target=wait)
    thread.start()
    worker.close()
    thread.join()
    assert raised == [errors.Closed]
    with pytest.raises(errors.Closed):
        worker.ack([])


# ---- consumers and workers in one group


def test_a_group_has_one_kind_of_members(broker: orbitmq.Broker, name: str) -> None:
    """Goal: consumers and workers never share a group, but follow each other: each goes on where the other was."""
    fill(broker, name, 10, queues=1)
    with broker.work_session(name, [name]) as worker:
        worker.ack(collect(worker, 4))
        assert worker.settled(WATCHDOG_S) == []
        with pytest.raises(errors.GroupInUse, match="1 worker"):
            broker.consumer(name, [name])
        with pytest.raises(errors.GroupInUse):
            broker.delete_group(name)
    with broker.consumer(name, [name], start="earliest") as consumer:
        assert [int(bytes(each.body)) for each in consumer.poll_batch(3, timeout=WATCHDOG_S)] == [4, 5, 6]
        consumer.commit()
        with pytest.raises(errors.GroupInUse, match="1 consumer"):
            broker.work_session(name, [name])
    with broker.work_session(name, [name]) as worker:
        assert [number(each) for each in collect(worker, 3)] == [7, 8, 9]


def test_reset_and_delete(broker: orbitmq.Broker, name: str) -> None:
    fill(broker, name, 10, queues=1)
    with broker.work_session(name, [name]) as worker:
        worker.ack(collect(worker, 10))
        assert worker.settled(WATCHDOG_S) == []
    broker.reset_group(name, 6)
    with broker.work_session(name, [name]) as worker:
        assert [number(each) for each in collect(worker, 4)] == [6, 7, 8, 9]
    broker.delete_group(name)
    with broker.work_session(name, [name]) as worker:
        assert number(collect(worker, 1)[0]) == 0


@pytest.mark.parametrize("wanted", ["delete", "consume", "order", "filter"])
def test_right_after_the_last_worker(broker: orbitmq.Broker, name: str, wanted: str) -> None:
    """Goal: who has closed the last worker may do at once what its group refuses while it has any. Method: the dispatcher has
    to take the last answers, and is stopped meanwhile."""
    fill(broker, name, 3, queues=1)
    worker = broker.work_session(name, [name])
    worker.ack(collect(worker, 1))

    def do() -> None:
        if wanted == "delete":
            broker.delete_group(name)
        elif wanted == "consume":
            broker.consumer(name, [name]).close()
        else:
            how: dict[str, Any] = {"key_ordered": True} if wanted == "order" else {"tags": "a"}
            broker.work_session(name, [name], **how).close()

    with pytest.raises(errors.GroupInUse):
        do()
    with orbitmq.connect(broker.name) as other, ThreadPoolExecutor() as pool:
        with stopped(other, "dispatcher"):
            worker.close()
            done = pool.submit(do)
            steps = actor(other, "coordinator").counters["steps"]
            until(lambda: actor(other, "coordinator").counters["steps"] > steps + 10, "the coordinator to look again")
            assert [each.name for each in other.topics() if each.name == name] == [name], "the others are served meanwhile"
            assert not done.done()
        done.result(WATCHDOG_S)


def test_a_worker_that_does_not_end(broker: orbitmq.Broker, name: str) -> None:
    """Goal: nobody waits for ever for a dispatcher that hangs. Method: it is stopped for as long as that."""
    fill(broker, name, 3, queues=1)
    with orbitmq.connect(broker.name, timeout=WATCHDOG_S) as other:
        worker = other.work_session(name, [name])
        with stopped(broker, "dispatcher"):
            worker.close()
            began = time.monotonic()
            with pytest.raises(errors.GroupInUse, match="1 worker"):
                other.delete_group(name)
            assert time.monotonic() - began >= LATER_S
        until(lambda: not broker.status().sessions, "the worker's session to be gone")
        other.delete_group(name)


def test_a_coordinator_that_dies_while_a_question_waits(broker: orbitmq.Broker, name: str) -> None:
    """Goal: its successor knows that the worker has closed, and the question is answered. Method: it is killed meanwhile."""
    fill(broker, name, 3, queues=1)
    worker = broker.work_session(name, [name])
    worker.ack(collect(worker, 1))
    with orbitmq.connect(broker.name, timeout=WATCHDOG_S) as other, ThreadPoolExecutor() as pool:
        with stopped(other, "dispatcher"):
            worker.close()
            done = pool.submit(other.consumer, name, [name])
            steps = actor(broker, "coordinator").counters["steps"]
            until(lambda: actor(broker, "coordinator").counters["steps"] > steps + 10, "the question to wait")
            kill(broker, "coordinator")
        with done.result(WATCHDOG_S) as consumer:
            assert len(consumer.poll_batch(9, timeout=WATCHDOG_S)) > 0


def test_a_client_that_does_not_wait(broker: orbitmq.Broker, name: str) -> None:
    """Goal: a question that waits costs little, also if its client has gone. Method: the coordinator's steps until then."""
    fill(broker, name, 3, queues=1)
    worker = broker.work_session(name, [name])
    with stopped(broker, "dispatcher"):
        worker.close()
        other = orbitmq.connect(broker.name)
        other.connection.timeout = 0.01
        with pytest.raises(errors.TimedOut):
            other.delete_group(name)
        other.close()
        before, began = actor(broker, "coordinator").counters["steps"], time.monotonic()
        until(lambda: time.monotonic() - began > LATER_S, "the question's end")
        assert actor(broker, "coordinator").counters["steps"] - before < 1000 * LATER_S
    until(lambda: name not in {each.name for each in broker.groups()} or not broker.status().sessions, "the session's end")


def test_what_was_handed_out_before_a_reset(broker: orbitmq.Broker, name: str) -> None:
    """Goal: an answer to it counts for nothing, also when the same messages are in this session's hands again."""
    fill(broker, name, 3, queues=1)
    with broker.work_session(name, [name]) as worker:
        before = collect(worker, 3)
        broker.reset_group(name, "earliest")
        after = collect(worker, 3)
        assert [number(each) for each in after] == [0, 1, 2]
        worker.ack(before)
        assert set(worker.settled(WATCHDOG_S)) == set(before)
        assert lag(broker, name) == 3
        worker.ack(after)
        assert worker.settled(WATCHDOG_S) == []
        assert lag(broker, name) == 0


def test_a_paused_group(broker: orbitmq.Broker, name: str) -> None:
    fill(broker, name, 5, queues=1)
    with broker.work_session(name, [name]) as worker:
        worker.ack(collect(worker, 5))
        assert worker.settled(WATCHDOG_S) == []
        broker.pause_group(name)
        fill(broker, name, 5, queues=1, first=5)
        assert worker.take(1, 0.1) == []
        broker.resume_group(name)
        assert [number(each) for each in collect(worker, 5)] == [5, 6, 7, 8, 9]


def test_a_topic_that_grows(broker: orbitmq.Broker, name: str) -> None:
    broker.create_topic(name, queues=1)
    with broker.work_session(name, [name]) as worker:
        fill(broker, name, 20, queues=4)
        assert sorted(map(number, collect(worker, 20))) == list(range(20))


def test_workers_of_different_topics(broker: orbitmq.Broker, name: str) -> None:
    """Goal: each worker gets messages of its own topics only."""
    other = name + "-other"
    fill(broker, name, 10)
    fill(broker, other, 10)
    with broker.work_session(name, [name]) as one, broker.work_session(name, [name, other]) as both:
        mine = collect(one, 10)
        assert {each.message.topic for each in mine} == {name}
        assert {each.message.topic for each in collect(both, 10)} == {other}


# ---- limits


def test_the_window(broker: orbitmq.Broker, name: str) -> None:
    """Goal: a message that nobody finishes does not stop the queue until the window behind it is full; then nothing is lost."""
    window = int(lib.WORK_WINDOW)
    fill(broker, name, window + 100, queues=1)
    with broker.work_session(name, [name], in_hand=5000, visibility=3600) as worker:
        first = collect(worker, 1)
        for _ in range((window - 1) // 3000):
            worker.ack(collect(worker, 3000, most=3000))
        worker.ack(collect(worker, (window - 1) % 3000, most=3000))
        assert worker.settled(WATCHDOG_S) == []
        assert worker.take(1, 0.05) == []
        assert lag(broker, name) == window + 100
        worker.ack(first)
        assert sorted(map(number, collect(worker, 100))) == list(range(window, window + 100))
        assert lag(broker, name) == 100


def untold(worker: WorkSession) -> int:
    """Answers for which the dispatcher was not rung."""
    return int(lib.work_link_untold(worker._line.link))


def test_acknowledgements_that_nobody_waits_for_ring_no_bell(broker: orbitmq.Broker, name: str) -> None:
    """Goal: a worker that has other messages in its hands does not wake the dispatcher for each acknowledgement, and does
    before it waits, for every other answer, and often enough that it has work while the dispatcher fetches more."""
    fill(broker, name, 300, queues=1)  # more than it can take
    with broker.work_session(name, [name], in_hand=100) as worker:
        found = collect(worker, 100)
        worker.ack(found[:1])
        assert untold(worker) == 1
        worker.ack(found[1:50])
        assert untold(worker) == 0  # half of what it wants
        worker.ack(found[50:51])
        assert untold(worker) == 1
        worker.nack(found[51], delay=0)
        assert untold(worker) == 0
        while worker.take(1, 0.0):
            pass
        worker.ack(found[52:53])
        assert worker.take(1, WATCHDOG_S)
        worker.ack(found[53:54])
        assert worker.settled(WATCHDOG_S) == []
        assert untold(worker) == 0
        for each in found[54:]:
            worker.ack([each])


def test_acknowledgements_that_a_thread_waits_for_ring(broker: orbitmq.Broker, name: str) -> None:
    fill(broker, name, 130, queues=1)
    with broker.work_session(name, [name], in_hand=64) as worker:
        found = collect(worker, 64)
        got: list[HandOut] = []
        thread = threading.Thread(target=lambda: got.extend(worker.take(1, WATCHDOG_S)))
        thread.start()
        try:
            left = iter(found)
            until(lambda: worker.ack([next(left)]) is None and untold(worker) == 0, "an acknowledgement rings")
        finally:
            thread.join()
        assert len(got) == 1


def test_acknowledgements_ring_while_the_window_is_full(broker: orbitmq.Broker, name: str) -> None:
    """Goal: what one worker acknowledges, and another one waits for, is not left until the dispatcher wakes by itself."""
    fill(broker, name, lib.WORK_WINDOW + 1, queues=1)
    with broker.work_session(name, [name], in_hand=lib.WORK_WINDOW) as worker:
        found = collect(worker, lib.WORK_WINDOW, lib.WORK_WINDOW)
        left = iter(found[1:])
        until(lambda: worker.ack([next(left)]) is None and untold(worker) == 0, "the dispatcher heeds acknowledgements")
        worker.ack(found[:1])
        assert untold(worker) == 0
        assert [number(each) for each in worker.take(2, WATCHDOG_S)] == [lib.WORK_WINDOW]


@pytest.mark.parametrize(
    ("setting", "value"),
    [("in_hand", 0), ("in_hand", 65537), ("in_hand", True), ("visibility", 0.01), ("visibility", 1e6), ("start", "middle")],
)
def test_settings_out_of_range(broker: orbitmq.Broker, name: str, setting: str, value: object) -> None:
    broker.create_topic("settings", queues=1)
    until(lambda: not broker.status().sessions, "the sessions of other tests to be gone")
    with pytest.raises(errors.SettingError, match=setting):
        broker.work_session("settings", ["settings"], **{setting: value})
    until(lambda: not broker.status().sessions, "the session to be gone")


def test_calls_out_of_range(broker: orbitmq.Broker, name: str) -> None:
    fill(broker, name, 1, queues=1)
    with broker.work_session(name, [name]) as worker:
        mine = collect(worker, 1)[0]
        for seconds in (-1, float("nan"), 43201):
            with pytest.raises(errors.SettingError, match="43200"):
                worker.nack(mine, delay=seconds)
            with pytest.raises(errors.SettingError, match="43200"):
                worker.extend(mine, seconds)
        with pytest.raises(errors.SettingError):
            worker.take(0, 0)
        worker.ack([mine])
        assert worker.settled(WATCHDOG_S) == []
    with pytest.raises(errors.UnknownTopic):
        broker.work_session(name, ["no-such-topic"])
    with pytest.raises(errors.GroupNameError):
        broker.work_session("no such name", [name])


def test_a_damaged_message_holds_up_nothing(tmp_path: Path) -> None:
    """Goal: a worker that takes one at a time goes on behind a message that cannot be read, and gets it again later."""
    with small_broker(tmp_path / "store") as broker:
        fill(broker, "jobs", 3, queues=1)
        indexed(broker)  # or reput stops at the damage
        with (StoreLayout.at(tmp_path / "store").commitlog / f"{0:020d}").open("r+b") as file:
            file.seek(4)  # the magic code of the first record
            file.write(bytes(4))
        with broker.work_session("g", ["jobs"], visibility=3600) as worker:
            with pytest.raises(errors.CorruptRecord):
                worker.take(1, WATCHDOG_S)
            assert [number(each) for each in collect(worker, 2, most=1)] == [1, 2]
        with broker.work_session("h", ["jobs"], visibility=0.1) as worker:
            for _ in range(3):
                with pytest.raises(errors.CorruptRecord):
                    while worker.take(1, WATCHDOG_S):
                        pass
