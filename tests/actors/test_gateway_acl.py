"""Goal: with access rules, the gateway serves a client what its account may do, and nothing else; rules are those of the file
as it is now, or was when it could last be read. Of actors/gateway/guard.py, too.

Method: clients that sign by the readable model, against a file that changes; RocketMQ's own broker and clients judge in
tests/interop/test_acl.py.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.actors.gateway.guard import Guard
from orbitmq.errors import SettingError
from orbitmq.native._core import ffi, lib
from tests.actors.pop_client import ACK, BATCH_ACK, NOTIFICATION, POLLING_INFO, POP
from tests.actors.remoting_client import CLUSTER, HEARTBEAT, PULL, QUERY_OFFSET, ROUTE, SEND_V2, UNREGISTER, Remote, records
from tests.actors.remoting_kinds import Signing
from tests.native.remoting_model import BINARY, JSON
from tests.trees import indexed, kill, small_broker
from tests.waiting import until

RULES = """\
accounts:
- accessKey: operator
  secretKey: 12345678
  admin: true
- accessKey: producer
  secretKey: of-the-producer
  topicPerms: [t=PUB]
- accessKey: consumer
  secretKey: of-the-consumer
  defaultTopicPerm: SUB
  groupPerms: [group=SUB]
- accessKey: at-home
  secretKey: of-the-home
  whiteRemoteAddress: 127.0.0.*
"""
SECRETS = {"operator": "12345678", "producer": "of-the-producer", "consumer": "of-the-consumer"}
MAKE_TOPIC, PULL_LITE, QUERY, SET_MODE = 17, 361, 400, 401
SUCCESS, SYSTEM_ERROR, NOT_SUPPORTED, NO_GROUP = 0, 1, 3, 26
HOUR_NS = 3_600_000_000_000
REFUSED = "org.apache.rocketmq.acl.common.AclException: "


def rules_file(folder: Path) -> Path:
    path = folder / "plain_acl.yml"
    path.write_text(RULES)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return rules_file(tmp_path)


@pytest.fixture
def broker(tmp_path: Path, file: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path / "store", listen="127.0.0.1:0", acl=str(file)) as broker:
        broker.create_topic("t", 2)
        broker.create_topic("other", 2)
        yield broker


def client(broker: orbitmq.Broker, access: str, form: int = JSON) -> Signing:
    return Signing(broker.status().listens, access, SECRETS[access], form)


def heartbeat(group: str, topic: str) -> bytes:
    subscription = {"topic": topic, "subString": "*", "expressionType": "TAG"}
    member = {"groupName": group, "messageModel": "CLUSTERING", "subscriptionDataSet": [subscription]}
    return json.dumps({"clientID": "one", "consumerDataSet": [member], "producerDataSet": []}).encode()


def refused(said: Any, why: str) -> bool:
    return bool(said.code == SYSTEM_ERROR and said.remark == REFUSED + why and not said.fields and not said.body)


@pytest.mark.parametrize("form", [JSON, BINARY], ids=["json", "binary"])
def test_what_an_account_may_do(broker: orbitmq.Broker, form: int) -> None:
    with client(broker, "producer", form) as producer, client(broker, "consumer", form) as consumer:
        assert producer.send("t", b"one").code == SUCCESS
        assert refused(producer.send("other", b"two"), "No default permission for topic:other")
        assert refused(producer.pull("t", 0, 0), "No default permission for topic:t")
        assert refused(consumer.send("t", b"three"), "No default permission for topic:t")
        indexed(broker)
        assert len(records(consumer.pull("t", 0, 0).body)) == 1
        other = {**consumer.pull_fields("t", 0, 0), "consumerGroup": "others"}
        assert refused(consumer.ask(PULL, **other), "No default permission for group:others")
        for asker in producer, consumer:
            why = f"Need admin permission for request code=17, but accessKey={asker._access} is not"
            assert refused(asker.ask(MAKE_TOPIC, topic="new", readQueueNums=1, writeQueueNums=1, perm=6), why)
    assert stored(broker) == 1


def test_who_has_no_key(broker: orbitmq.Broker) -> None:
    """Where topics are is told to everybody, as RocketMQ's name servers do; nothing else is."""
    with Remote(broker.status().listens) as remote:
        assert remote.ask(ROUTE, topic="t").code == SUCCESS
        assert remote.ask(CLUSTER).code == SUCCESS
        assert refused(remote.send("t", b"one"), "No accessKey is configured")
        for code in PULL, QUERY_OFFSET, HEARTBEAT, UNREGISTER, 999:
            assert refused(remote.ask(code), "No accessKey is configured")
        assert refused(remote.ask(SEND_V2, b"x", AccessKey="nobody1"), "No acl config for nobody1")
        one_way = remote.put(SEND_V2, b"x", mark=2, **remote.send_fields("t", 0))
        assert remote.ask(ROUTE, topic="t").opaque == one_way + 1  # it got no answer
    assert stored(broker) == 0


def stored(broker: orbitmq.Broker) -> int:
    """Messages, of all topics."""
    indexed(broker)
    return sum(queue.max_offset for known in broker.status().topics for queue in known.queues)


def test_wrong_signatures(broker: orbitmq.Broker) -> None:
    why = "Check signature failed for accessKey=producer"
    with Signing(broker.status().listens, "producer", "of-somebody-else") as remote:
        assert refused(remote.send("t", b"one"), why)
    with client(broker, "producer") as remote, Remote(broker.status().listens) as plain:
        right = remote.frame(SEND_V2, b"one", **remote.send_fields("t", 0))
        remote.socket.sendall(right[:-1] + b"!")
        assert refused(remote.take(), why)
        assert refused(plain.ask(SEND_V2, b"one", **plain.send_fields("t", 0), AccessKey="producer"), why)
        remote.socket.sendall(right)
        assert remote.take().code == SUCCESS
    assert stored(broker) == 1


def test_what_python_answers(broker: orbitmq.Broker) -> None:
    """Heartbeats name groups and topics in their bodies; administrators may change topics."""
    with client(broker, "consumer") as consumer, client(broker, "operator") as operator:
        assert refused(consumer.ask(HEARTBEAT, heartbeat("others", "t")), "No default permission for group:others")
        assert not broker.status().groups
        consumer.put(HEARTBEAT, heartbeat("group", "t"))
        assert consumer.answered().code == SUCCESS
        assert consumer.ask(38, consumerGroup="group").code == SUCCESS
        assert refused(consumer.ask(38, consumerGroup="others"), "No default permission for group:others")
        operator.put(HEARTBEAT, heartbeat("others", "t"))
        assert operator.answered().code == SUCCESS
        assert operator.ask(MAKE_TOPIC, topic="new", readQueueNums=1, writeQueueNums=1, perm=6).code == SUCCESS
        assert operator.ask(999).code == NOT_SUPPORTED
    with client(broker, "producer") as producer:
        assert refused(producer.ask(HEARTBEAT, heartbeat("group", "t")), "No default permission for group:group")


def test_who_may_pop(broker: orbitmq.Broker) -> None:
    """And acknowledge, one by one or many in one body, and ask whether there is something to pop."""
    ack = {"t": "t", "r": "0", "so": 0, "q": 0, "rq": 1, "pt": 1, "b": "AQ=="}
    times = {"invisibleTime": 1000, "pollTime": 15_000, "bornTime": 0}
    pop = {"topic": "t", "queueId": -1, "maxMsgNums": 1, "initMode": 0, **times}
    receipt = {"topic": "t", "queueId": 0, "offset": 0, "extraInfo": "0 1 1 1 0 b 0 0"}
    with client(broker, "producer") as producer:
        assert producer.send("t", b"x").code == SUCCESS
        assert refused(producer.ask(POP, consumerGroup="group", **pop), "No default permission for topic:t")
        assert refused(producer.ask(PULL_LITE, consumerGroup="group", topic="t"), "No default permission for topic:t")
    with client(broker, "consumer") as consumer:
        for group, allowed in (("group", True), ("another", False)):
            bodies = [json.dumps({"acks": [{**ack, name: group}]}).encode() for name in ("c", "consumerGroup")]
            said = [consumer.ask(POP, consumerGroup=group, **pop), consumer.ask(ACK, consumerGroup=group, **receipt)]
            said += [consumer.ask(BATCH_ACK, body) for body in bodies]
            asks = {"topic": "t", "queueId": -1, "pollTime": 1, "bornTime": 0, "consumerGroup": group}
            said += [consumer.ask(code, **asks) for code in (NOTIFICATION, POLLING_INFO)]
            if allowed:
                assert {each.code for each in said} == {SUCCESS}
            else:
                assert all(refused(each, "No default permission for group:another") for each in said)


def test_who_may_share_queues(broker: orbitmq.Broker) -> None:
    """Members of the group ask who gets which; how its messages come is an administrator's to say."""
    mode = json.dumps({"topic": "t", "consumerGroup": "group", "mode": "POP"}).encode()
    with client(broker, "consumer") as consumer, client(broker, "operator") as operator:
        for group, allowed in (("group", True), ("another", False)):
            asks = {"topic": "t", "consumerGroup": group, "clientId": "one", "strategyName": "AVG"}
            said = consumer.ask(QUERY, json.dumps(asks).encode())
            assert said.code == SUCCESS if allowed else refused(said, "No default permission for group:another")
        assert refused(
            consumer.ask(SET_MODE, mode), "Need admin permission for request code=401, but accessKey=consumer is not"
        )
        assert operator.ask(SET_MODE, mode).code == NO_GROUP, "nobody of it has come"


def test_an_account_at_home(broker: orbitmq.Broker) -> None:
    """From its own addresses, it signs nothing and may do everything."""
    with Remote(broker.status().listens) as remote:
        assert remote.ask(SEND_V2, b"one", **remote.send_fields("other", 0), AccessKey="at-home").code == SUCCESS
        remote.put(HEARTBEAT, heartbeat("any", "t"), AccessKey="at-home")
        assert remote.answered().code == SUCCESS


def replace(file: Path, text: str) -> None:
    """As editors do."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def may_send(broker: orbitmq.Broker, access: str, secret: str) -> bool:
    with Signing(broker.status().listens, access, secret) as remote:
        return bool(remote.send("t", b"one").code == SUCCESS)


def test_changes_of_the_file(broker: orbitmq.Broker, file: Path) -> None:
    """New accounts count, old ones do not, on open connections too. A file that cannot be read changes nothing."""
    with client(broker, "producer") as producer:
        assert producer.send("t", b"one").code == SUCCESS
        replace(file, RULES.replace("of-the-producer", "another-secret"))
        until(lambda: producer.send("t", b"two").code == SYSTEM_ERROR, "new rules")
        assert may_send(broker, "producer", "another-secret")
    file.write_text("accounts:\n- accessKey: [\n")
    file.write_text("globalWhiteRemoteAddresses: [127.0.0.1]\n")  # in place
    until(lambda: may_send(broker, "nobody1", "anything"), "the list of addresses")
    file.unlink()
    replace(file, RULES)
    until(lambda: not may_send(broker, "nobody1", "anything"), "the first rules")
    assert may_send(broker, "producer", "of-the-producer")


def test_a_gateway_that_is_killed(broker: orbitmq.Broker, file: Path) -> None:
    """The next one has the rules of the file; none if they cannot be read: then it refuses everybody until they can."""
    assert may_send(broker, "producer", "of-the-producer")
    kill(broker, "gateway")
    assert may_send(broker, "producer", "of-the-producer")
    replace(file, "accounts: no list\n")
    kill(broker, "gateway")
    assert not may_send(broker, "producer", "of-the-producer")
    replace(file, RULES)
    until(lambda: may_send(broker, "producer", "of-the-producer"), "the rules")


@pytest.mark.parametrize(
    ("text", "settings", "why"),
    [
        ("accounts:\n- accessKey: account1\n", {}, "line 2: the account's secretKey is missing"),
        (None, {}, "it cannot be read: No such file"),
        (RULES, {"listen": ""}, "no client whom these rules are for could reach this broker"),
        (RULES, {"acl": "plain_acl.yml"}, "it must be the absolute path of a file"),
        (RULES, {"acl": 5}, "it must be the absolute path of a file"),
    ],
)
def test_what_cannot_start(tmp_path: Path, file: Path, text: str | None, settings: dict[str, Any], why: str) -> None:
    file.unlink()
    if text is not None:
        file.write_text(text)
    with pytest.raises(SettingError, match=why) as found:
        small_broker(tmp_path / "store", **{"listen": "127.0.0.1:0", "acl": str(file), **settings}).__enter__()
    assert found.value.name == "acl"


class Rules:
    """What a guard gives to C, without a gateway."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
        self.loaded: list[Any] = []
        self.said: list[str] = []
        self.now_s = 100.0
        real = lib

        class Core:
            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

            @staticmethod
            def gateway_guard(_: Any, acl: Any, loaded: list[Any] = self.loaded) -> None:
                loaded.append(ffi.gc(acl, real.acl_free))

        monkeypatch.setattr("orbitmq.actors.gateway.guard.lib", Core())
        self.guard = Guard(None, file, self.said.append, lambda: self.now_s)

    def look(self) -> None:
        self.now_s += 1
        self.guard.look()


def test_when_a_guard_reads(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """Once for each change; it complains once about each mistake, and says when the rules hold again."""
    os.utime(file, ns=(time.time_ns() + HOUR_NS,) * 2)  # so that it stays young, however long the test takes
    rules = Rules(monkeypatch, file)
    assert len(rules.loaded) == 2 and len(rules.said) == 1  # at first nobody may do anything
    rules.look()
    assert len(rules.loaded) == 2
    written = file.stat()
    file.write_text(RULES.replace("12345678", "87654321"))
    os.utime(file, ns=(written.st_atime_ns, written.st_mtime_ns))  # within one tick of the clock
    rules.look()
    assert len(rules.loaded) == 3
    file.write_text("accounts: no list\n")
    for _ in range(3):
        rules.look()
    assert len(rules.loaded) == 3 and len(rules.said) == 3
    assert "line 1: accounts must be a list" in rules.said[-1] and str(file) in rules.said[-1]
    file.unlink()
    for _ in range(3):
        rules.look()
    assert len(rules.said) == 4 and "cannot be read" in rules.said[-1]
    file.write_text(RULES)
    rules.look()
    assert len(rules.loaded) == 4 and "accounts: 4" in rules.said[-1]
    rules.guard.look()  # not so soon again
    file.write_text("")
    rules.guard.look()
    assert len(rules.loaded) == 4
    rules.look()
    assert len(rules.loaded) == 5
