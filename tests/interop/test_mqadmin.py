"""Goal: mqadmin, RocketMQ's admin tool, works with OrbitMQ as with RocketMQ's own broker, if its name server's address is that
of the gateway.

Method: the real mqadmin runs the same commands against both, and prints the same columns, keys and sentences. Numbers and
addresses differ; what they must be is in tests/actors/test_gateway_admin.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from tests.interop.judge import Judge
from tests.interop.letters import Letter, _for_judge
from tests.interop.ours import SMALL_FILES, broker_on, visiting
from tests.waiting import WATCHDOG_S, until

NAME = "judged"
CLUSTER = "DefaultCluster"

Tool = Callable[..., str]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with broker_on(tmp_path / "store", SMALL_FILES, name=NAME, listen="127.0.0.1:0") as broker:
        yield broker


def tool(judge: Judge, names: str, command: str, *words: str) -> str:
    said = judge.mqadmin(command, "-n", names, *words)
    assert "Exception" not in said, said
    return said


@pytest.fixture
def ours(judge: Judge, broker: orbitmq.Broker) -> Tool:
    """mqadmin at OrbitMQ."""
    return partial(tool, judge, broker.status().listens)


@pytest.fixture
def theirs(judge: Judge, tmp_path: Path) -> Tool:
    """mqadmin at RocketMQ, which cannot tell its state before it has taken the first samples."""
    judge.start(tmp_path / "theirs", SMALL_FILES)
    names, address = judge.addresses
    until(lambda: "Exception" not in judge.mqadmin("brokerStatus", "-n", names, "-b", address), "RocketMQ's first samples")
    return partial(tool, judge, names)


def form(said: str) -> list[str]:
    """What is printed, without what differs from broker to broker: addresses, numbers, and how wide a column is."""
    text = re.sub(r"127\.0\.0\.1:\d+|-?\d+(\.\d+)?", "N", said)
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip()]


def test_topics(judge: Judge, broker: orbitmq.Broker, ours: Tool, theirs: Tool) -> None:
    """The life of a topic, by command after command, each of which both brokers answer in the same words."""
    in_cluster = ("-c", CLUSTER, "-t", "orders")
    for command, *words in (
        ("updateTopic", *in_cluster, "-r", "4", "-w", "4"),
        ("topicRoute", "-t", "orders"),
        ("topicClusterList", "-t", "orders"),
        ("topicStatus", "-t", "orders"),
        ("updateTopic", *in_cluster, "-r", "6", "-w", "6"),
        ("topicStatus", "-t", "orders"),
        ("updateTopicPerm", *in_cluster, "-p", "4"),
        ("updateTopicPerm", *in_cluster, "-p", "6"),
    ):
        assert "orders" in words
        mine = form(ours(command, *words))
        assert mine and sorted(mine) == sorted(form(theirs(command, *words))), command
    assert len(broker.topic("orders").queues) == 6
    for run in (ours, theirs):
        assert "orders" in run("topicList").splitlines()
        assert re.search(rf"^{CLUSTER} +orders +$", run("topicList", "-c"), re.MULTILINE)
        assert form(run("deleteTopic", *in_cluster)) == [f"delete topic [orders] from cluster [{CLUSTER}] success.",
            "delete topic [orders] from NameServer success."]  # fmt: skip
        assert "orders" not in run("topicList").splitlines()
    assert "orders" not in [topic.name for topic in broker.status().topics]
    assert "CODE: 17" in judge.mqadmin("topicStatus", "-n", broker.status().listens, "-t", "orders")


def test_the_offsets_of_a_topic(judge: Judge, broker: orbitmq.Broker, ours: Tool) -> None:
    """Both clients' messages count, and the time is that of the newest."""
    broker.create_topic("orders", queues=2)
    with visiting(judge, broker):
        judge.ask("send", topic="orders", batches=[[_for_judge(Letter("orders", b"theirs", queue=1))]] * 3)
    with broker.producer() as producer:
        producer.send("orders", b"ours", queue=1)
    until(lambda: broker.topic("orders").queues[1].max_offset == 4, "reput")
    head, first, second = ours("topicStatus", "-t", "orders").splitlines()[:3]
    assert head.split() == ["#Broker", "Name", "#QID", "#Min", "Offset", "#Max", "Offset", "#Last", "Updated"]
    assert first.split() == [NAME, "0", "0", "0"]
    name, queue, least, most, *when = second.split()
    assert (name, queue, least, most) == (NAME, "1", "0", "4")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", " ".join(when))


def test_look_ups(judge: Judge, broker: orbitmq.Broker, ours: Tool) -> None:
    """One message, found in each way there is."""
    broker.create_topic("orders", queues=2)
    with visiting(judge, broker):
        letters = [_for_judge(Letter("orders", b"body", "paid", (f"key-{number}",), queue=1)) for number in range(3)]
        receipts = judge.ask("send", topic="orders", batches=[[letter] for letter in letters])
    until(lambda: broker.topic("orders").queues[1].max_offset == 3, "reput")
    (message,) = broker.find("orders", "key-2")
    unique = message.properties["UNIQ_KEY"]
    head, *lines = ours("queryMsgByKey", "-t", "orders", "-k", "key-2").splitlines()
    assert head.split() == ["#Message", "ID", "#QID", "#Offset"]
    assert [line.split() for line in lines if line] == [[unique, "1", "2"]]
    for words in (
        ("queryMsgById", "-i", receipts[2][2]),
        ("queryMsgByUniqueKey", "-t", "orders", "-i", unique),
        ("queryMsgByOffset", "-t", "orders", "-b", NAME, "-i", "1", "-o", "2"),
    ):
        said = dict(re.findall(r"^([A-Z][\w ]*\w): +(.*\S)", ours(*words), re.MULTILINE))
        wanted = {"Topic": "orders", "Tags": "[paid]", "Keys": "[key-2]", "Queue ID": "1", "Queue Offset": "2"}
        assert wanted.items() <= said.items(), words
        assert "CRC32" not in str(said)
    assert f"MSGID: {unique}" in ours("printMsg", "-t", "orders")


def test_a_group(judge: Judge, broker: orbitmq.Broker, ours: Tool) -> None:
    """Also of a group that local clients began. The tool deletes its topics of retries and dead letters as well."""
    broker.create_topic("orders", queues=1)
    with broker.producer() as producer:
        producer.send("orders", b"read")
    with broker.consumer("readers", topics=["orders"], start="earliest") as consumer:
        assert consumer.poll_batch(1, timeout=WATCHDOG_S)
        consumer.commit()
    assert re.search(r"^readers +0 +OFFLINE +.* 0$", ours("consumerProgress"), re.MULTILINE), "among all groups"
    head, line = ours("consumerProgress", "-g", "readers").splitlines()[:2]
    assert head.startswith("#Topic") and line.split()[:5] == ["orders", NAME, "0", "1", "1"]
    said = judge.mqadmin("deleteSubGroup", "-n", broker.status().listens, "-c", CLUSTER, "-g", "readers")
    assert "delete subscription group [readers]" in said and "delete topic [%RETRY%readers]" in said and "xception" not in said
    assert "readers" not in [group.name for group in broker.status().groups]
    assert not {"%RETRY%readers", "%DLQ%readers"} & {topic.name for topic in broker.status().topics}


def test_a_group_s_settings(ours: Tool, theirs: Tool, broker: orbitmq.Broker) -> None:
    """Both brokers answer in the same words."""
    words = ("-c", CLUSTER, "-g", "readers", "-s", "false", "-r", "7")
    mine, their = (re.sub(r"[\d.]+:\d+", "ADDRESS", run("updateSubGroup", *words)) for run in (ours, theirs))
    assert mine == their and "success" in mine and "retryMaxTimes=7" in mine
    assert broker.group("readers").paused


def test_connections(judge: Judge, broker: orbitmq.Broker, ours: Tool) -> None:
    """The judge's producer and a push consumer of its."""
    broker.create_topic("orders", queues=1)
    with visiting(judge, broker):
        judge.ask("send", topic="orders", batches=[[_for_judge(Letter("orders", b"body"))]])
        judge.ask("join", member="one", topic="orders", group="readers", tags="paid || sent", broadcast=False)
        consumers = ("consumerConnection", "-n", broker.status().listens, "-g", "readers")
        until(lambda: "JAVA" in judge.mqadmin(*consumers), "the consumer's heartbeat")
        said = ours("consumerConnection", "-g", "readers")
        assert re.search(r"^[\d.]+@one +127\.0\.0\.1:\d+ +JAVA +V4_9_3$", said, re.MULTILINE), said
        assert re.search(r"^orders +paid \|\| sent$", said, re.MULTILINE), said
        for line in ("Type: CONSUME_PASSIVELY", "MessageModel: CLUSTERING", "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET"):
            assert line in said
        producers = ("producerConnection", "-n", broker.status().listens, "-g", "judge-producer", "-t", "orders")
        until(lambda: "JAVA" in judge.mqadmin(*producers), "the producer's heartbeat")
        judge.ask("quit", member="one")


def test_a_reset_by_time(judge: Judge, broker: orbitmq.Broker, ours: Tool) -> None:
    """Java's consumer goes back to the first message, and gets all once more."""
    broker.create_topic("orders", queues=2)
    with broker.producer() as producer:
        for number in range(10):
            producer.send("orders", b"%d" % number, queue=number % 2)
    with visiting(judge, broker):
        judge.ask("join", member="one", topic="orders", group="readers", tags="*", broadcast=False)
        seen: list[Any] = []
        until(lambda: len(seen) >= 10 or seen.extend(judge.ask("came", member="one")), "the first time")
        until(lambda: judge.committed("orders", "readers") == {0: 5, 1: 5}, "the commits")
        said = ours("resetOffsetByTime", "-g", "readers", "-t", "orders", "-s", "0")
        assert len(re.findall(rf"^{NAME} +[01] +0 *$", said, re.MULTILINE)) == 2, said
        until(lambda: len(seen) >= 20 or seen.extend(judge.ask("came", member="one")), "the second time")
        judge.ask("quit", member="one")


def test_the_cluster(ours: Tool, theirs: Tool) -> None:
    for words in ((), ("-m",)):
        (head, mine), (their_head, their) = (run("clusterList", *words).splitlines()[:2] for run in (ours, theirs))
        assert head == their_head
        assert [CLUSTER, NAME] == mine.split()[:2] == their.split()[:2]
        assert len(mine.split()) == len(their.split())


def test_the_state_of_a_broker(judge: Judge, broker: orbitmq.Broker, ours: Tool, theirs: Tool) -> None:
    """OrbitMQ has the keys of RocketMQ for what it has too, and one more: how far the log is on disk."""

    def keys(said: str) -> set[str]:
        found = {line.partition(":")[0].strip() for line in said.splitlines() if ":" in line}
        return {key for key in found if not key.startswith("commitLogDiskRatio_")}  # its path is in it

    mine = keys(ours("brokerStatus", "-b", broker.status().listens))
    assert len(mine) >= 30 and mine - {"commitLogFlushedOffset"} <= keys(theirs("brokerStatus", "-b", judge.addresses[1]))


def test_the_settings_of_a_broker(judge: Judge, broker: orbitmq.Broker, ours: Tool, theirs: Tool) -> None:
    def settings(said: str) -> dict[str, str]:
        pairs = (line.partition("=") for line in said.splitlines() if "  =  " in line)
        return {name.strip(): value.strip() for name, _, value in pairs}

    mine = settings(ours("getBrokerConfig", "-b", broker.status().listens))
    their = settings(theirs("getBrokerConfig", "-b", judge.addresses[1]))
    assert mine.keys() <= their.keys()
    same = ("brokerName", "brokerClusterName", "mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "maxIndexNum",
        "maxHashSlotNum", "flushDiskType", "fileReservedTime", "brokerId", "brokerPermission")  # fmt: skip
    assert {name: mine[name] for name in same} == {name: their[name] for name in same}
