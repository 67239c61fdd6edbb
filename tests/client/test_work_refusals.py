"""Goal: an answer that came too late changes nothing, and its worker is told so.

Method: sessions of workers in this process; one broker for the file, a topic and a group for each test. What is refused after
a death of the dispatcher is in test_retries_hindered.py.
"""

from __future__ import annotations

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.client.work import refusals as work_refusals
from orbitmq.client.work.worker_settings import IN_HAND_MAX
from tests.client.work_takes import collect, fill, lag
from tests.waiting import WATCHDOG_S


@pytest.fixture(scope="module")
def broker(work_broker: orbitmq.Broker) -> orbitmq.Broker:
    return work_broker


def test_what_nobody_asks_for(broker: orbitmq.Broker, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a program that never asks which of its answers did not count does not fill its memory with them; if it asks after
    all, it is told that not all are known."""
    assert work_refusals.MOST == IN_HAND_MAX, "all that can be lost at once must have room"
    monkeypatch.setattr(work_refusals, "MOST", 15)
    fill(broker, name, 20, queues=1)
    with broker.work_session(name, [name]) as worker:
        found = collect(worker, 20)
        worker.ack(found)
        assert worker.settled(WATCHDOG_S) == []
        for each in found:
            worker.ack([each])
        with pytest.raises(errors.JobLost, match=r"all lost jobs of .*: only the last 15") as caught:
            worker.settled(WATCHDOG_S)
        assert caught.value.ids == [each.message.id for each in found[5:]]
        worker.ack(found[:15])
        assert worker.settled(WATCHDOG_S) == found[:15]
        assert worker.settled(WATCHDOG_S) == []


def test_several_refused_answers_are_one_job(broker: orbitmq.Broker, name: str) -> None:
    """Goal: whoever extends a lost job, and then acks it, hears of one that was lost."""
    fill(broker, name, 2, queues=1)
    with broker.work_session(name, [name]) as worker:
        found = collect(worker, 2)
        worker.ack(found)
        assert worker.settled(WATCHDOG_S) == []
        worker.extend(found[1], 5.0)
        worker.ack([found[1]])
        assert worker.settled(WATCHDOG_S) == [found[1]]


@pytest.mark.parametrize("how", ["ack", "nack", "give_back", "extend"])
def test_a_late_answer_is_not_about_the_next_delivery(broker: orbitmq.Broker, name: str, how: str) -> None:
    """Goal: a message whose time was over, and that the same session has in hand again, is not let go, done or put off by an
    answer to the delivery before; and of answers to both deliveries, the first alone is refused."""
    fill(broker, name, 1, queues=1)
    with (
        broker.work_session(name, [name], visibility=3600, in_hand=10) as worker,
        broker.work_session(name, [name], visibility=3600) as other,
    ):
        (late,) = collect(worker, 1)
        worker.extend(late, 0.0)
        (again,) = collect(worker, 1)
        assert (late.delivery, again.delivery) == (1, 2)
        if how == "ack":
            worker.ack([late])
        elif how == "nack":
            worker.nack(late, delay=0.0)
        elif how == "give_back":
            worker.give_back([late])
        else:
            worker.extend(late, 0.0)
        assert worker.settled(WATCHDOG_S) == [late]
        assert lag(broker, name) == 1
        assert other.take(1, 0.05) == []
        worker.ack([late])
        worker.ack([again])
        assert worker.settled(WATCHDOG_S) == [late]
        assert lag(broker, name) == 0
