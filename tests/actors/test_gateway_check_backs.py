"""Goal: a transaction that nobody ends is ended as a remote producer of its group says, if one is connected that knows; it is
asked one at a time, not more often than the setting says, and then the transaction is given up.

Method: clients of the readable model that say in heartbeats for whom they produce, and answer or not. The rules are those of
local check-backs (tests/actors/test_check_backs.py). Java's listener is asked in tests/interop/test_remote.py. Of
remoting/check_backs.py, remoting/producers.py and remoting/half_message.py.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.remoting.producers import Producers
from orbitmq.remoting.request import Client, Request
from orbitmq.store.commit_log.record import Record, parse
from tests.actors.remoting_client import HEARTBEAT, SEND_V2, UNREGISTER, Remote, Said
from tests.actors.remoting_transaction import COMMIT, END, ROLLBACK, UNKNOWN, begin
from tests.native.remoting_model import BINARY, JSON
from tests.trees import indexed, kill, small_broker, stored
from tests.waiting import until

CHECK = 39
SUCCESS = 0
MOST, PATIENT = 3, 1000  # checks; with few of them, a transaction may be given up before its answer has come
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"

gives_up = pytest.mark.parametrize("broker", [MOST], indirect=True, ids=["gives_up"])


@pytest.fixture
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[orbitmq.Broker]:
    """Its parameter: how often a transaction is checked at most."""
    times: dict[str, Any] = {"transaction_timeout_s": 0.05, "transaction_check_interval_s": 0.05}
    most = getattr(request, "param", PATIENT)
    with small_broker(tmp_path, listen="127.0.0.1:0", transaction_check_max=most, **times) as broker:
        broker.create_topic("t", 2)
        yield broker


def heartbeat(*groups: str) -> bytes:
    told = [{"groupName": group} for group in groups]
    return json.dumps({"clientID": "1.2.3.4@5", "consumerDataSet": [], "producerDataSet": told}).encode()


@pytest.fixture(params=[JSON, BINARY], ids=["json", "binary"])
def remote(broker: orbitmq.Broker, request: pytest.FixtureRequest) -> Iterator[Remote]:
    with Remote(broker.status().listens, request.param) as remote:
        yield remote


def check(remote: Remote) -> Said:
    asked = remote.asked()
    assert asked.code == CHECK
    return asked


def answer(remote: Remote, asked: Said, how: int) -> None:
    """As Java's client does: with what it was asked by."""
    names = ("tranStateTableOffset", "commitLogOffset", "msgId", "transactionId")
    told = {name: asked.fields[name] for name in names if name in asked.fields}
    remote.put(END, mark=2, producerGroup="shop", commitOrRollback=how, fromTransactionCheck="true", **told)


def test_what_a_client_is_asked(broker: orbitmq.Broker, remote: Remote) -> None:
    """The place and id of the half, and its record with the topic and queue that it is for; and its answer counts."""
    half = begin(remote, "id", b"body", "colour\1blue\2TAGS\1a\2", h=7)
    assert remote.ask(HEARTBEAT, heartbeat("other", "shop")).code == SUCCESS
    asked = check(remote)
    place = int(half.fields["msgId"][16:], 16)
    assert asked.fields == {
        "tranStateTableOffset": half.fields["queueOffset"],
        "commitLogOffset": str(place),
        "offsetMsgId": half.fields["msgId"],
        "msgId": "id",
        "transactionId": "id",
    }
    record = parse(asked.body)
    assert isinstance(record, Record) and record.size == len(asked.body)
    assert (record.topic, record.queue_id, bytes(record.body), record.flag) == ("t", 1, b"body", 7)
    assert (str(record.queue_offset), record.physical_offset) == (half.fields["queueOffset"], place)
    assert record.born_ms == 1_700_000_000_123 and str(record.message_id) == half.fields["msgId"]
    named = {"UNIQ_KEY": "id", "colour": "blue", "TAGS": "a", "TRAN_MSG": "true", "PGROUP": "shop"}
    assert record.properties == {**named, "REAL_TOPIC": "t", "REAL_QID": "1"} and b"__CRC32#" not in asked.body
    answer(remote, asked, UNKNOWN)
    answer(remote, check(remote), COMMIT)
    until(lambda: [bytes(message) for message in stored(broker)] == [b"body"], "the message")
    indexed(broker)
    assert broker.open_transactions() == []


def test_bytes_that_are_no_text(broker: orbitmq.Broker, remote: Remote) -> None:
    """Properties and ids may be any bytes: the client gets its own back, and its group's other transactions are checked."""
    long = b"long\1" + b"\xff" * 30_000
    properties = b"TRAN_MSG\1true\2UNIQ_KEY\1\xff\xfeid\2PGROUP\1shop\2colour\1\xff\1\xfe\2" + long
    assert remote.send("t", b"bytes", 0, properties, f=4).code == SUCCESS
    begin(remote, "text")
    remote.ask(HEARTBEAT, heartbeat("shop"))
    asked = {}
    while len(asked) < 2:
        said = check(remote)
        record = parse(said.body)
        assert isinstance(record, Record)
        asked[bytes(record.body)] = bytes(record.raw_properties)
        answer(remote, said, COMMIT)
    assert asked[b"bytes"].startswith(b"UNIQ_KEY\1\xff\xfeid\2colour\1\xff\1\xfe\2" + long + b"\2TRAN_MSG\1true")
    until(lambda: broker.open_transactions() == [], "the ends, by the place alone")
    assert sorted(map(bytes, stored(broker))) == [b"bytes", b"half"]


@gives_up
def test_each_answer(broker: orbitmq.Broker, remote: Remote) -> None:
    """Many that are open before anybody is there to ask: each ends as the client says; what it does not know is given up after
    so many questions, and then nobody is asked any more. An answer that takes longer than the interval is asked for again; if
    all of them do, that transaction is given up, too."""
    ends = {b"%d" % number: (COMMIT, ROLLBACK, UNKNOWN)[number % 3] for number in range(60)}
    for body in ends:
        begin(remote, body.decode(), body)
    remote.ask(HEARTBEAT, heartbeat("shop"))
    asked: Counter[bytes] = Counter()
    wanted = Counter({body: MOST if how == UNKNOWN else 1 for body, how in ends.items()})
    while not wanted <= asked:
        said = check(remote)
        body = said.fields["transactionId"].encode()
        asked[body] += 1
        answer(remote, said, ends[body])
    until(lambda: broker.open_transactions() == [], "that all are given up")
    remote.answer_amid(remote.put(HEARTBEAT, heartbeat("shop")))  # whatever was asked has come before it
    while remote.has_come:
        asked[check(remote).fields["transactionId"].encode()] += 1
    assert max(asked.values()) <= MOST, asked
    indexed(broker)
    given_up = sorted(map(bytes, stored(broker, GIVEN_UP)))
    assert len(given_up) == len(set(given_up)) and {body for body, how in ends.items() if how == UNKNOWN} <= set(given_up)
    assert {asked[body] for body in given_up} == {MOST}
    committed = {body for body, how in ends.items() if how == COMMIT}
    assert sorted(map(bytes, stored(broker))) == sorted(committed - set(given_up))


def test_who_is_asked(tmp_path: Path) -> None:
    """Clients of the group in turn, once in an interval that does not end here; none of another group, none that has left or
    gone."""
    with ExitStack() as stack:
        times: dict[str, Any] = {"transaction_timeout_s": 0.05, "transaction_check_interval_s": 3600}
        broker = stack.enter_context(small_broker(tmp_path, listen="127.0.0.1:0", **times))
        broker.create_topic("t", 2)
        listens = broker.status().listens
        one, two, other, left = (stack.enter_context(Remote(listens)) for _ in range(4))
        left.ask(HEARTBEAT, heartbeat("shop"))
        left.ask(UNREGISTER, clientID="c", producerGroup="shop")
        other.ask(HEARTBEAT, heartbeat("shop"))
        other.ask(HEARTBEAT, heartbeat("others"))
        with Remote(listens) as gone:
            gone.ask(HEARTBEAT, heartbeat("shop"))
        one.ask(HEARTBEAT, heartbeat("shop"))
        two.ask(HEARTBEAT, heartbeat("shop", "shop"))
        for number in range(10):
            begin(one, f"{number}")
        found: list[set[str]] = []
        for each in (one, two):
            found.append(set())
            while len(found[-1]) < 5:
                asked = check(each)
                found[-1].add(asked.fields["msgId"])
                answer(each, asked, ROLLBACK)
        assert found[0] | found[1] == {f"{number}" for number in range(10)}
        until(lambda: broker.open_transactions() == [], "all ends")
        for each in (one, two, other, left):  # nothing else was asked meanwhile
            assert each.send("t", b"x").code == SUCCESS


def test_who_comes_later(broker: orbitmq.Broker, remote: Remote) -> None:
    """A client is asked also about transactions that were passed over when only others were there."""
    remote.ask(HEARTBEAT, heartbeat("others"))
    begin(remote, "ours")
    told = b"TRAN_MSG\1true\2UNIQ_KEY\1theirs\2PGROUP\1others\2"
    assert remote.answer_amid(remote.put(SEND_V2, b"theirs", **remote.send_fields("t", 0, told))).code == SUCCESS
    asked = check(remote)
    assert asked.fields["msgId"] == "theirs"
    answer(remote, asked, ROLLBACK)
    with Remote(broker.status().listens) as late:
        late.ask(HEARTBEAT, heartbeat("shop"))
        assert check(late).fields["msgId"] == "ours"


@gives_up
def test_who_needs_long(broker: orbitmq.Broker, remote: Remote) -> None:
    """A message with an immunity is not asked about before it is over, others are."""
    remote.ask(HEARTBEAT, heartbeat("shop"))
    begin(remote, "long", more="CHECK_IMMUNITY_TIME_IN_SECONDS\0013600\2")
    begin(remote, "short")
    for _ in range(MOST):
        assert check(remote).fields["msgId"] == "short"
    until(lambda: [each.id for each in broker.open_transactions()] == ["long"], "that the other is given up")


@gives_up
@pytest.mark.parametrize("victim", ["gateway", "coordinator", "writer"])
def test_deaths(broker: orbitmq.Broker, victim: str) -> None:
    """Whoever dies: each transaction ends as the clients say, and nobody is asked more often than the setting says."""
    rng = random.Random(victim)
    listens = broker.status().listens
    ends = {f"{number}": rng.choice([COMMIT, ROLLBACK]) for number in range(40)}
    with Remote(listens) as first:
        for id in ends:
            begin(first, id, id.encode())
    asked: Counter[str] = Counter()
    remotes: list[Remote] = []

    def connect() -> None:
        remotes.append(Remote(listens))
        remotes[-1].ask(HEARTBEAT, heartbeat("shop"))

    def serve(most: int) -> None:
        """Answers what has come."""
        remote = remotes[-1]
        while len(asked) < most and remote.has_come:
            said = check(remote)
            asked[said.fields["msgId"]] += 1
            answer(remote, said, ends[said.fields["msgId"]])

    def ended() -> bool:
        try:
            serve(1000)
        except ConnectionError:
            assert victim == "gateway"
            connect()
        return broker.open_transactions() == []

    connect()
    until(lambda: serve(10) or len(asked) == 10, "some checks")
    kill(broker, victim)
    until(ended, "the ends")
    indexed(broker)
    for each in remotes:
        each.socket.close()
    assert max(asked.values()) <= MOST
    given_up = set(map(bytes, stored(broker, GIVEN_UP)))
    committed = {id.encode() for id, how in ends.items() if how == COMMIT}
    assert set(map(bytes, stored(broker))) == committed - given_up
    assert len(stored(broker)) == len(committed - given_up)


def test_the_groups_of_producers() -> None:
    """Against a plain model: any heartbeats, leaves and ends of connections, and bodies that are no heartbeats."""
    rng = random.Random(7)
    producers, model = Producers(), {Client(number, 1): set[str]() for number in range(5)}
    for _ in range(3000):
        client, groups = rng.choice(list(model)), rng.sample("abcd", rng.randrange(4))
        match rng.randrange(4):
            case 0:
                producers.hear(Request(HEARTBEAT, {}, heartbeat(*groups), "", client))
                model[client] = set(groups)
            case 1:
                producers.hear(Request(UNREGISTER, {"producerGroup": "a"}, b"", "", client))
                model[client] -= {"a"}
            case 2:
                producers.gone(client)
                model[client] = set()
            case _:
                body = rng.choice([b"", b"[]", b"{}", b'{"producerDataSet":[1]}', b"\xff", b'{"producerDataSet":{"a":1}}'])
                producers.hear(Request(HEARTBEAT, {}, body, "", client))
                model[client] = set()
        assert bool(producers) == any(model.values())
        for group in "abcd":
            members = [client for client, groups in model.items() if group in groups]
            assert (group in producers) == bool(members)
            if members:
                first = next(producers.turns(group))
                again = list(producers.turns(group))
                assert sorted(again) == sorted(members) and again[-1] == first
