"""Goal: a transaction of a RocketMQ client is one of OrbitMQ's: its message comes if it is committed and never if not, it ends
once, and what begins remotely can end locally.

Method: the client of the readable model begins and ends transactions beside OrbitMQ's own producer, and the records of both are
compared; then what must be refused, and deaths of every process on the way. Java's producer does so in
tests/interop/test_remote.py.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.client.transaction.open_transactions import OpenTransaction
from orbitmq.errors import TransactionSettled
from orbitmq.store.halves import HALF_TOPIC
from tests.actors.remoting_client import ONE_WAY, PULL, SEND_V2, Remote
from tests.actors.remoting_transaction import COMMIT, END, ROLLBACK, UNKNOWN, begin, end, end_fields, half_properties
from tests.actors.shared_broker import OWN_TOPIC
from tests.forged import foreseen, forged_at
from tests.native.remoting_model import BINARY, JSON
from tests.trees import everything, indexed, kill, small_broker, stored
from tests.waiting import until

SUCCESS, SYSTEM_ERROR = 0, 1


@pytest.fixture(params=[JSON, BINARY], ids=["json", "binary"])
def remote(broker: orbitmq.Broker, request: pytest.FixtureRequest) -> Iterator[Remote]:
    with Remote(broker.status().listens, request.param) as remote:
        yield remote


def left(broker: orbitmq.Broker, topic: str = OWN_TOPIC) -> list[OpenTransaction]:
    """Those of the topic that have not ended, once everything is indexed."""
    indexed(broker)
    return [each for each in broker.open_transactions() if each.topic == topic]


def own(message: Any) -> dict[str, str]:
    """Properties without the checksum, which differs with the born time."""
    return {name: value for name, value in message.properties.items() if name != "__CRC32#"}


def test_they_are_stored_as_local_ones(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """Half and message; and nobody gets the message before the commit."""
    half = begin(remote, "id-1", more="colour\1blue\2TAGS\1a\2", h=7, topic=topic)
    more: dict[str, Any] = {"properties": {"UNIQ_KEY": "id-2", "colour": "blue"}, "flag": 7}
    with broker.producer(group="shop") as producer:
        local = producer.transaction(topic, b"half", tags="a", queue=1, **more)
        indexed(broker)
        theirs, ours = (each for each in stored(broker, HALF_TOPIC) if each.properties["REAL_TOPIC"] == topic)
        assert (theirs.id, str(theirs.offset)) == (half.fields["msgId"], half.fields["queueOffset"])
        assert own(theirs) == {**own(ours), "UNIQ_KEY": "id-1"} and own(theirs)["PGROUP"] == "shop"
        assert stored(broker, topic) == []
        assert [(each.id, each.topic, each.queue, each.group) for each in left(broker, topic)] == [
            ("id-1", topic, 1, "shop"),
            ("id-2", topic, 1, "shop"),
        ]
        assert end(remote, half, COMMIT).code == SUCCESS
        local.commit()
    indexed(broker)
    theirs, ours = stored(broker, topic)
    assert own(theirs) == {**own(ours), "UNIQ_KEY": "id-1"} and theirs.born_ms == 1_700_000_000_123
    assert (theirs.queue, bytes(theirs), theirs.flag, theirs.tags) == (ours.queue, bytes(ours), ours.flag, "a")
    assert left(broker, topic) == []


def test_what_makes_a_half(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """Either mark alone, and the group of the request if the properties name none; or nothing does."""
    assert remote.send(topic, b"flag", 0, f=4).code == SUCCESS
    assert remote.send(topic, b"property", 0, b"TRAN_MSG\1TRUE\2").code == SUCCESS
    assert remote.send(topic, b"none", 0, b"TRAN_MSG\1false\2PGROUP\1x\2").code == SUCCESS
    indexed(broker)
    assert [(each.body, each.group) for each in left(broker, topic)] == [(b"flag", "group"), (b"property", "group")]
    assert [bytes(message) for message in stored(broker, topic)] == [b"none"]


def test_each_end(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """Committed, rolled back, not yet known; with and without an answer. The same end again is no error, the other one is."""
    halves = {name: begin(remote, name, name.encode(), topic=topic) for name in ("commit", "rollback", "unknown", "one-way")}
    assert end(remote, halves["commit"], COMMIT).code == SUCCESS
    assert end(remote, halves["rollback"], ROLLBACK, remark="it failed").code == SUCCESS
    remote.put(END, **end_fields(halves["unknown"], UNKNOWN))  # gets no answer
    remote.put(END, mark=ONE_WAY, **end_fields(halves["one-way"], COMMIT))
    for name, same, other in (("commit", COMMIT, ROLLBACK), ("rollback", ROLLBACK, COMMIT)):
        assert end(remote, halves[name], same).code == SUCCESS
        said = end(remote, halves[name], other)
        assert said.code == SYSTEM_ERROR and said.remark
    indexed(broker)
    assert [bytes(message) for message in stored(broker, topic)] == [b"commit", b"one-way"]
    assert [each.id for each in left(broker, topic)] == ["unknown"]


def test_ends_that_name_nothing(broker: orbitmq.Broker, remote: Remote) -> None:
    """A place without a half, or with another one: nothing ends."""
    nowhere = {"tranStateTableOffset": 0, "commitLogOffset": 0, "commitOrRollback": COMMIT}
    assert remote.ask(END, **nowhere).code == SYSTEM_ERROR  # no transaction has begun yet
    halves = [begin(remote, f"id-{number}") for number in range(2)]
    places = [int(half.fields["msgId"][16:], 16) for half in halves]
    changes: list[dict[str, object]] = [
        {"tranStateTableOffset": 1},
        {"tranStateTableOffset": -1},
        {"tranStateTableOffset": "x"},
        {"commitLogOffset": places[1]},
        {"commitLogOffset": places[0] + 1},
        {"commitLogOffset": 1 << 40},
        {"commitLogOffset": -1},
        {"transactionId": "id-1"},
    ]
    for change in changes:
        said = end(remote, halves[0], COMMIT, **change)
        assert said.code == SYSTEM_ERROR and said.remark, change
    assert len(left(broker)) == 2 and stored(broker) == []
    assert end(remote, halves[0], COMMIT, transactionId="").code == SUCCESS
    assert [each.id for each in left(broker)] == ["id-1"]


def test_a_body_that_is_a_half(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """Nothing ends by a record that somebody wrote into a body, whichever half it claims to be, and the true one ends as it was
    begun."""
    half = begin(remote, "id", topic=topic)
    indexed(broker)
    own = int(half.fields["queueOffset"])
    names = {"TRAN_MSG": "true", "UNIQ_KEY": "id", "PGROUP": "shop", "REAL_TOPIC": topic, "REAL_QID": "1"}
    forged: list[bytes] = []
    with broker.producer() as producer:

        def send(offset: int, place: int) -> orbitmq.Receipt:
            forged.append(forged_at(place, HALF_TOPIC, 0, offset, properties=names))
            return producer.send(topic, forged[-1])

        for offset in (own, own + 1, 1 << 40):
            place, _ = foreseen(broker, partial(send, offset))
            for _ in range(2):
                for how in (COMMIT, ROLLBACK):
                    told = {"tranStateTableOffset": offset, "commitLogOffset": place}
                    assert end(remote, half, how, **told).code == SYSTEM_ERROR
                indexed(broker)
    assert [each.id for each in left(broker, topic)] == ["id"]
    assert end(remote, half, COMMIT).code == SUCCESS
    assert [bytes(message) for message in stored(broker, topic)] == [*forged, b"half"]


def test_who_is_first(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """A transaction that began remotely ends locally, and the other way round; the first end counts."""
    ours = begin(remote, "ours", b"ours", topic=topic)
    (found,) = left(broker, topic)
    broker.commit_transaction(found)
    assert end(remote, ours, ROLLBACK).code == SYSTEM_ERROR
    with broker.producer(group="shop") as producer:
        theirs = producer.transaction(topic, b"theirs", queue=1)
        told = {"transactionId": theirs.id, "queueOffset": str(theirs.half.offset), "msgId": theirs.half.id}
        assert end(remote, ours._replace(fields=told), COMMIT).code == SUCCESS
        with pytest.raises(TransactionSettled, match="committed"):
            theirs.rollback()
    indexed(broker)
    assert [bytes(message) for message in stored(broker, topic)] == [b"ours", b"theirs"]


def test_the_topic_is_gone(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    half = begin(remote, "id", topic=topic)
    broker.delete_topic(topic)
    said = end(remote, half, COMMIT)
    assert said.code == SYSTEM_ERROR and "topic" in (said.remark or "")
    assert end(remote, half, ROLLBACK).code == SUCCESS
    assert left(broker, topic) == []


@pytest.mark.parametrize("victim", ["gateway", "writer", "handler 0", "handler 1"])
def test_deaths(broker: orbitmq.Broker, victim: str) -> None:
    """Whoever dies: a message is in its topic once if its commit was answered, never if it was rolled back; what has no answer
    ends when it is asked again, as it was to end."""
    rng = random.Random(victim)
    listens = broker.status().listens
    wanted: dict[bytes, int] = {}
    with Remote(listens) as remote:
        halves = {b"%d" % number: begin(remote, f"id-{number}", b"%d" % number) for number in range(120)}
    waiting = list(halves)
    while waiting:
        with Remote(listens) as remote:
            names = {}
            for body in waiting:
                how = wanted.setdefault(body, rng.choice([COMMIT, ROLLBACK]))
                names[remote.put(END, **end_fields(halves[body], how))] = body
            try:
                if len(waiting) == len(halves):
                    kill(broker, victim)
                for _ in names:
                    said = remote.take()
                    assert said.code == SUCCESS, said
                    waiting.remove(names[said.opaque])
            except ConnectionError:
                assert victim == "gateway"
    assert left(broker) == []
    found = sorted(body for body, *_ in everything(broker, "t"))
    assert found == sorted(body for body, how in wanted.items() if how == COMMIT)


def test_begun_while_a_process_dies(broker: orbitmq.Broker) -> None:
    """Halves whose send was answered are open, each once."""
    for victim in ("gateway", "writer", "handler 0"):
        answered = set()
        with Remote(broker.status().listens) as remote:
            names = {}
            for number in range(60):
                id = f"{victim}-{number}"
                names[remote.put(SEND_V2, b"x", **remote.send_fields("t", 0, half_properties(id), f=4))] = id
            try:
                kill(broker, victim)
                for _ in names:
                    said = remote.take()
                    assert said.code == SUCCESS and said.fields["transactionId"] == names[said.opaque]
                    answered.add(names[said.opaque])
            except ConnectionError:
                assert victim == "gateway"
        found = [each.id for each in left(broker) if each.id.startswith(victim)]
        assert len(found) == len(set(found)) and answered <= set(found)
        assert victim == "gateway" or len(answered) == 60


@pytest.mark.parametrize("how", ["closed", "shut", "reset"])
def test_ends_before_the_connection_does(tmp_path: Path, how: str) -> None:
    """One-way, as RocketMQ's Go client ends transactions, and right before it goes: each end counts."""
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker:
        broker.create_topic("t", 2)
        for number in range(60):
            with Remote(broker.status().listens) as remote:
                half = begin(remote, f"id-{number}", b"%d" % number)
                remote.put(END, mark=ONE_WAY, **end_fields(half, COMMIT))
                if how == "shut":
                    remote.socket.shutdown(socket.SHUT_WR)
                if how == "reset":
                    remote.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        until(lambda: not left(broker), "all transactions to end")
        assert sorted(int(bytes(message)) for message in stored(broker)) == [*range(60)]


def test_an_end_behind_answers_that_nobody_reads(broker: orbitmq.Broker, topic: str) -> None:
    """The gateway stops serving a client that reads nothing of so many answers. The client is reset, and its end counts."""
    with broker.producer() as producer:
        producer.send_batch(topic, [bytes(60_000)] * 8, queue=0)
    indexed(broker)
    with Remote(broker.status().listens) as remote:
        half = begin(remote, "id-1", topic=topic)
        pull = remote.frame(PULL, **remote.pull_fields(topic, 0, 0))
        remote.socket.sendall(pull * 200 + remote.frame(END, mark=ONE_WAY, **end_fields(half, COMMIT)))
        remote.socket.recv(1)
        remote.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until(lambda: not left(broker, topic), "the transaction to end")
    assert bytes(stored(broker, topic)[-1]) == b"half"
