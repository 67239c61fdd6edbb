"""Goal: who administers a broker with RocketMQ's tools sees what is there, and changes topics by the rules that local clients
have.

Method: the requests of mqadmin over the socket, beside OrbitMQ's own client on the same broker. The real mqadmin runs in
tests/interop/test_mqadmin.py. Of remoting/admin/brokers.py,
remoting/admin/groups.py and remoting/admin/topics.py.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.errors import NoPermission, TopicNameError, UnknownTopic
from tests.actors.remoting_client import ROUTE, Remote, Said
from tests.actors.shared_broker import OWN_TOPIC
from tests.trees import indexed, kill, small_broker
from tests.waiting import until

CHANGE, CONFIG, RUNTIME, STATS, LIST, DELETE, FORGET, OF_CLUSTER, GROUPS_OF = 17, 26, 28, 202, 206, 215, 216, 224, 300
SHAPE, GROUPS, DELETE_GROUP, PROGRESS = 200, 201, 207, 208
SUCCESS, SYSTEM_ERROR, NO_TOPIC = 0, 1, 17


def change(remote: Remote, topic: str, queues: int, perm: int = 6, **others: object) -> Said:
    fields = {"defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "topicFilterType": "SINGLE_TAG"}
    return remote.ask(CHANGE, topic=topic, perm=perm, order="false", topicSysFlag=0, **{**fields, **others})


def queue_map(text: str) -> dict[tuple[str, str, int], Any]:
    """What a map with queues as keys holds: broker, topic, queue."""
    found = {}
    for key, value in re.findall(r"(\{[^{}]*\}):(\{[^{}]*\}|-?\d+)", text):
        queue = json.loads(key)
        found[queue["brokerName"], queue["topic"], queue["queueId"]] = json.loads(value)
    return found


def table(remote: Remote) -> dict[str, str]:
    said = remote.ask(RUNTIME)
    assert said.code == SUCCESS
    found: dict[str, str] = json.loads(said.body)["table"]
    assert all(isinstance(value, str) for value in found.values())
    return found


def test_a_topic_is_made_and_changed(broker: orbitmq.Broker, remote: Remote) -> None:
    """More queues, and another permission; local clients see both, and the permission counts for them."""
    assert change(remote, "new", 3).code == SUCCESS
    assert change(remote, "new", 3).code == SUCCESS, "the same again"
    assert len(broker.topic("new").queues) == 3
    assert change(remote, "new", 5, perm=4).code == SUCCESS
    found = broker.topic("new")
    assert (len(found.queues), found.perm) == (5, 4)
    (queues,) = json.loads(remote.ask(ROUTE, topic="new").body)["queueDatas"]
    assert (queues["perm"], queues["readQueueNums"], queues["writeQueueNums"]) == (4, 5, 5)
    with broker.producer() as producer, pytest.raises(NoPermission):
        producer.send("new", b"refused")
    assert change(remote, "new", 5).code == SUCCESS
    with broker.producer() as producer:
        producer.send("new", b"taken")


@pytest.mark.parametrize(
    ("name", "fields", "why"),
    [
        (OWN_TOPIC, {"readQueueNums": 1, "writeQueueNums": 1}, "queues"),
        (OWN_TOPIC, {"readQueueNums": 4}, "4 queues to read and 2 to write"),
        (OWN_TOPIC, {"perm": 1}, "permission 1"),
        ("SCHEDULE_TOPIC_XXXX", {}, "SCHEDULE_TOPIC_XXXX"),
        ("a b", {}, "illegal characters"),
        ("a" * 128, {}, "longer than topic max length"),
        ("", {}, "is blank"),
        (OWN_TOPIC, {"perm": "all"}, "cannot be read"),
        (OWN_TOPIC, {"readQueueNums": 0, "writeQueueNums": 0}, "queues"),
    ],
)
def test_changes_that_are_refused(broker: orbitmq.Broker, remote: Remote, name: str, fields: Any, why: str, topic: str) -> None:
    before = shapes(broker)
    assert (topic, 2, 6) in before
    said = change(remote, topic if name == OWN_TOPIC else name, 2, **fields)
    assert said.code == SYSTEM_ERROR and said.remark is not None and why in said.remark
    assert ("cannot be read" in said.remark) == (why == "cannot be read"), "what the coordinator says is told as it is"
    assert shapes(broker) == before


def shapes(broker: orbitmq.Broker) -> set[tuple[str, int, int]]:
    """Names, queues and permissions of all topics."""
    return {(each.name, len(each.queues), each.perm) for each in broker.status().topics}


def test_lists(broker: orbitmq.Broker, remote: Remote) -> None:
    broker.create_topic("other", 1)
    names = {topic.name for topic in broker.status().topics}
    for said in (remote.ask(LIST), remote.ask(OF_CLUSTER, cluster="DefaultCluster")):
        assert set(json.loads(said.body)["topicList"]) == names == {"t", "other"}
    assert json.loads(remote.ask(OF_CLUSTER, cluster="elsewhere").body) == {"topicList": []}


def test_groups_of_local_programs_are_listed(broker: orbitmq.Broker, remote: Remote) -> None:
    """By their topics of retries, by which mqadmin's consumerProgress finds groups; also before those are made. What cannot be
    such a topic is not: of a member who gets every message."""
    name = "desk"
    with broker.consumer(name, topics=["t"], start="earliest"), broker.consumer("%" * 127, topics=["t"], start="earliest"):
        listed = json.loads(remote.ask(LIST).body)["topicList"]
        assert sorted(listed) == ["%RETRY%desk", "t"]
        assert remote.ask(ROUTE, topic="%RETRY%desk").code == SUCCESS
        assert sorted(json.loads(remote.ask(LIST).body)["topicList"]) == sorted(topic.name for topic in broker.status().topics)


def test_a_deleted_topic(tmp_path: Path) -> None:
    """It is gone for everybody, and stays gone after a restart."""
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker, Remote(broker.status().listens) as remote:
        broker.create_topic("t", 2)
        with broker.producer() as producer:
            producer.send("t", b"gone")
        assert remote.ask(DELETE, topic="t").code == SUCCESS
        assert remote.ask(FORGET, topic="t").code == SUCCESS
        with pytest.raises(UnknownTopic):
            broker.topic("t")
        assert remote.ask(DELETE, topic="t").code == SUCCESS, "as RocketMQ"
        for code in (STATS, ROUTE):
            assert remote.ask(code, topic="t").code == NO_TOPIC
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker, Remote(broker.status().listens) as remote:
        assert "t" not in json.loads(remote.ask(LIST).body)["topicList"]


def test_offsets_and_times(broker: orbitmq.Broker, remote: Remote) -> None:
    with broker.producer() as producer:
        for number in range(5):
            producer.send("t", b"%d" % number, queue=1)
    indexed(broker)
    with broker.consumer(None, topics=["t"], start="earliest") as consumer:
        *_, last = consumer.poll_batch(5, timeout=10)
    name = broker.status().name
    found = queue_map(remote.ask(STATS, topic="t").body.decode())
    nothing = {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0}
    newest = {"lastUpdateTimestamp": last.stored_ms, "maxOffset": 5, "minOffset": 0}
    assert found == {(name, "t", 0): nothing, (name, "t", 1): newest}
    broker.purge_topic("t", 5, queue=1)
    purged = queue_map(remote.ask(STATS, topic="t").body.decode())[name, "t", 1]
    assert purged == {"lastUpdateTimestamp": 0, "maxOffset": 5, "minOffset": 5}


def test_groups_of_a_topic(broker: orbitmq.Broker, remote: Remote) -> None:
    assert json.loads(remote.ask(GROUPS_OF, topic="t").body) == {"groupList": []}
    with broker.producer() as producer:
        producer.send("t", b"read")
    with broker.consumer("readers", topics=["t"], start="earliest") as consumer:
        assert consumer.poll_batch(1, timeout=10)
        consumer.commit()
    assert json.loads(remote.ask(GROUPS_OF, topic="t").body) == {"groupList": ["readers"]}
    assert json.loads(remote.ask(GROUPS_OF, topic="absent").body) == {"groupList": []}


def test_settings_of_a_group(broker: orbitmq.Broker, remote: Remote) -> None:
    """As RocketMQ's file has them; what is not said stays. They are kept, and count for local members."""

    def shape(**settings: object) -> int:
        return remote.ask(SHAPE, json.dumps({"groupName": "desk", **settings}).encode()).code

    def shown() -> Any:
        return json.loads(remote.ask(GROUPS, b"").body)["subscriptionGroupTable"].get("desk")

    assert shown() is None
    assert shape(retryMaxTimes=3, retryQueueNums=2, whichBrokerWhenConsumeSlowly=1) == SUCCESS
    fixed = {"brokerId": 0, "consumeBroadcastEnable": True, "consumeFromMinEnable": True, "groupName": "desk"}
    fixed |= {"notifyConsumerIdsChangedEnable": True, "whichBrokerWhenConsumeSlowly": 1, "retryQueueNums": 2}
    assert shown() == {**fixed, "consumeEnable": True, "retryMaxTimes": 3}
    with broker.worker("desk", ["t"], start="earliest") as worker, broker.producer() as producer:
        assert shape(retryMaxTimes=1) == SUCCESS, "also of a group with workers"
        producer.send("t", b"fails")
        (job,) = worker.take(1, timeout=10)
        job.nack()
        until(lambda: [bytes(each.message) for each in broker.dead_letters("desk")] == [b"fails"], "the dead letter")
        assert len(broker.topic("%RETRY%desk").queues) == 2
        assert shape(consumeEnable=False) == SUCCESS and broker.group("desk").paused
        assert shape(consumeEnable=True) == SUCCESS and not broker.group("desk").paused
    kill(broker, "coordinator")
    until(lambda: shape(brokerId=7) == SUCCESS, "a successor")
    assert shown() == {**fixed, "brokerId": 7, "consumeEnable": True, "retryMaxTimes": 1}
    for name, value in (("retryMaxTimes", "many"), ("retryQueueNums", -1), ("consumeEnable", 1), ("groupName", "a b")):
        assert shape(**{name: value}) == SYSTEM_ERROR
    for body in (b"", b"[]", b"{}", b'{"groupName":7}'):
        assert remote.ask(SHAPE, body).code == SYSTEM_ERROR
    assert shown()["brokerId"] == 7
    until(lambda: remote.ask(DELETE_GROUP, groupName="desk").code == SUCCESS, "the worker's end to be noticed")
    assert shown() is None


def test_what_a_deleted_group_leaves(broker: orbitmq.Broker, remote: Remote) -> None:
    """Its topics of retries and dead letters can be deleted then, remotely and locally, and not before; a group of its name
    begins with new ones."""
    retry, dead = "%RETRY%desk", "%DLQ%desk"

    def fail(count: int) -> None:
        """All messages become dead letters."""
        with broker.producer() as producer:
            producer.send("t", b"%d" % count)
        with broker.worker("desk", ["t"], start="earliest", max_tries=1) as worker:
            for _ in range(count):
                (job,) = worker.take(1, timeout=10)
                job.nack()
            until(lambda: letters() == {b"%d" % each for each in range(1, count + 1)}, "the dead letters")

    def letters() -> set[bytes]:
        return {bytes(letter.message) for letter in broker.dead_letters("desk")}

    for count, delete in enumerate((lambda: remote.ask(DELETE, topic=dead), lambda: broker.delete_topic(dead)), 1):
        fail(count)
        for name in (retry, dead):
            assert remote.ask(DELETE, topic=name).code == SYSTEM_ERROR, "the group is there"
            with pytest.raises(TopicNameError):
                broker.delete_topic(name)
        until(lambda: remote.ask(DELETE_GROUP, groupName="desk").code == SUCCESS, "the worker's end to be noticed")
        assert remote.ask(DELETE, topic=retry).code == SUCCESS
        delete()
        assert not {retry, dead} & {topic.name for topic in broker.status().topics}
        assert remote.ask(ROUTE, topic=dead).code == NO_TOPIC


def test_the_progress_of_a_group(broker: orbitmq.Broker, remote: Remote) -> None:
    """As the group has committed; a group that nobody uses can be deleted, and one that is not there too."""
    broker.create_topic("other", 1)
    with broker.producer() as producer:
        for number in range(5):
            producer.send("t", b"%d" % number, queue=1)
        producer.send("other", b"last")
    with broker.consumer("readers", topics=["t", "other"], start="earliest") as consumer:
        read: list[Any] = []
        while len(read) < 6:
            read += consumer.poll_batch(6, timeout=10)
        consumer.commit()
        assert remote.ask(DELETE_GROUP, groupName="readers").code == SYSTEM_ERROR, "it has a member"
    with broker.producer() as producer:
        producer.send("t", b"more", queue=1)
    indexed(broker)
    name = broker.status().name
    said = remote.ask(PROGRESS, consumerGroup="readers").body.decode()
    assert said.startswith('{"consumeTps":0.0,"offsetTable":{')
    assert remote.ask(ROUTE, topic="%RETRY%readers").code == SUCCESS, "mqadmin finds the group's brokers by it"
    assert remote.ask(ROUTE, topic="%RETRY%nobody").code == NO_TOPIC
    newest = max(message.stored_ms for message in read if message.topic == "t")
    found = queue_map(said)
    assert found[name, "t", 1] == {"brokerOffset": 6, "consumerOffset": 5, "lastTimestamp": newest}
    assert found[name, "other", 0]["consumerOffset"] == 1
    of_one = queue_map(remote.ask(PROGRESS, consumerGroup="readers", topic="other").body.decode())
    assert {topic for _, topic, _ in of_one} == {"other"}
    assert remote.ask(DELETE_GROUP, groupName="readers").code == SUCCESS
    assert remote.ask(DELETE_GROUP, groupName="readers").code == SUCCESS
    assert queue_map(remote.ask(PROGRESS, consumerGroup="readers").body.decode()) == {}
    assert "readers" not in [group.name for group in broker.status().groups]


def test_what_the_broker_is_doing(broker: orbitmq.Broker, remote: Remote) -> None:
    empty = table(remote)
    assert (empty["earliestMessageTimeStamp"], empty["msgPutTotalTodayNow"], empty["commitLogMaxOffset"]) == ("-1", "0", "0")
    day = time.localtime().tm_yday
    with broker.producer() as producer:
        for number in range(20):
            producer.send("t", b"%d" % number)
    indexed(broker)
    until(lambda: (seen := broker.status().positions).flushed == seen.wrote, "the flush")
    status, found = broker.status(), table(remote)
    assert found["earliestMessageTimeStamp"] == str(status.oldest_ms)
    assert found["commitLogMaxOffset"] == str(status.positions.wrote)
    assert found["commitLogFlushedOffset"] == str(status.positions.flushed)
    assert (found["commitLogMinOffset"], found["dispatchBehindBytes"], found["remainHowManyDataToFlush"]) == ("0", "0", "0 B")
    assert (found["msgPutTotalTodayNow"], found["msgPutTotalYesterdayMorning"]) == ("20", "0")
    if day == time.localtime().tm_yday:
        assert found["msgPutTotalTodayMorning"] == "0"
    rates = [float(rate) for rate in found["putTps"].split(" ")]
    assert len(rates) == 3 and all(0 < rate <= 20 for rate in rates)
    assert 0 < float(found["commitLogDiskRatio"]) < 1
    assert found["brokerVersionDesc"] == f"OrbitMQ_{orbitmq.__version__}"


def test_what_came_today(broker: orbitmq.Broker, remote: Remote) -> None:
    """Messages until this morning are counted by their store times, and so by a gateway that was not there then."""
    day = time.localtime().tm_yday
    with broker.producer() as producer:
        for number in range(7):
            producer.send("t", b"%d" % number)
    indexed(broker)
    found = table(remote)
    assert found["msgPutTotalTodayNow"] == "7"
    if day == time.localtime().tm_yday:
        assert (found["msgPutTotalYesterdayMorning"], found["msgPutTotalTodayMorning"]) == ("0", "0")


def test_the_settings(broker: orbitmq.Broker, remote: Remote) -> None:
    said = remote.ask(CONFIG)
    found = dict(line.split("=", 1) for line in said.body.decode().splitlines())
    status = broker.status()
    assert (found["brokerName"], found["storePathRootDir"]) == (status.name, status.store)
    assert found["listenPort"] == status.listens.rpartition(":")[2]
    assert (found["maxMessageSize"], found["fileReservedTime"]) == (str(status.message_max), str(status.retention_hours))
    assert (found["flushDiskType"], found["autoCreateTopicEnable"]) == ("ASYNC_FLUSH", "true")
