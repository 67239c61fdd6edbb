"""Goal: who administers a broker with RocketMQ's tools sees which clients belong to a group, and has them go on at another
time.

Method: clients of the readable model of the protocol; what is shown is compared with what they have said. The real mqadmin
runs in tests/interop/test_mqadmin.py. Of remoting/clients.py and remoting/admin/connections.py.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from tests.actors.remoting_client import HEARTBEAT, UNREGISTER, Remote
from tests.trees import indexed, small_broker
from tests.waiting import until

CONSUMERS, PRODUCERS, RESET, RESET_CLIENT, COMMIT = 203, 204, 222, 220, 15
SUCCESS, SYSTEM_ERROR, NOT_ONLINE = 0, 1, 206


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker:
        broker.create_topic("t", 2)
        yield broker


@pytest.fixture
def member(broker: orbitmq.Broker) -> Iterator[Remote]:
    """Of the consumer group g and the producer group p."""
    with Remote(broker.status().listens) as remote:
        subscriptions: list[dict[str, Any]] = [{"topic": "t", "subString": "a || b", "expressionType": "TAG"}]
        subscriptions[0]["subVersion"] = 7
        subscriptions.append({"topic": "u", "subString": "price > 3", "expressionType": "SQL92"})
        rest = {"consumeType": "CONSUME_ACTIVELY", "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"}
        consumer = {"groupName": "g", "messageModel": "CLUSTERING", **rest, "subscriptionDataSet": subscriptions}
        told = {"clientID": "1@a", "consumerDataSet": [consumer], "producerDataSet": [{"groupName": "p"}]}
        remote.until(remote.put(HEARTBEAT, json.dumps(told).encode()))
        yield remote


def address(remote: Remote) -> str:
    host, port = remote.socket.getsockname()
    return f"{host}:{port}"


def test_who_consumes_and_produces(broker: orbitmq.Broker, member: Remote) -> None:
    with Remote(broker.status().listens) as other:
        said = other.ask(CONSUMERS, consumerGroup="g")
        connection = {"clientAddr": address(member), "clientId": "1@a", "language": "JAVA", "version": 407}
        tags = {"expressionType": "TAG", "subString": "a || b", "tagsSet": ["a", "b"], "topic": "t"}
        tags |= {"classFilterMode": False, "codeSet": [97, 98], "subVersion": 7}
        sql = {"expressionType": "SQL92", "subString": "price > 3", "tagsSet": [], "topic": "u"}
        sql |= {"classFilterMode": False, "codeSet": [], "subVersion": 0}
        assert json.loads(said.body) == {
            "connectionSet": [connection],
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "consumeType": "CONSUME_ACTIVELY",
            "messageModel": "CLUSTERING",
            "subscriptionTable": {"t": tags, "u": sql},
        }
        assert json.loads(other.ask(PRODUCERS, producerGroup="p").body) == {"connectionSet": [connection]}
        assert other.ask(CONSUMERS, consumerGroup="nobody").code == NOT_ONLINE
        assert other.ask(PRODUCERS, producerGroup="nobody").code == SYSTEM_ERROR
        member.until(member.put(UNREGISTER, clientID="1@a", consumerGroup="g", producerGroup="p"))
        assert other.ask(CONSUMERS, consumerGroup="g").code == NOT_ONLINE
        assert other.ask(PRODUCERS, producerGroup="p").code == SYSTEM_ERROR


def test_who_has_gone_is_not_shown(broker: orbitmq.Broker, member: Remote) -> None:
    with Remote(broker.status().listens) as other:
        assert other.ask(CONSUMERS, consumerGroup="g").code == SUCCESS
        member.socket.close()
        until(lambda: other.ask(CONSUMERS, consumerGroup="g").code == NOT_ONLINE, "the end of the connection")
        assert other.ask(PRODUCERS, producerGroup="p").code == SYSTEM_ERROR


def reset(remote: Remote, when_ms: int, *, force: bool = True, **fields: str) -> Any:
    force_text = "true" if force else "false"
    return remote.ask(RESET, **{"topic": "t", "group": "g", "timestamp": when_ms, "isForce": force_text, **fields})


def offsets(body: bytes) -> dict[int, int]:
    return {json.loads(key)["queueId"]: int(value) for key, value in re.findall(r"(\{[^{}]*\}):(-?\d+)", body.decode())}


def test_members_go_on_at_a_time(broker: orbitmq.Broker, member: Remote) -> None:
    """Each member is told; without force, only backwards. The group is moved by the members, not by the broker."""
    with broker.producer() as producer:
        for number in range(12):
            producer.send("t", b"%d" % number, queue=number % 2)
            began = time.time_ns() // 1_000_000
            until(lambda began=began: time.time_ns() // 1_000_000 > began, "another millisecond")  # type: ignore[misc]
    indexed(broker)
    with broker.consumer(None, topics=["t"], start="earliest") as consumer:
        stored = {int(bytes(message)): message.stored_ms for message in consumer.poll_batch(12, timeout=10)}
    with Remote(broker.status().listens) as other:
        assert reset(other, 0).code == SYSTEM_ERROR, "the group has no offset yet"
        for queue, offset in ((0, 5), (1, 2)):
            assert other.ask(COMMIT, consumerGroup="g", topic="t", queueId=queue, commitOffset=offset).code == SUCCESS
        for when_ms, force, wanted in (
            (0, True, {0: 0, 1: 0}),
            (stored[6], True, {0: 3, 1: 3}),
            (stored[6], False, {0: 3, 1: 2}),
            (-1, True, {0: 6, 1: 6}),
            (-1, False, {0: 5, 1: 2}),
        ):
            said = reset(other, when_ms, force=force)
            assert said.code == SUCCESS and offsets(said.body) == wanted
            told = member.asked()
            assert (told.code, told.body) == (RESET_CLIENT, said.body)
            assert told.fields == {"topic": "t", "group": "g", "timestamp": str(when_ms), "isForce": "false"}
        assert [queue.lag_messages for queue in broker.group("g").queues] == [1, 4]
        assert reset(other, 0, topic="absent").code == SYSTEM_ERROR
        member.until(member.put(UNREGISTER, clientID="1@a", consumerGroup="g"))
        assert reset(other, 0).code == NOT_ONLINE
