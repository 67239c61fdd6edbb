"""Goal: RocketMQ's own Java client, unchanged, sends to OrbitMQ and reads from it over TCP, if its name server's address is
that of the gateway.

Method: the judge's clients visit a broker of OrbitMQ; what they send is read with OrbitMQ's client and with theirs, while a
local producer sends as well, and while the gateway is killed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from tests.interop.judge import Judge, JudgeError
from tests.interop.letters import (
    Letter,
    _for_judge,
    of_orbitmq,
    of_rocketmq,
    random_letters,
    send_to_orbitmq,
    send_to_rocketmq,
)  # fmt: skip
from tests.interop.ours import SMALL_FILES, broker_on, visiting
from tests.interop.served import assert_dense, assert_same, pulled, stored
from tests.trees import kill
from tests.waiting import until

NAME = "judged"  # the judge sends to queues of the broker of this name


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with broker_on(tmp_path / "store", SMALL_FILES, name=NAME, listen="127.0.0.1:0") as broker:
        broker.create_topic("orders", queues=4)
        yield broker


def send(judge: Judge, letters: list[Letter]) -> list[Letter]:
    """One by one, with their places as they were acknowledged."""
    receipts = judge.ask("send", topic=letters[0].topic, batches=[[_for_judge(letter)] for letter in letters])
    return [
        Letter(letter.topic, letter.body, letter.tags, letter.keys, letter.properties, letter.flag, queue, offset, message_id)
        for letter, (queue, offset, message_id) in zip(letters, receipts, strict=True)
    ]


def test_what_java_sends_is_stored_and_read_back(visitor: Judge, broker: orbitmq.Broker) -> None:
    """Every property, flag and tag, large bodies that the client compresses, and the place that each receipt names."""
    rng = random.Random(1)
    sent = send(visitor, list(random_letters(rng, "orders", 500, 4, empty=False, prefix="java")))
    assert_dense(sent)
    assert_same(stored(broker, "orders"), sent)
    assert_same(pulled(visitor, "orders"), sent)
    assert_same(pulled(visitor, "orders", tags="paid || 日本"), [each for each in sent if each.tags in ("paid", "日本")])
    assert_same(map(of_rocketmq, visitor.ask("poll", topic="orders", count=len(sent))), sent)
    for queue, (least, most) in visitor.bounds("orders").items():
        assert (least, most) == (0, sum(letter.queue == queue for letter in sent))


def test_beside_local_clients(visitor: Judge, broker: orbitmq.Broker) -> None:
    """Local producers and Java's write to the same queues, and both read what both wrote."""
    rng = random.Random(2)
    sent: list[Letter] = []
    for part in range(4):
        sent += send(visitor, list(random_letters(rng, "orders", 40, 4, empty=False, prefix=f"java-{part}")))
        send_to_orbitmq(rng, broker, random_letters(rng, "orders", 40, 4, empty=False, prefix=f"local-{part}"), sent)
    assert_dense(sent)
    assert_same(stored(broker, "orders"), sent)
    assert_same(pulled(visitor, "orders"), sent)


def test_the_vip_channel(judge: Judge, tmp_path: Path) -> None:
    """Java's client sends two ports below the broker's, to which the name server has led it, and reads at both."""
    ports = {"gateway": True, "name_server_port": 0, "broker_port": 0}
    with broker_on(tmp_path / "store", SMALL_FILES, name=NAME, **ports) as broker:
        broker.create_topic("orders", queues=4)
        _, _, vip = (int(each.rpartition(":")[2]) for each in broker.status().addresses)
        assert not connected(vip)
        with visiting(judge, broker, vip=True):
            sent = send(judge, list(random_letters(random.Random(5), "orders", 40, 4, empty=False, prefix="vip")))
            assert connected(vip)
            assert_same(stored(broker, "orders"), sent)
            assert_same(pulled(judge, "orders"), sent)
            shown = judge.mqadmin("queryMsgById", "-n", broker.status().listens, "-i", sent[0].id)
            assert f"Queue Offset:        {sent[0].offset}" in shown, "the id leads to the broker"


def connected(port: int) -> int:
    """How many connections there are to this port of ours."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(line[1].endswith(f":{port:04X}") and line[3] == "01" for line in lines)


def test_batches(visitor: Judge, broker: orbitmq.Broker) -> None:
    """Batches of Java's, some of one message, each in one run of offsets; every id of the answer names its message."""
    sent: list[Letter] = []
    rng = random.Random(4)
    send_to_rocketmq(rng, visitor, random_letters(rng, "orders", 500, 4, empty=False, prefix="batch"), sent)
    assert_dense(sent)
    assert_same(stored(broker, "orders"), sent)
    assert_same(pulled(visitor, "orders"), sent)
    for letter in sent:
        assert of_orbitmq(broker.message(letter.id)) == letter


def test_delays(visitor: Judge, broker: orbitmq.Broker) -> None:
    """Java's receipts name the records that wait, as with RocketMQ; the messages come when the level's delay is over, as they
    were sent."""
    some = enumerate(random_letters(random.Random(6), "orders", 30, 4, empty=False, prefix="delay"))
    letters = [replace(letter, body=b"%d " % number + letter.body) for number, letter in some]
    receipts = visitor.ask("send", topic="orders", batches=[[{**_for_judge(letter), "delay": 1}] for letter in letters])
    assert [offset for _, offset, _ in receipts] == list(range(30))
    waiting = [broker.message(name) for _, _, name in receipts]
    places = {(each.topic, each.queue, each.properties["REAL_TOPIC"]) for each in waiting}
    assert places == {("SCHEDULE_TOPIC_XXXX", 0, "orders")}
    found = {letter.body: letter for letter in map(of_rocketmq, visitor.ask("poll", topic="orders", count=30))}
    for letter, (queue, _, _), record in zip(letters, receipts, waiting, strict=True):
        came = found.pop(letter.body)
        assert came.stored_ms >= record.stored_ms + 1000
        assert (came.queue, came.tags, came.keys, came.flag) == (queue, letter.tags, letter.keys, letter.flag)
        assert set(letter.properties) <= set(came.properties)
    assert not found


def test_transactions(visitor: Judge, broker: orbitmq.Broker) -> None:
    """Java's transactions end as its listener says, and each message is what was sent; an open one ends locally."""
    letters = [Letter("orders", b"%d" % number, "paid", (f"k-{number}",), (("region", "eu"),), 3) for number in range(60)]
    for number, how in enumerate(("commit", "rollback", "open")):
        these = list(map(_for_judge, letters[number::3]))
        visitor.ask("transact", topic="orders", letters=these, group="shop", end=how)
    still = [letter.body for letter in letters[2::3]]
    until(lambda: [each.body for each in broker.open_transactions()] == still, "the ends, which come one-way")
    for each in broker.open_transactions():
        assert (each.group, each.topic) == ("shop", "orders")
        broker.commit_transaction(each)
    wanted = {letter.body: letter for number, letter in enumerate(letters) if number % 3 != 1}
    for found in (stored(broker, "orders"), pulled(visitor, "orders")):
        assert {letter.body for letter in found} == set(wanted) and len(found) == len(wanted)
        for letter in found:
            sent = wanted[letter.body]
            assert (letter.tags, letter.keys, letter.flag) == (sent.tags, sent.keys, sent.flag)
            assert set(sent.properties) <= set(letter.properties)


def test_check_backs(judge: Judge, tmp_path: Path) -> None:
    """Java's listener is asked about what nobody has ended, whoever has begun it, and its answers count."""
    times: dict[str, Any] = {"transaction_timeout_s": 0.1, "transaction_check_interval_s": 0.2}
    times["transaction_check_max"] = 1_000_000  # on a slow machine nobody may be there to answer for a while
    with broker_on(tmp_path / "store", SMALL_FILES, name=NAME, listen="127.0.0.1:0", **times) as broker:
        broker.create_topic("orders", queues=4)
        with visiting(judge, broker):
            remote = [_for_judge(Letter("orders", body)) for body in (b"java 1", b"java 2", b"java 3")]
            judge.ask("transact", topic="orders", letters=remote, group="shop", end="open")
            with broker.producer(group="shop") as producer:
                for body in (b"local 1", b"local 2"):
                    producer.transaction("orders", body, tags="paid")
            ends = {"java 1": ["commit"], "java 2": ["open", "rollback"], "java 3": ["open", "open", "commit"]}
            ends |= {"local 1": ["commit"], "local 2": ["rollback"]}
            assert set(judge.ask("check", topic="orders", group="shop", ends=ends)) == set(ends)
            until(lambda: broker.open_transactions() == [], "the ends, which come one-way")
            assert {letter.body for letter in stored(broker, "orders")} == {b"java 1", b"java 3", b"local 1"}


def test_new_topics(visitor: Judge, broker: orbitmq.Broker) -> None:
    """Java's first send makes the topic, with its usual number of queues; no route shows it before."""
    letters = [Letter("new", b"%d" % number) for number in range(12)]
    receipts = visitor.ask("sendAnywhere", topic="new", letters=list(map(_for_judge, letters)))
    (made,) = (topic for topic in broker.status().topics if topic.name == "new")
    assert len(made.queues) == 4 and len({queue for queue, _, _ in receipts}) > 1
    found = {(letter.queue, letter.offset, letter.id): letter.body for letter in stored(broker, "new")}
    assert found == {(queue, offset, id): b"%d" % number for number, (queue, offset, id) in enumerate(receipts)}
    visitor.ask("sendAnywhere", topic="orders", letters=[_for_judge(letters[0])])


def test_what_is_refused(visitor: Judge, broker: orbitmq.Broker) -> None:
    """Java's client says why: for a topic that does not exist, and for what the broker does not take. Nothing of it is
    stored."""
    letter = Letter("orders", b"refused", queue=0)
    with pytest.raises(JudgeError, match=r"CODE: 17 .*the topic: absent"):
        visitor.ask("poll", topic="absent", count=1)
    twice = [_for_judge(Letter("orders", bytes(SMALL_FILES.log_file_size // 2), queue=0))] * 2
    with pytest.raises(JudgeError, match=r"CODE: 13 .*larger than the broker accepts"):
        visitor.ask("send", topic="orders", batches=[twice])
    (sent,) = send(visitor, [letter])
    assert sent.offset == 0
    assert_same(stored(broker, "orders"), [sent])


def test_a_gateway_that_is_killed(visitor: Judge, broker: orbitmq.Broker) -> None:
    """Java's client connects to the next one by itself. What was acknowledged is stored once, where the receipt says."""
    rng = random.Random(3)
    sent: list[Letter] = []
    for life in range(4):
        letters = list(random_letters(rng, "orders", 30, 4, empty=False, prefix=f"life-{life}"))
        for letter in letters:
            with suppress(JudgeError):  # it was cut off and must not be sure
                sent += send(visitor, [letter])
        kill(broker, "gateway")
    until(lambda: _sends(visitor, sent), "the next gateway")
    assert len(sent) > 100
    found = {letter.place: letter for letter in stored(broker, "orders")}
    assert_same([found[letter.place] for letter in sent], sent)
    assert_same(pulled(visitor, "orders"), found.values())


def _sends(judge: Judge, sent: list[Letter]) -> bool:
    try:
        sent += send(judge, [Letter("orders", b"at last", queue=1)])
    except JudgeError:
        return False
    return True
