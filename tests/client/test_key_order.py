"""Goal: messages of one key are never in two hands at once, and come in the order of the log, in groups that ask for that.

Method: sessions of workers on a real broker, as in test_work_session.py; a topic and a group for each test. Random histories
are in tests/actors/test_key_order_model.py.
"""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.client.work.hand_out import HandOut
from orbitmq.client.work.session import WorkSession
from orbitmq.native._core import lib
from orbitmq.store import config
from orbitmq.store.config import DataVersion, TopicConfig
from orbitmq.store.layout import StoreLayout
from tests.client.work_takes import collect, lag, number
from tests.store.log_builder import LogBuilder
from tests.trees import SMALL, actors, kill, small_broker
from tests.waiting import WATCHDOG_S, until


@pytest.fixture(scope="module")
def broker(work_broker: orbitmq.Broker) -> orbitmq.Broker:
    return work_broker


def fill(broker: orbitmq.Client, topic: str, keys: Sequence[str | None], queues: int = 1, first: int = 0) -> None:
    """A message of each key, in this order in the log, spread over the queues."""
    broker.create_topic(topic, queues=queues)
    with broker.producer() as producer:
        for number, key in enumerate(keys, first):
            producer.send(topic, b"%d" % number, keys=key, queue=number % queues)


def ordered(broker: orbitmq.Client, *topics: str, **settings: Any) -> WorkSession:
    """A worker of the group called as the first topic."""
    return broker.work_session(topics[0], topics, key_ordered=True, **settings)


def numbers(found: Sequence[HandOut]) -> list[int]:
    return [number(each) for each in found]


def test_one_of_each_key_at_a_time(broker: orbitmq.Broker, name: str) -> None:
    fill(broker, name, ["a", "a", "b", None, "a", "b", None])
    with ordered(broker, name) as worker:
        first = collect(worker, 4)
        assert numbers(first) == [0, 2, 3, 6]
        assert worker.take(10, 0.05) == []
        worker.ack([first[1]])
        assert numbers(collect(worker, 1)) == [5]
        worker.ack([first[0]])
        (second,) = collect(worker, 1)
        assert number(second) == 1
        assert worker.take(10, 0.05) == []
        worker.ack([second])
        assert numbers(collect(worker, 1)) == [4]


def test_the_same_key_in_two_queues_and_topics(broker: orbitmq.Broker, name: str) -> None:
    """Goal: keys are the group's, and come in the order in which they stand in the log, whatever queue they are in."""
    other = f"{name}-2"
    for topic in (name, other):
        broker.create_topic(topic, queues=3)
    with broker.producer() as producer:
        for sent in range(30):
            producer.send((name, other)[sent % 2], b"%d" % sent, keys="k", queue=sent * 7 % 3)
    with ordered(broker, name, other) as one, ordered(broker, name, other) as two:
        came: list[int] = []
        while len(came) < 30:
            mine, its = one.take(10, 0.02), two.take(10, 0.02)
            assert len(mine) + len(its) <= 1
            came += numbers(mine) + numbers(its)
            one.ack(mine)
            two.ack(its)
        assert came == list(range(30))


def test_the_sharding_key_counts_first(tmp_path: Path) -> None:
    """Method: a store as RocketMQ writes it, whose clients can set the property."""
    layout = StoreLayout.at(tmp_path / "store")
    layout.make_folders()
    config.store_topics(layout, {"T": TopicConfig("T", 1, 1, perm=6)}, DataVersion())
    log = LogBuilder(layout, file_size=SMALL["log_file_size"])
    for sent, (words, sharding) in enumerate([("x", "s"), ("x", ""), ("y", "s"), ("y", "t"), ("x y", ""), ("x", "")]):
        properties = {"KEYS": words} | ({"__SHARDINGKEY": sharding} if sharding else {})
        log.append("T", body=b"%d" % sent, properties=properties, sealed=False)
    with small_broker(tmp_path / "store") as broker, broker.work_session("G", ["T"], key_ordered=True) as worker:
        assert numbers(collect(worker, 4)) == [0, 1, 3, 4]  # keys s, x, t and "x y"
        assert worker.take(10, 0.05) == []


@pytest.mark.parametrize("how", ["at_once", "later", "by_level", "given_back", "time_over", "dead"])
def test_what_fails_holds_back_those_behind_it(broker: orbitmq.Broker, name: str, how: str) -> None:
    """Goal: a message of a key that comes again is not overtaken by a later one of that key."""
    fill(broker, name, ["a", "a", "b"], queues=2)
    with ordered(broker, name) as other:
        worker = ordered(broker, name)
        first, b = collect(worker, 2)
        assert numbers([first, b]) == [0, 2]
        if how != "dead":
            worker.ack([b])
        if how in ("at_once", "later"):
            worker.nack(first, delay=0.0 if how == "at_once" else 0.2)
        elif how == "by_level":
            begun = time.monotonic()
            worker.nack(first)
            assert worker.settled(WATCHDOG_S) == []
            # 10 s in place, and not in a retry topic behind the next one
            assert other.take(10, 0.3) == [] or time.monotonic() - begun >= 10
            assert f"%RETRY%{name}" not in {topic.name for topic in broker.topics()}
            worker.close()
            return
        elif how == "given_back":
            worker.give_back([first])
        elif how == "time_over":
            worker.give_back([])  # it wants no more: else it might get the message again itself
            worker.extend(first, 0.05)
        elif how == "dead":
            worker.close()
        (again,) = [each for each in collect(other, 2 if how == "dead" else 1) if number(each) != 2]
        assert number(again) == 0
        assert again.delivery == 1 if how == "given_back" else again.delivery >= 2
        assert [each for each in other.take(10, 0.05) if number(each) != 2] == []
        other.ack([again])
        assert numbers(collect(other, 1)) == [1]
        worker.close()


def test_the_next_one_comes_when_the_tries_are_used_up(broker: orbitmq.Broker, name: str) -> None:
    fill(broker, name, ["a", "a"])
    with ordered(broker, name, max_tries=2) as worker:
        for delivery in (1, 2):
            (first,) = collect(worker, 1)
            assert (number(first), first.delivery) == (0, delivery)
            worker.nack(first, delay=0.0, reason="no")
        (second,) = collect(worker, 1)
        assert number(second) == 1
        letters = until(lambda: broker.dead_letters(name).list(), "reput")
        assert [bytes(letter.message.body) for letter in letters] == [b"0"]


def test_messages_without_a_key_are_retried_as_usual(broker: orbitmq.Broker, name: str) -> None:
    fill(broker, name, [None])
    with ordered(broker, name) as worker:
        worker.nack(collect(worker, 1)[0])
        until(lambda: f"%RETRY%{name}" in {topic.name for topic in broker.topics()}, "the retry topic")


def test_a_group_has_one_order(broker: orbitmq.Broker, name: str) -> None:
    fill(broker, name, ["a", "a"])

    def left() -> None:
        until(lambda: not broker.group(name).workers, "the worker to leave")

    with ordered(broker, name):
        with pytest.raises(errors.GroupInUse, match="came with key_ordered True") as caught:
            broker.work_session(name, [name])
        assert caught.value.members == 1
    left()
    with broker.work_session(name, [name]) as worker:
        assert numbers(collect(worker, 2)) == [0, 1]
        with pytest.raises(errors.GroupInUse, match="came with key_ordered False"):
            broker.worker(name, [name], key_ordered=True)
    left()
    with ordered(broker, name) as worker:
        assert numbers(collect(worker, 1)) == [0]
        assert worker.take(1, 0.05) == []


def test_a_key_that_nobody_finishes_stops_no_other(broker: orbitmq.Broker, name: str) -> None:
    """Goal: the other keys go on while one is stuck, as far as the window of its queue reaches."""
    fill(broker, name, ["stuck"])
    count = 3000
    with broker.producer() as producer:
        keys = ["stuck" if at % 2 else f"k{at}" for at in range(count)]
        for at in range(0, count, 500):
            producer.send_batch(name, [b"%d" % each for each in range(at + 1, at + 501)], keys=keys[at : at + 500])
    with ordered(broker, name, visibility=3600) as worker, ordered(broker, name) as other:
        (stuck,) = worker.take(1, WATCHDOG_S)
        assert number(stuck) == 0
        came: list[int] = []
        while len(came) < count // 2:
            lot = collect(other, 1)
            came += numbers(lot)
            other.ack(lot)
        assert came == list(range(1, count + 1, 2))
        assert other.take(10, 0.05) == []
        worker.ack([stuck])
        worker.close(WATCHDOG_S)
        assert numbers(collect(other, 1)) == [2]


@pytest.mark.parametrize("victim", ["dispatcher", "coordinator", "reput"])
def test_a_process_dies(broker: orbitmq.Broker, name: str, victim: str) -> None:
    fill(broker, name, [f"k{at % 7}" if at % 5 else None for at in range(200)], queues=3)
    with ordered(broker, name, visibility=WATCHDOG_S) as worker, ordered(broker, name) as other:
        held = worker.take(5, WATCHDOG_S)
        before = kill(broker, victim).pid
        until(lambda: actors(broker)[victim].pid not in (0, before), f"the next {victim}")
        keys = {key(each) for each in held} - {None}
        came: dict[str | None, list[int]] = {}
        while lot := other.take(50, 0.5):
            assert not keys & {key(each) for each in lot}
            for each in lot:
                came.setdefault(key(each), []).append(number(each))
            other.ack(lot)
        assert all(found == sorted(found) for at, found in came.items() if at)
        worker.ack(held)
        assert worker.settled(WATCHDOG_S) == []
        worker.close()
        rest = 200 - len(held) - sum(map(len, came.values()))
        while rest:
            lot = collect(other, 1)
            other.ack(lot)
            rest -= 1
        assert other.settled(WATCHDOG_S) == []
    assert sum(queue.lag_messages for queue in broker.group(name).queues) == 0


def test_a_dispatcher_begins_with_all_that_is_in_hand(broker: orbitmq.Broker, name: str) -> None:
    """Goal: what comes after the death of a dispatcher is of no key that somebody has in hand, wherever that stands in the log.

    Method: the older message of the key is of a topic that the group takes later. Between the two stand more than a dispatcher
    looks at in one step. The message without a key stands behind them all: it comes when the others have been looked at."""
    older, between = f"{name}-2", 600
    fill(broker, older, ["k"])
    fill(broker, name, [f"k{at}" for at in range(between)] + ["k"])
    with ordered(broker, name, in_hand=1000, visibility=WATCHDOG_S) as worker:
        held = collect(worker, between + 1)
        with broker.work_session(name, [older], key_ordered=True, visibility=WATCHDOG_S) as other:
            fill(broker, older, [None], first=1)
            assert numbers(other.take(10, WATCHDOG_S)) == [1]
            kill(broker, "dispatcher")
            fill(broker, older, [None], first=2)
            assert numbers(other.take(10, WATCHDOG_S)) == [2]
            worker.ack(held[-1:])
            assert numbers(other.take(10, WATCHDOG_S)) == [0]


def key(hand_out: HandOut) -> str | None:
    return (number(hand_out) % 5 and f"k{number(hand_out) % 7}") or None


def test_acknowledgements_ring_while_others_of_their_key_wait(broker: orbitmq.Broker, name: str) -> None:
    fill(broker, name, [f"k{at % 50}" for at in range(100)])
    with ordered(broker, name) as worker:
        found = iter(collect(worker, 50))
        until(
            lambda: worker.ack([next(found)]) is None and lib.work_link_untold(worker._line.link) == 0,
            "the dispatcher heeds acknowledgements",
        )


def test_handlers_of_one_worker(broker: orbitmq.Broker, name: str) -> None:
    """Goal: the threads of one worker are different hands."""
    fill(broker, name, [f"k{at % 4}" for at in range(60)], queues=2)
    lock = threading.Lock()
    busy: set[str] = set()
    came: dict[str, list[int]] = {}

    def handle(job: orbitmq.Job) -> None:
        mine = str(job.message.keys)
        with lock:
            assert mine not in busy
            busy.add(mine)
            came.setdefault(mine, []).append(int(job.body))
        with lock:
            busy.remove(mine)

    with broker.worker(name, [name], key_ordered=True, concurrency=8, idle=WATCHDOG_S) as worker:
        assert worker.run(handle, jobs=60) == 60
    until(lambda: lag(broker, name) == 0, "the last answers")
    assert len(came) == 4
    assert all(found == sorted(found) for found in came.values())


def test_a_message_that_cannot_be_found_now(broker: orbitmq.Broker, name: str) -> None:
    """Goal: no later message of its key overtakes it, in whatever queue that is.

    Method: the dispatcher can open no more files, and has that of the second queue alone."""
    broker.create_topic(name, queues=2)
    with broker.producer() as producer, ordered(broker, name) as worker:
        producer.send(name, b"0", queue=1)
        worker.ack(collect(worker, 1))
        assert worker.settled(WATCHDOG_S) == []
        pid = actors(broker)["dispatcher"].pid
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, hard))
        try:
            for queue, key in ((0, "k"), (1, "k"), (1, "other")):
                producer.send(name, key.encode(), keys=key, queue=queue)
            assert worker.take(10, 0.3) == []
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        found = collect(worker, 2)
        assert {(each.message.queue, bytes(each.message.body)) for each in found} == {(0, b"k"), (1, b"other")}
        assert actors(broker)["dispatcher"].pid == pid


def test_bad_order(broker: orbitmq.Broker, name: str) -> None:
    broker.create_topic(name, queues=1)
    with pytest.raises(errors.SettingError, match="key_ordered"):
        broker.work_session(name, [name], key_ordered="yes")  # type: ignore[arg-type]


def test_a_restart_of_the_tree(tmp_path: Path) -> None:
    with small_broker(tmp_path / "store", offsets_interval_s=0.05) as broker:
        fill(broker, "T", ["a", "b", "a", "b", None], queues=2)
        with broker.work_session("G", ["T"], key_ordered=True) as worker:
            found = {number(each): each for each in collect(worker, 3)}
            assert sorted(found) == [0, 1, 4]
            worker.ack([found[1]])
            assert numbers(collect(worker, 1)) == [3]
            assert worker.settled(WATCHDOG_S) == []
    with small_broker(tmp_path / "store") as broker, broker.work_session("G", ["T"], key_ordered=True) as worker:
        assert sorted(numbers(collect(worker, 3))) == [0, 3, 4]
        assert worker.take(10, 0.05) == []
