"""Goal: a RocketMQ client that sends to a topic that does not exist makes it, as with RocketMQ, if the setting allows it and
the name does.

Method: the client of the readable model asks for the routes that Java's producer asks for, and sends as that does; many at
once, to many topics. Java's producer does so in tests/interop/test_remote.py. Also of remoting/template_topic.py. Also of
remoting/sends.py.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.errors import SettingError
from tests.actors.remoting_batch import SEND_BATCH, Entry, batch_of
from tests.actors.remoting_client import ONE_WAY, PULL, ROUTE, SEND, SEND_V2, Remote
from tests.actors.shared_broker import broker_for
from tests.native.remoting_model import BINARY, JSON
from tests.trees import indexed, kill, small_broker, stored

SUCCESS, SYSTEM_ERROR, NO_PERMISSION, NO_TOPIC, NO_GROUP = 0, 1, 16, 17, 26
TEMPLATE = "TBW102"


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[orbitmq.Broker]:
    with broker_for(request, 0, listen="127.0.0.1:0") as broker:
        yield broker


@pytest.fixture(params=[JSON, BINARY], ids=["json", "binary"])
def remote(broker: orbitmq.Broker, request: pytest.FixtureRequest) -> Iterator[Remote]:
    with Remote(broker.status().listens, request.param) as remote:
        yield remote


def queues(broker: orbitmq.Broker) -> dict[str, int]:
    return {topic.name: len(topic.queues) for topic in broker.status().topics}


def test_as_java_s_producer_does(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """No route for the topic, so it takes that of the template, and the send makes the topic, which has a route then."""
    before = queues(broker)
    assert remote.ask(ROUTE, topic=topic).code == NO_TOPIC
    (told,) = json.loads(remote.ask(ROUTE, topic=TEMPLATE).body)["queueDatas"]
    assert (told["readQueueNums"], told["writeQueueNums"], told["perm"]) == (8, 8, 7)
    assert remote.send(topic, b"first", 3).fields["queueId"] == "3"
    (told,) = json.loads(remote.ask(ROUTE, topic=topic).body)["queueDatas"]
    assert (told["readQueueNums"], told["writeQueueNums"], told["perm"]) == (4, 4, 6)
    with broker.producer() as producer:
        assert producer.send(topic, b"second", queue=3).offset == 1
    indexed(broker)
    assert list(map(bytes, stored(broker, topic))) == [b"first", b"second"]
    assert queues(broker).items() - before.items() == {(topic, 4)}
    assert remote.ask(PULL, **remote.pull_fields(TEMPLATE, 0, 0)).code == NO_TOPIC
    assert remote.send(TEMPLATE, b"x").code == NO_PERMISSION


def test_the_topic_of_the_broker_s_name(broker: orbitmq.Broker, remote: Remote) -> None:
    """As with RocketMQ it has a route, by which some clients learn where the broker is; a send makes it."""
    told = json.loads(remote.ask(ROUTE, topic=broker.name).body)
    assert told["brokerDatas"][0]["brokerAddrs"] == {"0": broker.status().listens}
    assert (told["queueDatas"][0]["writeQueueNums"], queues(broker)) == (1, {})
    assert remote.send(broker.name, b"x", d=1).code == SUCCESS
    assert queues(broker) == {broker.name: 1}


@pytest.mark.parametrize(("wanted", "made"), [(1, 1), (8, 8), (100, 8), (0, 1), (-1, 1)])
def test_how_many_queues(broker: orbitmq.Broker, remote: Remote, wanted: int, made: int, topic: str) -> None:
    """As many as the send says, but no more than the template has; all kinds of sends do it."""
    fields: dict[str, Any] = {"queueId": 0, "sysFlag": 0, "bornTimestamp": 5, "flag": 0, "defaultTopic": TEMPLATE}
    names = [f"{topic}-{kind}" for kind in ("long", "brief", "batch", "half", "one-way", "delayed")]
    assert remote.ask(SEND, b"x", topic=names[0], defaultTopicQueueNums=wanted, **fields).code == SUCCESS
    assert remote.send(names[1], b"x", d=wanted).code == SUCCESS
    batch = remote.send_fields(names[2], 0, d=wanted) | {"m": "true"}
    assert remote.ask(SEND_BATCH, batch_of([Entry(b"x")] * 2), **batch).code == SUCCESS
    assert remote.send(names[3], b"x", 0, b"TRAN_MSG\1true\2", d=wanted).code == SUCCESS
    remote.put(SEND_V2, b"x", mark=ONE_WAY, **remote.send_fields(names[4], 0, d=wanted))
    assert remote.send(names[5], b"x", 0, b"DELAY\00118\2", d=wanted).code == SUCCESS
    assert {name: queues(broker)[name] for name in names} == dict.fromkeys(names, made)


REFUSED: list[tuple[str, dict[str, object], int]] = [
    ("new", {"c": "none"}, NO_TOPIC),
    ("new", {"c": ""}, NO_TOPIC),
    ("new", {"d": ""}, SYSTEM_ERROR),
    ("new", {"d": "many"}, SYSTEM_ERROR),
    ("new", {"e": 4}, SYSTEM_ERROR),  # this one makes it
    ("", {}, SYSTEM_ERROR),
    ("a b", {}, SYSTEM_ERROR),
    ("x" * 128, {}, SYSTEM_ERROR),
    ("%RETRY%a b", {}, NO_GROUP),
    ("%DLQ%of-no-group", {}, NO_PERMISSION),
]


@pytest.mark.parametrize(("name", "change", "code"), REFUSED, ids=range(len(REFUSED)))
def test_refused(
    broker: orbitmq.Broker, remote: Remote, name: str, change: dict[str, object], code: int, topic: str
) -> None:
    before = set(queues(broker))
    said = remote.ask(SEND_V2, b"x", **remote.send_fields(topic if name == "new" else name, 0, **change))
    assert (said.code, bool(said.remark)) == (code, True), said
    assert set(queues(broker)) - before <= ({topic} if "e" in change else set())
    assert remote.send(f"{topic}-good", b"x").code == SUCCESS


@pytest.mark.parametrize("name", ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"])
def test_no_send_makes_a_topic_of_the_broker(broker: orbitmq.Broker, remote: Remote, name: str) -> None:
    """Which is there once a message has waited, or a transaction was begun."""
    said = remote.ask(SEND_V2, b"x", **remote.send_fields(name, 0))
    assert (said.code, bool(said.remark)) == (NO_PERMISSION, True), said
    assert queues(broker) == {}
    assert remote.send("good", b"x").code == SUCCESS


@pytest.mark.parametrize("name", ["RMQ_SYS_TRACE_TOPIC", "rmq_sys_TRACE_DATA_cn-hangzhou"])
def test_traces(broker: orbitmq.Broker, remote: Remote, name: str) -> None:
    """What a client with message tracing tells of its sends: made by its first one, and found by the messages' ids, which are
    many in one report."""
    ids = [f"7F0000010000{number:020X}" for number in range(200)]
    assert remote.send(name, b"Pub\1report", 0, b"KEYS\1" + " ".join(ids).encode() + b"\2TAGS\1\2WAIT\1true\2").code == SUCCESS
    assert remote.send(name, b"Pub\1another", 3).code == SUCCESS
    indexed(broker)
    assert [bytes(found) for found in broker.find(name, ids[-1])] == [b"Pub\1report"]
    system = json.loads(remote.ask(305).body)["topicList"]
    assert system == [name]


def test_not_allowed(tmp_path: Path) -> None:
    """With the setting off, the template has no route, and nothing is made."""
    with small_broker(tmp_path, listen="127.0.0.1:0", auto_create_topics=False) as broker:
        with Remote(broker.status().listens) as remote:
            assert remote.ask(ROUTE, topic=TEMPLATE).code == NO_TOPIC
            said = remote.send("new", b"x")
            assert said.code == NO_TOPIC and "orbitmq topic create new" in (said.remark or "")
        assert queues(broker) == {}
    with pytest.raises(SettingError, match="auto_create_topics"):
        small_broker(tmp_path, auto_create_topics="perhaps").__enter__()  # type: ignore[arg-type]


def test_a_deleted_topic(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """The next send makes it again, as a new one: without what it held."""
    remote.send(topic, b"old")
    indexed(broker)  # until then it cannot be made again
    broker.delete_topic(topic)
    assert remote.send(topic, b"new").code == SUCCESS
    indexed(broker)
    with broker.consumer(None, topics=[topic], start="earliest") as consumer:
        assert list(map(bytes, consumer.poll_batch(10, timeout=10))) == [b"new"]


def test_no_room(tmp_path: Path) -> None:
    """A full table: the send is refused with the reason, and other topics go on."""
    with small_broker(tmp_path, listen="127.0.0.1:0", queue_capacity=16) as broker:
        with Remote(broker.status().listens) as remote:
            assert remote.send("first", b"x").code == SUCCESS
            said = remote.send("second", b"x", d=8)
            assert said.code == SYSTEM_ERROR and "queue_capacity" in (said.remark or "")
            assert remote.send("first", b"x").code == SUCCESS
        assert queues(broker) == {"first": 4}


@pytest.mark.parametrize("victim", [None, "coordinator", "writer"])
def test_many_at_once(broker: orbitmq.Broker, victim: str | None) -> None:
    """Many clients and few names: each topic is made once, and every message that was acknowledged is in it."""
    listens = broker.status().listens
    sent: list[tuple[str, bytes]] = []

    def send(number: int) -> None:
        rng = random.Random(number)
        with Remote(listens, number % 2) as remote:
            names = {}
            for each in range(30):
                message = f"t{rng.randrange(12)}", b"%d-%d" % (number, each)
                names[remote.put(SEND_V2, message[1], **remote.send_fields(message[0], rng.randrange(4)))] = message
            taken = [remote.take() for _ in names]
        sent.extend(names[said.opaque] for said in taken if said.code == SUCCESS)

    crowd = [threading.Thread(target=send, args=(number,)) for number in range(10)]
    for each in crowd:
        each.start()
    if victim:
        kill(broker, victim)
    for each in crowd:
        each.join()
    assert victim == "coordinator" or len(sent) == 300
    indexed(broker)
    made = queues(broker)
    assert set(made.values()) == {4} and {topic for topic, _ in sent} <= set(made)
    found = sorted((topic, bytes(message)) for topic in made for message in stored(broker, topic))
    assert found == sorted(sent)
