"""A real RocketMQ broker opens the stores that OrbitMQ wrote, and a real Java client finds every message in them.

Goal: a store, a program or a team can move from OrbitMQ to RocketMQ without a conversion. Method: what was sent is written
down with its receipts, and compared with what the Java client finds by offset, tag, time, key and id, field by field.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import served
from judge import Files, Judge
from letters import Letter, of_rocketmq, random_letters, send_to_orbitmq, send_to_rocketmq

import orbitmq

pytestmark = pytest.mark.timeout(400)  # the first test of all waits for the jars

# Small files, so that every kind of file rolls.
SMALL = Files(queue_file_units=100, index_slots=1000, index_entries=3000)
TOPICS = {"orders": 4, "a-b_c|d": 2, "t" * 127: 1}


def broker_on(store: Path, files: Files) -> orbitmq.Broker:
    return orbitmq.Broker(store, **{name: getattr(files, name) for name in Files.__slots__})


def of(letters: list[Letter], topic: str) -> list[Letter]:
    return [letter for letter in letters if letter.topic == topic]


def test_a_store_that_was_stopped(judge: Judge, tmp_path: Path) -> None:
    """There and back: OrbitMQ writes, RocketMQ serves and appends, OrbitMQ serves and appends, RocketMQ serves it all."""
    rng = random.Random(4)
    store = tmp_path / "store"
    sent: list[Letter] = []
    with broker_on(store, SMALL) as broker:
        for topic, queues in TOPICS.items():
            broker.create_topic(topic, queues=queues)
            # An empty body is a message to OrbitMQ and to RocketMQ's broker; RocketMQ's push consumer never gets past one.
            empty = topic != "orders"
            letters = random_letters(rng, topic, 2400 // len(TOPICS), queues, empty=empty, prefix=topic[:3])
            sent += send_to_orbitmq(rng, broker, letters)
        with broker.consumer("billing", topics=["orders"]) as member:
            early = {(letter.queue, letter.offset) for letter in member.poll_batch(300, timeout=30)}
            member.commit()
    assert len(list((store / "commitlog").iterdir())) > 8
    assert len(list((store / "index").iterdir())) > 1

    judge.start(store, SMALL)
    assert judge.topics() == TOPICS
    for topic in TOPICS:
        served.by_rocketmq(judge, of(sent, topic), rng)
    assert sum(judge.committed("orders", "billing").values()) == len(early) == 300
    rest = [letter for letter in of(sent, "orders") if letter.place not in early]
    served.assert_same(map(of_rocketmq, judge.ask("consume", topic="orders", group="billing", count=len(rest))), rest)
    sent += send_to_rocketmq(rng, judge, random_letters(rng, "orders", 300, 4, empty=False, prefix="java"))
    judge.stop()

    with broker_on(store, SMALL) as broker:
        for topic in TOPICS:
            served.by_orbitmq(broker, of(sent, topic), rng)
        with broker.consumer("billing", topics=["orders"]) as member:
            assert sum(member.lag().values()) == 300
        sent += send_to_orbitmq(rng, broker, random_letters(rng, "orders", 300, 4, empty=False, prefix="again"))

    judge.start(store, SMALL)
    for topic in TOPICS:
        served.by_rocketmq(judge, of(sent, topic), rng, times=topic != "orders")
        served.assert_dense(served.pulled(judge, topic))
    judge.stop()
