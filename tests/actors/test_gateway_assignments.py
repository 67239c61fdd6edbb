"""Goal: consumers that have the broker share the queues get what RocketMQ's broker would say, by pull or by pop. Of
remoting/assignments.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from tests.actors.remoting_client import HEARTBEAT, Remote
from tests.trees import small_broker

QUERY, SET, SHAPE = 400, 401, 200
SYSTEM_ERROR, NO_PERMISSION, NO_TOPIC, NO_GROUP = 1, 16, 17, 26


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker:
        broker.create_topic("t", 5)
        yield broker


def beat(remote: Remote, client: str) -> None:
    """The client is in the group."""
    told = {"topic": "t", "subString": "*", "expressionType": "TAG"}
    consumer = {"groupName": "g", "messageModel": "CLUSTERING", "subscriptionDataSet": [told]}
    remote.until(remote.put(HEARTBEAT, json.dumps({"clientID": client, "consumerDataSet": [consumer]}).encode()))


def query(remote: Remote, client: str, topic: str = "t", **more: object) -> tuple[list[int] | None, set[str]]:
    """Queues, and the modes in which they are to be asked for."""
    told = {"topic": topic, "consumerGroup": "g", "clientId": client, "strategyName": "AVG", "messageModel": "CLUSTERING"}
    remote.put(QUERY, json.dumps({**told, **more}).encode())
    assigned = json.loads(remote.answered().body)["messageQueueAssignments"]
    if assigned is None:
        return None, set()
    assert all(each["messageQueue"]["topic"] == topic for each in assigned)
    return sorted(each["messageQueue"]["queueId"] for each in assigned), {each["mode"] for each in assigned}


def set_mode(remote: Remote, mode: object = "POP", **more: object) -> int:
    told = {"topic": "t", "consumerGroup": "g", "mode": mode, "popShareQueueNum": 0}
    remote.put(SET, json.dumps({**told, **more}).encode())
    return remote.answered().code


def test_shares_of_queues(broker: orbitmq.Broker, remote: Remote) -> None:
    """By pull as the strategy says; nothing while the group has no members, or the strategy is unknown. By pop all, of which
    none is named; then the group's retries come with what it pops."""
    assert query(remote, "a") == (None, set())
    with Remote(broker.status().listens) as other:
        beat(remote, "a")
        beat(other, "b")
        assert query(remote, "a") == ([0, 1, 2], {"PULL"})
        assert query(other, "b") == ([3, 4], {"PULL"})
        assert query(remote, "a", strategyName="AVG_BY_CIRCLE") == ([0, 2, 4], {"PULL"})
        assert query(other, "b", strategyName="AVG_BY_CIRCLE") == ([1, 3], {"PULL"})
        assert query(remote, "a", strategyName="other") == (None, set())
        assert query(remote, "nobody") == ([], set())
        assert query(remote, "a", messageModel="BROADCASTING") == ([0, 1, 2, 3, 4], {"PULL"})
        assert query(remote, "a", "none") == (None, set())
        assert query(remote, "a", "%RETRY%g") == ([0], {"PULL"})
        assert set_mode(remote) == NO_GROUP
        remote.put(SHAPE, b'{"groupName":"g"}')
        assert remote.answered().code == 0
        assert set_mode(remote) == 0
        assert query(remote, "a") == query(other, "b") == ([-1], {"POP"})
        assert query(remote, "a", "%RETRY%g") == ([], set())
        assert set_mode(remote, "PULL") == 0
        assert query(remote, "a") == ([0, 1, 2], {"PULL"})


def test_refusals(remote: Remote) -> None:
    assert set_mode(remote, topic="none") == NO_TOPIC
    assert set_mode(remote, topic="%RETRY%g") == NO_PERMISSION
    for wrong in ({"mode": "x"}, {"popShareQueueNum": []}, {"popShareQueueNum": None}):
        assert set_mode(remote, **wrong) == SYSTEM_ERROR
    for body in (b"", b"[]", b"{}", b"{"):
        remote.put(SET, body)
        assert remote.answered().code == SYSTEM_ERROR
    for body in (b"", b"[]", b"{"):
        remote.put(QUERY, body)
        assert remote.answered().code == SYSTEM_ERROR
