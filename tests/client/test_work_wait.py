"""Goal: a worker whose broker was killed hears of that alone, and with patience goes on at the next one.

Method: sessions of workers, whose broker dies at a moment that the test chooses.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.client.work.answers import TEXT_MAX
from orbitmq.client.work.hand_out import HandOut
from orbitmq.client.work.session import WorkSession
from tests.client.restarts import Restarts
from tests.client.test_wait import PATIENT_S, meanwhile
from tests.client.work_takes import collect, fill, number
from tests.waiting import WATCHDOG_S, until


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Restarts]:
    with Restarts(tmp_path / "store") as tree:
        tree.start()
        yield tree


def handed_out(client: orbitmq.Client, *workers: WorkSession) -> None:
    """Three messages, of which the broker has handed out one to each worker, which has not read it."""
    for worker in workers:
        assert worker.take(1, 0) == []
    fill(client, "orders", 3, queues=1)
    for worker in workers:
        until(lambda: has_one(client, worker.settings.group), "the hand-out")


def has_one(client: orbitmq.Client, group: str) -> bool:
    return any(each.work and each.work.in_hand for each in client.group(group).queues)


def without_queue(tree: Restarts) -> None:
    """The broker is dead, and the next one's recovery is making the queue anew."""
    tree.kill()
    (tree.store / "consumequeue" / "orders" / "0").rename(tree.store.with_name("gone"))


@pytest.mark.parametrize("wait", [0.0, PATIENT_S])
def test_what_a_dead_brokers_files_lack(tree: Restarts, wait: float) -> None:
    """Goal: no disk is to blame."""
    with tree.connect() as client:
        client.create_topic("orders", queues=1)
        with client.work_session("g", ["orders"], wait=wait) as worker:
            handed_out(client, worker)
            without_queue(tree)
            if wait:
                with meanwhile(lambda: worker.take(1, WATCHDOG_S)) as taking:
                    tree.start()
                found: list[HandOut] = taking[0].result()
            else:
                with pytest.raises(errors.BrokerStopped, match="read messages"):
                    worker.take(1, WATCHDOG_S)
                tree.start()
                found = collect(worker, 1)
            assert list(map(number, found + collect(worker, 2))) == [0, 1, 2]


def test_a_dead_broker_is_given_nothing_back(tree: Restarts) -> None:
    """Goal: who gives back or closes hears nothing of the files that are not there, nor of the broker."""
    with tree.connect() as client:
        client.create_topic("orders", queues=1)
        with client.work_session("g", ["orders"]) as worker, client.work_session("h", ["orders"]) as other:
            handed_out(client, worker, other)
            without_queue(tree)
            worker.give_back([])
            assert worker.generation == 0
            other.close(WATCHDOG_S)


@pytest.mark.parametrize("wait", [0.0, PATIENT_S])
def test_more_answers_than_a_dead_broker_has_room_for(tree: Restarts, wait: float) -> None:
    """Goal: with patience they are no error: they did not count, and the messages come again."""
    with tree.connect() as client:
        fill(client, "orders", 64, queues=1)
        with client.work_session("g", ["orders"], in_hand=64, wait=wait) as worker:
            found = collect(worker, 64)
            tree.kill()
            reason = "x" * TEXT_MAX

            def answer() -> None:
                for each in found:
                    worker.nack(each, 0, reason)

            if wait:
                answer()
                tree.start()
                assert worker.settled(WATCHDOG_S) == found
            else:
                with pytest.raises(errors.BrokerStopped, match="answer"):
                    answer()
                tree.start()
            assert sorted(map(number, collect(worker, 64))) == list(range(64))
