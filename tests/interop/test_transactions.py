"""Transactions over a change of brokers: RocketMQ ends those that OrbitMQ's producers left open, and the other way round.

Goal: a half message that one broker has stored is ended under the other, once, and nobody is asked about one that has ended.
Method: transactions of all three ends under the one broker; the other has to find exactly the open ones. RocketMQ asks a
producer of the group (check-back), in each round about all that are open. So when it asks about the last one for the second
time, it has asked about all.
"""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from tests.actors.remoting_client import MAX_OFFSET, Remote
from tests.interop.judge import Files, Judge
from tests.interop.ours import broker_on, kill_tree
from tests.trees import everything
from tests.waiting import until

pytestmark = pytest.mark.timeout(900)  # the first test of all waits for the jars

GROUP, TOPIC = "shop", "orders"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"  # RocketMQ's notes of ends
ENDS = ("commit", "rollback", "open")


def key(body: str) -> str:
    return f"k-{body.replace(' ', '-')}"


def letter(body: str) -> dict[str, Any]:
    content = base64.b64encode(body.encode()).decode()
    return {"body": content, "tags": "paid", "keys": key(body), "properties": {"region": "eu"}, "flag": 3}


def begin(broker: orbitmq.Client, end: str, *bodies: str) -> None:
    with broker.producer(group=GROUP) as producer:
        for body in bodies:
            transaction = producer.transaction(TOPIC, body, tags="paid", keys=key(body), properties={"region": "eu"}, flag=3)
            if end != "open":
                getattr(transaction, end)()


def stored(broker: orbitmq.Client) -> Counter[str]:
    return Counter(body.decode() for body, *_ in everything(broker, TOPIC))


def left(broker: orbitmq.Client) -> list[str]:
    return [each.body.decode() for each in broker.open_transactions()]


def pulled(judge: Judge, *renewed: str) -> Counter[str]:
    """Bodies in the topic; each message has what its half had. renewed: RocketMQ asked about these; the half that it stores
    anew when it asks is without the flag."""
    found = judge.ask("pull", topic=TOPIC)
    bodies = [base64.b64decode(each["body"]).decode() for each in found]
    for each, body in zip(found, bodies, strict=True):
        assert (each["tags"], each["keys"], each["properties"]["region"]) == ("paid", key(body), "eu")
        assert each["flag"] == (0 if body in renewed else 3)
    return Counter(bodies)


def ended(judge: Judge) -> int:
    """How many ends RocketMQ has noted: a producer tells it one-way, and it does not do one after the other what it is told."""
    _, address = judge.addresses
    with Remote(address) as broker:
        return int(broker.ask(MAX_OFFSET, topic=OP, queueId=0).fields["offset"])


def asked(judge: Judge, ends: dict[str, list[str]]) -> set[str]:
    """What RocketMQ asks about until it has asked about each of these as often as there are answers."""
    return set(judge.ask("check", topic=TOPIC, group=GROUP, ends=ends))


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_rocketmq_ends_ours(judge: Judge, tmp_path: Path, end: str) -> None:
    """RocketMQ asks about what is open, and about nothing else; then nothing is open under OrbitMQ, nor under RocketMQ."""
    store, files = tmp_path / "store", Files()
    with broker_on(store, files) as broker:
        broker.create_topic(TOPIC, 2)
        begin(broker, "commit", "one", "two")
        begin(broker, "open", "to commit")
        begin(broker, "rollback", "three")
        begin(broker, "open", "to roll back")
        if end == "killed":
            kill_tree(broker)
    judge.start(store, files, check_ms=1)
    ends = {"to commit": ["open", "commit"], "to roll back": ["open", "rollback"]}
    assert asked(judge, ends) == ends.keys()
    wanted = Counter(["one", "two", "to commit"])
    until(lambda: pulled(judge, "to commit") == wanted, "the message that was committed")
    judge.stop()
    with broker_on(store, files) as broker:
        assert left(broker) == [] and stored(broker) == wanted
        begin(broker, "commit", "later")
        begin(broker, "open", "last")
    judge.start(store, files, check_ms=1)
    assert asked(judge, {"last": ["open", "commit"]}) == {"last"}
    wanted += Counter(["later", "last"])
    until(lambda: pulled(judge, "to commit", "last") == wanted, "the last message")


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_we_end_those_of_rocketmq(judge: Judge, tmp_path: Path, end: str) -> None:
    """OrbitMQ finds those that RocketMQ's producers left open, also one that RocketMQ has stored anew when it asked about it.
    Once they have ended, RocketMQ does not ask."""
    store, files = tmp_path / "store", Files()
    # It asks about nothing yet. What it finds before the end has come is stored anew, and the end would not be the new one's.
    judge.start(store, files)
    judge.ask("create", topic=TOPIC, queues=2)
    for each, body in zip(ENDS, ("one", "two", "asked about"), strict=True):
        judge.ask("transact", topic=TOPIC, letters=[letter(body)], group=GROUP, end=each)
    until(lambda: ended(judge) == 2, "the two ends")
    judge.stop()
    judge.start(store, files, check_ms=1)
    assert asked(judge, {"asked about": ["open", "open"]}) == {"asked about"}
    judge.ask("transact", topic=TOPIC, letters=[letter("not asked about")], group="nobody", end="open")
    judge.stop()
    with broker_on(store, files) as broker:
        found = broker.open_transactions()
        assert Counter((each.body, each.topic, each.group) for each in found) == Counter(
            [(b"asked about", TOPIC, GROUP), (b"not asked about", TOPIC, "nobody")]
        )
        for each in found:
            (broker.commit_transaction if each.body == b"asked about" else broker.rollback_transaction)(each)
        assert left(broker) == [] and stored(broker) == Counter(["one", "asked about"])
        begin(broker, "open", "last")
        if end == "killed":
            kill_tree(broker)
    judge.start(store, files, check_ms=1)
    assert asked(judge, {"last": ["open", "commit"]}) == {"last"}
    wanted = Counter(["one", "asked about", "last"])
    until(lambda: pulled(judge, "asked about", "last") == wanted, "the last message")
    judge.stop()
    with broker_on(store, files) as broker:
        assert left(broker) == [] and stored(broker) == wanted
