"""Goal: a group is reset while its workers are at work: they go on where it was put, and nothing from before counts. Method: a
real broker, whose dispatcher and coordinator are killed in between."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime
from itertools import cycle
from pathlib import Path

import pytest

import orbitmq
from orbitmq.client.work.handed import HandOut
from orbitmq.client.work.session import WorkSession
from orbitmq.store import config
from orbitmq.store.layout import StoreLayout
from orbitmq.store.work import files as work_files
from tests.trees import kill, small_broker
from tests.waiting import WATCHDOG_S, until


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path_factory.mktemp("store"), offsets_interval_s=0.05) as made:
        made.create_topic("t", 2)
        with made.producer() as producer:
            for queue in range(2):
                producer.send_batch("t", [b"%d" % n for n in range(20)], queue=queue)
        yield made


def take(worker: WorkSession, count: int) -> list[HandOut]:
    found: list[HandOut] = []
    while len(found) < count:
        found += worker.take(count - len(found), WATCHDOG_S)
    return found


def do(count: int, *workers: WorkSession) -> list[int]:
    """Takes and acknowledges so many, whoever gets them."""
    found: list[HandOut] = []
    for worker in cycle(workers):
        if len(found) == count:
            break
        some = worker.take(count - len(found), WATCHDOG_S if len(workers) == 1 else 0.01)
        worker.ack(some)
        assert worker.settled(WATCHDOG_S) == []
        found += some
    return sorted(int(bytes(each.message.body)) for each in found)


BOTH = sorted([*range(20)] * 2)


@pytest.mark.parametrize(
    ("to", "come"),
    [
        ("earliest", BOTH),
        ("latest", []),
        ("15", sorted([*range(15, 20)] * 2)),
        ("-3", sorted([17, 18, 19] * 2)),
        (datetime(2020, 1, 1), BOTH),
    ],
)
def test_workers_go_on_where_it_was_put(broker: orbitmq.Broker, to: str | datetime, come: list[int]) -> None:
    with broker.work_session("g", ["t"], in_hand=100) as worker, broker.work_session("g", ["t"], in_hand=100) as other:
        assert do(40, worker, other) == BOTH
        moves = broker.reset_group("g", to)
        assert {move.before for move in moves} == {20} and broker.group("g").lag_messages == len(come)
        assert do(len(come), worker, other) == come
        assert worker.take(1, 0.1) == other.take(1, 0.1) == []
        until(lambda: broker.group("g").lag_messages == 0, "all to be done")


def test_what_was_in_hand_does_not_count(broker: orbitmq.Broker) -> None:
    """Its answer comes too late, and the group gets what the reset says, once."""
    with broker.work_session("g", ["t"], in_hand=100) as worker:
        before = take(worker, 40)
        broker.reset_group("g", "latest")
        worker.ack(before)
        assert len(worker.settled(WATCHDOG_S)) == 40
        assert worker.take(1, 0.1) == [] and broker.group("g").lag_messages == 0
        broker.reset_group("g", "-1")
        assert do(2, worker) == [19, 19]


def test_one_queue_of_them(broker: orbitmq.Broker) -> None:
    """The other one keeps what is in hand, and what was done out of order."""
    with broker.work_session("g", ["t"], in_hand=100) as worker:
        found = take(worker, 40)
        kept = [each for each in found if each.message.queue == 1]
        worker.ack(kept[5:])
        assert worker.settled(WATCHDOG_S) == []
        broker.reset_group("g", "earliest", topic="t", queue=0)
        worker.ack(kept[:5])
        assert worker.settled(WATCHDOG_S) == []
        assert do(20, worker) == [*range(20)]
        until(lambda: broker.group("g").lag_messages == 0, "all to be done")


@pytest.mark.parametrize("key_ordered", [False, True])
@pytest.mark.parametrize("actor", ["dispatcher", "coordinator"])
def test_deaths(broker: orbitmq.Broker, actor: str, key_ordered: bool) -> None:
    """Whichever process dies after it, the group goes on where it was put; also after all workers have left."""
    with broker.work_session("g", ["t"], in_hand=100, key_ordered=key_ordered) as worker:
        for n in range(4):
            assert do(40 if n == 0 else 6, worker) == (BOTH if n == 0 else sorted([17, 18, 19] * 2))
            broker.reset_group("g", "17")
            kill(broker, actor)
        assert do(6, worker) == sorted([17, 18, 19] * 2)
        broker.reset_group("g", "18")
    until(lambda: not broker.status().sessions, "the worker's session to be gone")
    with broker.consumer("g", ["t"]) as consumer:
        found: list[int] = []
        while len(found) < 4:
            found += [int(bytes(each.body)) for each in consumer.poll_batch(10, timeout=WATCHDOG_S)]
    assert sorted(found) == [18, 18, 19, 19]


def test_a_coordinator_that_died_in_between(broker: orbitmq.Broker) -> None:
    """A queue has got its other file, and nobody has told the dispatcher: the next coordinator does."""
    layout = StoreLayout.at(Path(broker.status().store))
    with broker.work_session("g", ["t"], in_hand=100) as worker:
        assert do(40, worker) == BOTH
        until(lambda: sum(sum(each.values()) for each in config.load_offsets(layout).values()) == 40, "the offsets' file")
        work_files.renew(layout, "g", ("t", 0), 12345)
        kill(broker, "coordinator")
        with broker.producer() as producer:
            producer.send_batch("t", [b"20", b"21"], queue=0)
        assert do(2, worker) == [20, 21]
        until(lambda: broker.group("g").lag_messages == 0, "the new file to be read")


def test_while_workers_are_busy(broker: orbitmq.Broker) -> None:
    """Many resets under way, beside kills: in the end, everything comes from where the last one put it."""
    ended = threading.Event()

    def work() -> None:
        with orbitmq.connect(broker.name) as client, client.work_session("g", ["t"], in_hand=10) as worker:
            while not ended.is_set():
                worker.ack(worker.take(5, 0.01))

    with broker.work_session("g", ["t"], in_hand=1):
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for n in range(20):
                broker.reset_group("g", ("earliest", "latest", "-7")[n % 3])
                if n % 5 == 4:
                    kill(broker, ("dispatcher", "coordinator")[n // 5 % 2])
        finally:
            ended.set()
            for thread in threads:
                thread.join(WATCHDOG_S)
    with broker.work_session("g", ["t"], in_hand=100) as worker:
        broker.reset_group("g", "earliest")
        assert do(40, worker) == BOTH
