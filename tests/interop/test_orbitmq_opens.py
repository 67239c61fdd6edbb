"""OrbitMQ opens the stores that a real RocketMQ broker wrote, and hands them back.

Goal: a store can move from RocketMQ to OrbitMQ, and back, however its broker ended. Method: RocketMQ's Java client sends
messages of every kind. OrbitMQ's client has to find them by offset, tag, time, key and id, and to continue where RocketMQ's
groups left off.
"""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import StoreLocked
from tests.interop import served
from tests.interop.judge import Files, Judge, JudgeError
from tests.interop.letters import Letter, of, of_orbitmq, random_letters, send_specials, send_to_orbitmq, send_to_rocketmq
from tests.waiting import until

pytestmark = pytest.mark.timeout(900)  # the first test of all waits for the jars

TOPICS = {"orders": 4, "a-b_c|d": 2, "t" * 127: 1}


def test_a_store_that_was_stopped(judge: Judge, tmp_path: Path) -> None:
    """RocketMQ writes and a group consumes; OrbitMQ finds all of it, continues and appends; RocketMQ serves all of it."""
    rng = random.Random(6)
    store, files = tmp_path / "store", Files()
    sent: list[Letter] = []
    judge.start(store, files)
    for topic, queues in TOPICS.items():
        judge.ask("create", topic=topic, queues=queues)
        send_to_rocketmq(rng, judge, random_letters(rng, topic, 500, queues, empty=False, prefix=topic[:3]), sent)
    with pytest.raises(StoreLocked) as refused:
        orbitmq.Broker(store)
    assert refused.value.pid == judge.process.pid
    judge.ask("createGroup", group="billing")
    judge.ask("consume", topic="orders", group="billing", count=500)
    until(lambda: sum(judge.committed("orders", "billing").values()) == 500, "the group's offsets")
    send_to_rocketmq(rng, judge, random_letters(rng, "orders", 200, 4, empty=False, prefix="later"), sent)
    send_specials(judge, rng, len(of(sent, "orders")))
    found = {topic: served.pulled(judge, topic) for topic in TOPICS}
    for topic in TOPICS:
        served.assert_among(of(sent, topic), found[topic])
    sent = [letter for topic in TOPICS for letter in found[topic]]  # together with those of the transactions
    judge.stop()

    with orbitmq.Broker(store) as broker:  # sizes are those of the files
        assert {topic.name: topic.queues for topic in broker.topics() if topic.name in TOPICS} == TOPICS
        for topic in TOPICS:
            served.by_orbitmq(broker, of(sent, topic), rng)
        with broker.consumer("billing", topics=["orders"]) as member:
            rest = member.poll_batch(10_000, timeout=240)
            assert len(rest) == 220
            member.commit()
        assert {of_orbitmq(message).keys[:1] for message in rest} <= {letter.keys[:1] for letter in of(sent, "orders")}
        with broker.consumer("new-group", topics=["orders"]):
            pass
        broker.create_topic("new", queues=3)
        for topic in ("orders", "new"):
            send_to_orbitmq(rng, broker, random_letters(rng, topic, 200, 3, empty=False, prefix="ours"), sent)

    judge.start(store, files)
    assert judge.topics().items() >= {**TOPICS, "new": 3}.items()
    for topic in [*TOPICS, "new"]:
        served.by_rocketmq(judge, of(sent, topic), rng)
    assert sum(judge.committed("orders", "billing").values()) == 720
    judge.ask("consume", topic="new", group="new-group", count=len(of(sent, "new")))
    judge.stop()


def test_a_store_whose_broker_was_killed(judge: Judge, victim: Judge, tmp_path: Path) -> None:
    """SIGKILL to RocketMQ under load: OrbitMQ recovers the store and serves every acknowledged message, and appends."""
    rng = random.Random(7)
    store, files = tmp_path / "store", Files()
    acknowledged: list[Letter] = []
    victim.start(store, files)
    victim.ask("create", topic="orders", queues=4)

    def send() -> None:
        with suppress(JudgeError):
            send_to_rocketmq(rng, victim, random_letters(rng, "orders", 100_000, 4, empty=False, prefix="kill"), acknowledged)

    sender = threading.Thread(target=send)
    sender.start()
    until(lambda: len(acknowledged) >= 2000, "some load")
    victim.kill()
    sender.join()
    assert (store / "abort").exists()

    with orbitmq.Broker(store) as broker:
        found = served.stored(broker, "orders")
        served.assert_dense(found)
        served.assert_among(acknowledged, found)
        served.by_orbitmq(broker, found, rng)
        send_to_orbitmq(rng, broker, random_letters(rng, "orders", 300, 4, empty=False, prefix="ours"), found)

    judge.start(store, files)
    served.by_rocketmq(judge, found, rng)
    judge.stop()
