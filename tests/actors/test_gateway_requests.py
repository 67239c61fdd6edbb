"""Goal: a RocketMQ client's request is replied to, and a RocketMQ client replies, whoever is at the other end: another remote
client or a local one. A reply goes to its requester alone, and is stored as local requesters want it.

Method: clients of the readable model of the protocol beside OrbitMQ's own client on the same broker. Java's requester and
replier are in tests/interop/test_requests.py. Of native/remoting/gateway/gateway_reply.c.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import orbitmq
from orbitmq.shm.reply_topic import REPLY_TOPIC, reply_queue
from orbitmq.store.commit_log.record import Record, parse
from tests.actors.remoting_client import HEARTBEAT, ONE_WAY, ROUTE, SEND_V2, Remote, Said, records
from tests.actors.shared_broker import OWN_TOPIC
from tests.native.remoting_model import BINARY, JSON
from tests.trees import indexed, kill
from tests.waiting import until

VIEW, REPLY, REPLY_V2, PUSH = 33, 324, 325, 326
SUCCESS, ILLEGAL = 0, 13


@pytest.fixture
def asker(broker: orbitmq.Broker) -> Iterator[Remote]:
    with Remote(broker.status().listens) as remote:
        yield remote


@pytest.fixture(params=[JSON, BINARY], ids=["json", "binary"])
def replier(broker: orbitmq.Broker, request: pytest.FixtureRequest) -> Iterator[Remote]:
    with Remote(broker.status().listens, request.param) as remote:
        yield remote


def text(properties: dict[str, str]) -> bytes:
    return "".join(f"{name}\1{value}\2" for name, value in properties.items()).encode()


def names(client_id: str, correlation: str, **others: str) -> dict[str, str]:
    return {"CORRELATION_ID": correlation, "REPLY_TO_CLIENT": client_id, "TTL": "3000", **others}


def ask(
    remote: Remote, client_id: str, correlation: str, body: bytes = b"?", queue: int = 0, *, topic: str = OWN_TOPIC
) -> None:
    assert remote.send(topic, body, queue, text(names(client_id, correlation))).code == SUCCESS


def beat(remote: Remote, client_id: str) -> None:
    told = {"clientID": client_id, "producerDataSet": [{"groupName": "p"}], "consumerDataSet": []}
    assert remote.ask(HEARTBEAT, json.dumps(told).encode()).code == SUCCESS


def reply(remote: Remote, client_id: str, correlation: str, body: bytes, *, code: int = REPLY_V2, **others: object) -> Said:
    properties = text({**names(client_id, correlation, MSG_TYPE="reply", mine="yes"), "TAGS": "of the replier"})
    if code == REPLY:
        fields = {"producerGroup": "p", "topic": REPLY_TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": 4}
        fields |= {"queueId": 0, "sysFlag": 0, "bornTimestamp": 7, "flag": 5, "properties": properties}
    else:
        fields = {**remote.send_fields(REPLY_TOPIC, 0, properties), "f": 0, "g": 7, "h": 5}
    return remote.ask(code, body, **{**fields, **others})


def properties_of(said: Said) -> dict[str, str]:
    pairs = (pair.partition("\1") for pair in said.fields["properties"].split("\2") if pair)
    return {name: value for name, _, value in pairs}


def taken(remote: Remote) -> tuple[str, bytes]:
    """The next reply: to which request, and its body."""
    said = remote.asked()
    assert said.code == PUSH
    return properties_of(said)["CORRELATION_ID"], said.body


@pytest.mark.parametrize("code", [REPLY, REPLY_V2])
def test_a_reply_is_pushed_and_stored(broker: orbitmq.Broker, asker: Remote, replier: Remote, code: int, topic: str) -> None:
    beat(asker, "1@a")
    ask(asker, "1@a", "c1", b"how much?", topic=topic)
    receipt = reply(replier, "1@a", "c1", b"3.20", code=code)
    assert receipt.code == SUCCESS
    said = asker.asked()
    assert (said.code, said.body) == (PUSH, b"3.20")
    told = properties_of(said)
    assert int(told.pop("PUSH_REPLY_TIME")) > 1_600_000_000_000
    assert told == {**names("1@a", "c1", MSG_TYPE="reply", mine="yes"), "TAGS": "1@a"}
    fixed = {"topic": REPLY_TOPIC, "queueId": receipt.fields["queueId"], "sysFlag": "0", "bornTimestamp": "7", "flag": "5"}
    assert fixed.items() <= said.fields.items() and said.fields["bornHost"].startswith("/127.0.0.1:")
    message = broker.message(receipt.fields["msgId"])
    assert (message.topic, message.queue, message.tags) == (REPLY_TOPIC, reply_queue("1@a", 8), "1@a")
    assert int(said.fields["storeTimestamp"]) == message.stored_ms


def test_a_request_says_where_to_reply(broker: orbitmq.Broker, replier: Remote, topic: str) -> None:
    """RocketMQ's clients find the topic of replies by the property CLUSTER, which its brokers store with each message."""
    ask(replier, "1@a", "c1", topic=topic)
    replier.send(topic, b"no request")
    indexed(broker)
    request, plain = (parse(record) for record in records(replier.pull(topic, 0, 0).body))
    assert isinstance(request, Record) and isinstance(plain, Record)
    assert request.properties == {**names("1@a", "c1"), "CLUSTER": "DefaultCluster"} and plain.properties == {}
    looked_up = parse(replier.ask(VIEW, offset=request.physical_offset).body)
    assert isinstance(looked_up, Record) and looked_up.properties == request.properties
    said = replier.ask(ROUTE, topic=REPLY_TOPIC)
    assert said.code == SUCCESS and json.loads(said.body)["queueDatas"][0]["writeQueueNums"] == 8


def test_the_region(broker: orbitmq.Broker, replier: Remote) -> None:
    """Clients of RocketMQ 5, which trace what they consume only if it has a region, are told it, as by its brokers; others are
    not. A message without room for it comes without."""
    longest = b"k\1" + b"v" * (32767 - 1 - 20 - 3) + b"\2"
    ask(replier, "1@a", "c1")
    assert replier.send("t", b"plain").code == replier.send("t", b"full", 0, longest).code == 0
    indexed(broker)
    named: list[list[str]] = []
    for version in (412, 413):
        replier.version = version
        for found in map(parse, records(replier.pull("t", 0, 0).body)):
            assert isinstance(found, Record)
            named.append([name for name in ("MSG_REGION", "CLUSTER") if name in found.properties])
    assert named == [["CLUSTER"], [], [], ["MSG_REGION", "CLUSTER"], ["MSG_REGION"], []]


def test_a_local_program_replies(broker: orbitmq.Broker, asker: Remote, topic: str, group: str) -> None:
    with broker.consumer(group, [topic], start="earliest") as consumer:
        for number in range(20):
            ask(asker, "1@a", f"c{number}", b"%d" % number, number % 2, topic=topic)
        left = 20
        while left:
            for message in consumer.poll_batch(20, timeout=10):
                message.reply(b"to " + bytes(message))
                left -= 1
        assert sorted(taken(asker) for _ in range(20)) == sorted((f"c{n}", b"to %d" % n) for n in range(20))


def test_a_local_program_asks(broker: orbitmq.Broker, replier: Remote, topic: str) -> None:
    """A remote client pulls the request, and replies as RocketMQ's clients do."""
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(bytes(broker.request(topic, b"how much?", 30, queue=0))))
    thread.start()
    until(lambda: replier.pull(topic, 0, 0).code == SUCCESS, "the request")
    request = parse(records(replier.pull(topic, 0, 0).body)[0])
    assert isinstance(request, Record)
    told = {name: request.properties[name] for name in ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL")} | {"MSG_TYPE": "reply"}
    replies = request.properties["CLUSTER"] + "_REPLY_TOPIC"
    assert replier.ask(REPLY_V2, b"3.20", **replier.send_fields(replies, 3, text(told))).code == SUCCESS
    thread.join()
    assert found == [b"3.20"]


def test_many_ask_and_reply(broker: orbitmq.Broker, topic: str) -> None:
    """Goal: each reply comes to its requester, once, and to nobody else. Method: random requests of many clients, some without
    a heartbeat yet, replied to in any order by remote and local repliers; one client has two connections."""
    rng = random.Random(3)
    with ExitStack() as stack:
        clients = [stack.enter_context(Remote(broker.status().listens)) for _ in range(7)]
        ids = [f"{n}@x" for n in range(6)] + ["5@x"]
        for n in (0, 1, 2, 6):
            beat(clients[n], ids[n])
        producer = stack.enter_context(broker.producer())
        helper = stack.enter_context(Remote(broker.status().listens))
        open_ones: list[tuple[int, str]] = []
        wanted: list[list[tuple[str, bytes]]] = [[] for _ in clients]
        for number in range(300):
            if rng.random() < 0.6 or not open_ones:
                n = rng.randrange(6)
                fields = clients[n].send_fields(topic, 0, text(names(ids[n], f"c{number}")))
                assert clients[n].answer_amid(clients[n].put(SEND_V2, b"?", **fields)).code == SUCCESS
                open_ones.append((n, f"c{number}"))
                continue
            n, correlation = open_ones.pop(rng.randrange(len(open_ones)))
            body = rng.randbytes(rng.choice([0, 1, 3000]))
            assert reply(helper, ids[n], correlation, body, code=rng.choice([REPLY, REPLY_V2])).code == SUCCESS
            for each in range(7):
                if ids[each] == ids[n]:
                    wanted[each].append((correlation, body))
            if rng.random() < 0.1:
                assert reply(helper, "nobody@x", "c", b"lost").code == SUCCESS, "it is stored"
        producer.send(topic, b"last")
        for remote, due in zip(clients, wanted, strict=True):
            assert [taken(remote) for _ in due] == due
            assert remote.ask(HEARTBEAT, b"{}").code == SUCCESS, "nothing more has come"


def test_who_passes_a_request_on_gets_no_reply_in_its_place(
    broker: orbitmq.Broker, asker: Remote, replier: Remote, topic: str
) -> None:
    """As Java's consumers do with what they could not process."""
    beat(asker, "1@a")
    beat(replier, "2@b")
    ask(asker, "1@a", "c1", topic=topic)
    ask(replier, "2@b", "c2", topic=topic)
    ask(replier, "1@a", "c1", topic=topic)
    assert reply(asker, "2@b", "c2", b"two").code == SUCCESS
    assert taken(replier) == ("c2", b"two")
    assert reply(replier, "1@a", "c1", b"one").code == SUCCESS
    assert taken(asker) == ("c1", b"one")


def test_replies_before_the_request_are_passed_over(
    broker: orbitmq.Broker, asker: Remote, replier: Remote, topic: str
) -> None:
    """Method: when a later reply has come, the gateway has read all that is before it in the log."""
    early, other = f"{topic}@a", f"{topic}@b"
    assert reply(replier, early, "c0", b"too early").code == SUCCESS
    indexed(broker)
    ask(asker, other, "c1", topic=topic)
    assert reply(replier, other, "c1", b"another's").code == SUCCESS
    assert taken(asker) == ("c1", b"another's")
    ask(asker, early, "c2", topic=topic)
    assert reply(replier, early, "c2", b"in time").code == SUCCESS
    assert taken(asker) == ("c2", b"in time")


def test_what_is_no_reply(broker: orbitmq.Broker, replier: Remote, topic: str) -> None:
    ask(replier, "1@a", "c1", topic=topic)
    fields = replier.send_fields(REPLY_TOPIC, 0, text(names("1@a", "c1")))
    assert replier.ask(REPLY_V2, b"x", **{**fields, "b": topic}).code == ILLEGAL
    assert replier.ask(REPLY_V2, b"x", **{**fields, "m": "true"}).code == ILLEGAL
    for properties in (b"", b"CORRELATION_ID\1c1\2", b"REPLY_TO_CLIENT\0011@a\2", text(names("x" * 256, "c1"))):
        said = replier.ask(REPLY_V2, b"x", **{**fields, "i": properties})
        assert said.code == ILLEGAL and said.remark
    replier.put(REPLY_V2, b"one way", mark=ONE_WAY, **fields)
    assert taken(replier) == ("c1", b"one way")


def test_a_killed_gateway_serves_requests_again(broker: orbitmq.Broker) -> None:
    """Before a heartbeat of the client has come: the request says whose it is."""
    with Remote(broker.status().listens) as asker:
        beat(asker, "1@a")
        ask(asker, "1@a", "c1")
        kill(broker, "gateway")
    with Remote(broker.status().listens) as asker, Remote(broker.status().listens) as replier:
        until(lambda: asker.send("t", b"?", 0, text(names("1@a", "c2"))).code == SUCCESS, "a session")
        for number in (1, 2):
            assert reply(replier, "1@a", f"c{number}", b"%d" % number).code == SUCCESS
        assert [taken(asker) for _ in range(2)] == [("c1", b"1"), ("c2", b"2")]
