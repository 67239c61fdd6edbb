"""Delayed messages over a change of brokers: RocketMQ delivers what waits in a store of OrbitMQ's, and the other way round.

Goal: each message comes once, whichever broker has the store when it is due, as far as delayOffset.json says what was
delivered. RocketMQ 4.9.3 writes down less than it has delivered, and would deliver the rest again itself; 4.9.4 does not.
Method: messages of short and of longer levels are sent; the broker is stopped when the short ones have come; the other one has
to deliver the rest, and nothing twice but what the file does not say.
"""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path

import pytest

import orbitmq
from orbitmq.store import config
from orbitmq.store.commit_log.record import Record, check
from orbitmq.store.layout import StoreLayout
from tests.interop.judge import Files, Judge
from tests.interop.ours import broker_on, kill_tree
from tests.trees import everything
from tests.waiting import until

pytestmark = pytest.mark.timeout(900)  # the first test of all waits for the jars

SHORT, LONG = 1, 3  # a second, ten seconds
QUEUES = 4


def ends(broker: orbitmq.Client) -> int:
    (topic,) = (topic for topic in broker.status().topics if topic.name == "orders")
    return sum(queue.max_offset for queue in topic.queues)


def rocketmq_ends(judge: Judge) -> int:
    return sum(end for _, end in judge.bounds("orders").values())


def delivered(store: Path) -> Counter[bytes]:
    """Bodies in their own topic, in the log of a stopped broker."""
    found: Counter[bytes] = Counter()
    for path in sorted((store / "commitlog").iterdir()):
        content, at = path.read_bytes(), 0
        while isinstance(record := check(content, at, physical_offset=int(path.name) + at), Record):
            if record.topic == "orders":
                found[bytes(record.body)] += 1
            at += record.size
    return found


def untold(store: Path) -> Counter[bytes]:
    """Messages that delayOffset.json does not count."""
    told = config.load_delay_offsets(StoreLayout.at(store))
    kinds = ((SHORT, b"short"), (LONG, b"long"))
    return Counter(b"%s %d" % (kind, n) for level, kind in kinds for n in range(told.get(level, 0), 40))


def bodies(broker: orbitmq.Client) -> Counter[bytes]:
    return Counter(body for body, *_ in everything(broker, "orders"))


def test_rocketmq_goes_on(judge: Judge, tmp_path: Path) -> None:
    """OrbitMQ accepts all and delivers the short ones; RocketMQ delivers the rest; OrbitMQ finds them, and delivers nothing."""
    store, files = tmp_path / "store", Files()
    with broker_on(store, files) as broker:
        broker.create_topic("orders", QUEUES)
        with broker.producer() as producer:
            for n in range(40):
                producer.send("orders", b"short %d" % n, queue=n % QUEUES, tags="paid", delay_level=SHORT)
            for n in range(40):
                producer.send("orders", b"long %d" % n, queue=n % QUEUES, keys=f"k{n}", delay_level=LONG)
        until(lambda: ends(broker) >= 40, "the short ones")
    assert config.load_delay_offsets(StoreLayout.at(store))[SHORT] == 40  # after 10 s the others come, too
    judge.start(store, files)
    until(lambda: rocketmq_ends(judge) == 80, "the long ones")
    judge.stop()
    wanted = Counter(b"%s %d" % (kind, n) for kind in (b"short", b"long") for n in range(40))
    assert delivered(store) == wanted
    wanted += untold(store)
    with broker_on(store, files) as broker:
        until(lambda: ends(broker) >= wanted.total(), "what RocketMQ has not written down")
        assert bodies(broker) == wanted
        found = broker.find("orders", "k7")
        assert {(bytes(message), message.queue) for message in found} == {(b"long 7", 7 % QUEUES)}


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_orbitmq_goes_on(judge: Judge, tmp_path: Path, end: str) -> None:
    """RocketMQ accepts all and delivers the short ones; OrbitMQ delivers the rest, once, though its tree is killed meanwhile;
    RocketMQ then delivers nothing again after a clean stop."""
    store, files = tmp_path / "store", Files()
    judge.start(store, files)
    judge.ask("create", topic="orders", queues=QUEUES)
    for kind, level in (("short", SHORT), ("long", LONG)):
        letters = [
            {"queue": n % QUEUES, "body": base64.b64encode(f"{kind} {n}".encode()).decode(), "tags": "paid", "keys": "",
             "properties": {}, "flag": 0, "delay": level}
            for n in range(40)
        ]  # fmt: skip
        judge.ask("send", topic="orders", batches=[[letter] for letter in letters])
    until(lambda: rocketmq_ends(judge) >= 40, "the short ones")
    judge.stop()
    wanted = delivered(store) + untold(store)
    assert wanted.total() >= 80
    with broker_on(store, files) as broker:
        until(lambda: ends(broker) >= wanted.total(), "the long ones")
        assert bodies(broker) == wanted
        if end == "killed":
            kill_tree(broker)
    wanted[b"after"] += 1
    with broker_on(store, files) as broker, broker.producer() as producer:
        producer.send("orders", b"after", queue=0, delay_level=SHORT)
        until(lambda: ends(broker) >= wanted.total(), "one more")
        assert bodies(broker) == wanted
    judge.start(store, files)
    last = {"queue": 1, "body": "eA==", "tags": "", "keys": "", "properties": {}, "flag": 0, "delay": SHORT}
    judge.ask("send", topic="orders", batches=[[last]])
    until(lambda: rocketmq_ends(judge) > wanted.total(), "RocketMQ's own")
    judge.stop()
    wanted[b"x"] += 1
    assert delivered(store) == wanted
