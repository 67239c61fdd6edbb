"""A real RocketMQ broker opens the stores that OrbitMQ wrote, and a real Java client finds every message in them.

Goal: a store, a program or a team can move from OrbitMQ to RocketMQ without a conversion. Method: what was sent is written
down with its receipts, and compared with what the Java client finds by offset, tag, time, key and id, field by field.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import served
from judge import Files, Judge
from letters import Letter, of, of_rocketmq, random_letters, send_to_orbitmq, send_to_rocketmq
from ours import broker_on, kill_tree, until

from orbitmq.errors import OrbitError

pytestmark = pytest.mark.timeout(400)  # the first test of all waits for the jars

# Small files, so that every kind of file rolls.
SMALL = Files(queue_file_units=100, index_slots=1000, index_entries=3000)
TOPICS = {"orders": 4, "a-b_c|d": 2, "t" * 127: 1}


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
            send_to_orbitmq(rng, broker, letters, sent)
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
    send_to_rocketmq(rng, judge, random_letters(rng, "orders", 300, 4, empty=False, prefix="java"), sent)
    judge.stop()

    with broker_on(store, SMALL) as broker:
        for topic in TOPICS:
            served.by_orbitmq(broker, of(sent, topic), rng)
        with broker.consumer("billing", topics=["orders"]) as member:
            assert sum(member.lag().values()) == 300
        send_to_orbitmq(rng, broker, random_letters(rng, "orders", 300, 4, empty=False, prefix="again"), sent)

    judge.start(store, SMALL)
    for topic in TOPICS:
        served.by_rocketmq(judge, of(sent, topic), rng, times=topic != "orders")
        served.assert_dense(served.pulled(judge, topic))
    judge.stop()


def test_a_store_whose_broker_was_killed(judge: Judge, tmp_path: Path) -> None:
    """SIGKILL to OrbitMQ's whole tree under load: RocketMQ recovers the store and serves every acknowledged message, appends,
    and is killed in turn; OrbitMQ recovers that."""
    rng = random.Random(5)
    store, files = tmp_path / "store", Files()
    acknowledged: list[Letter] = []
    offered: list[Letter] = []

    def letters() -> Iterator[Letter]:
        for letter in random_letters(rng, "orders", 100_000, 4, empty=False, prefix="kill"):
            offered.append(letter)
            yield letter

    broker = broker_on(store, files)
    broker.create_topic("orders", queues=4)

    def send() -> None:
        with suppress(OrbitError):
            send_to_orbitmq(rng, broker, letters(), acknowledged)

    sender = threading.Thread(target=send)
    sender.start()
    until(lambda: len(acknowledged) > 2500, "some load")
    kill_tree(broker)
    sender.join()
    assert (store / "abort").exists()

    judge.start(store, files)
    found = served.pulled(judge, "orders")
    served.assert_dense(found)
    assert len(found) >= len(acknowledged) > 2500
    served.assert_among(acknowledged, found)
    # What was in flight may be there or not; something else may not.
    bodies = {letter.body for letter in offered}
    assert all(letter.body in bodies for letter in found)
    served.by_rocketmq(judge, found, rng)
    send_to_rocketmq(rng, judge, random_letters(rng, "orders", 300, 4, empty=False, prefix="java"), found)
    judge.kill()

    with broker_on(store, files) as broker:
        served.by_orbitmq(broker, found, rng)
        send_to_orbitmq(rng, broker, random_letters(rng, "orders", 300, 4, empty=False, prefix="again"), found)
        served.by_orbitmq(broker, found, rng)
        served.assert_dense(found)
