"""Goal: a remote consumer gets the messages that its subscription lets pass and no others, whether it says it in each pull or
once in its heartbeats, by tags or by SQL92.

Method: clients of the readable model of the protocol; what passes is computed plainly. Java's consumers are in
tests/interop/test_groups.py, and its pulls with SQL92 in tests/interop/test_remote.py. Of remoting/filter_text.py.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import orbitmq
from tests.actors.fronts import serving
from tests.actors.remoting_client import HEARTBEAT, PULL, SUBSCRIPTION, Remote, Said, body_of, records
from tests.actors.shared_broker import OWN_TOPIC, broker_for
from tests.trees import indexed, kill
from tests.waiting import until

SUCCESS, SYSTEM_ERROR, NOT_FOUND, RETRY, BAD_FILTER, NO_SUBSCRIPTION, NOT_LATEST = 0, 1, 19, 20, 23, 24, 25
CHECK_CONFIG = 46
COUNT = 300


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[orbitmq.Broker]:
    with broker_for(request, 1, listen="127.0.0.1:0") as broker:
        yield broker


def fill(broker: orbitmq.Broker, count: int = COUNT, *, topic: str = OWN_TOPIC) -> None:
    """Message n has the tag a, b or c, and n as its price."""
    with broker.producer() as producer:
        bodies = [b"%d" % n for n in range(count)]
        properties: Any = [{"price": str(n)} for n in range(count)]
        producer.send_batch(topic, bodies, tags=["abc"[n % 3] for n in range(count)], properties=properties)
    indexed(broker)


def pull(
    remote: Remote, offset: int, text: str = "", *, kind: str = "SQL92", group: str = "group", topic: str = OWN_TOPIC,
    **others: object,
) -> Said:  # fmt: skip
    """text: of the subscription that is said with the pull; empty: what heartbeats have said counts."""
    fields = {**remote.pull_fields(topic, 0, offset, tags=text), "expressionType": kind, "consumerGroup": group, **others}
    if not text:
        fields = {name: value for name, value in fields.items() if name != "subscription"} | {
            "sysFlag": int(str(fields["sysFlag"])) & ~SUBSCRIPTION
        }
    return remote.ask(PULL, **fields)


def everything(remote: Remote, text: str = "", end: int = COUNT, **how: str) -> list[int]:
    found, offset = [], 0
    while offset < end:
        said = pull(remote, offset, text, **how)
        assert said.code in (SUCCESS, RETRY) and int(said.fields["nextBeginOffset"]) > offset
        found += [int(body_of(record)) for record in records(said.body)]
        offset = int(said.fields["nextBeginOffset"])
    return found


def beat(
    remote: Remote, *subscriptions: tuple[str, str], group: str = "group", topic: str = OWN_TOPIC, version: int = 0
) -> None:
    more = {"subVersion": version} if version else {}
    told = [{"topic": topic, "subString": text, "expressionType": kind, **more} for kind, text in subscriptions]
    consumers = [{"groupName": group, "messageModel": "CLUSTERING", "subscriptionDataSet": told}] if told else []
    opaque = remote.put(HEARTBEAT, json.dumps({"clientID": "1@a", "consumerDataSet": consumers}).encode())
    remote.until(opaque)


def test_said_in_the_pull(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    fill(broker, topic=topic)
    rng = random.Random(1)
    for _ in range(40):
        low, high = sorted(rng.sample(range(COUNT), 2))
        tag = rng.choice("abc")
        wanted = [n for n in range(COUNT) if low <= n <= high or "abc"[n % 3] == tag]
        assert everything(remote, f"price BETWEEN {low} AND {high} OR TAGS = '{tag}'", topic=topic) == wanted
    assert everything(remote, "a || c", kind="TAG", topic=topic) == [n for n in range(COUNT) if n % 3 != 1]
    assert everything(remote, "price > 1000", topic=topic) == []


@pytest.mark.parametrize("text", ["price >", "*", "price > 'x'", "((((((((" * 100, "\x00"])
def test_what_is_no_filter(broker: orbitmq.Broker, remote: Remote, text: str, topic: str) -> None:
    fill(broker, 3, topic=topic)
    said = pull(remote, 0, text, topic=topic)
    assert said.code == BAD_FILTER and said.remark
    assert pull(remote, 0, "price > 0", kind="XPATH", topic=topic).code == BAD_FILTER
    told = {"topic": topic, "subString": text, "expressionType": "SQL92"}
    said = remote.ask(CHECK_CONFIG, json.dumps({"clientId": "1@a", "group": "group", "subscriptionData": told}).encode())
    assert said.code == BAD_FILTER and "cannot be read at byte" in (said.remark or "")
    beat(remote, ("SQL92", text), topic=topic)
    assert pull(remote, 0, topic=topic).code == BAD_FILTER


def test_what_a_client_checks_first(remote: Remote, topic: str, group: str) -> None:
    for kind, text in (("SQL92", "price > 3"), ("TAG", "a || b"), ("TAG", "*")):
        told = {"topic": topic, "subString": text, "expressionType": kind}
        body = {"clientId": "1@a", "group": group, "subscriptionData": told}
        assert remote.ask(CHECK_CONFIG, json.dumps(body).encode()).code == SUCCESS
    for wrong in (b"", b"[]", b'{"subscriptionData":7}'):
        assert remote.ask(CHECK_CONFIG, wrong).code == SYSTEM_ERROR


def test_a_newer_subscription_than_is_known(broker: orbitmq.Broker, remote: Remote) -> None:
    """Goal: who changes its subscription loses nothing, though its pull comes before the heartbeat that says so: what it wants
    now is not kept back because it did not want it before. And a member that has not changed it yet takes nothing back."""
    fill(broker)

    def pulled(version: int, kind: str) -> Said:
        with Remote(broker.status().listens) as reader:  # which is told of no changes
            return pull(reader, 0, kind=kind, subVersion=version)

    beat(remote, ("TAG", "b"), version=7)
    assert [int(body_of(each)) for each in records(pulled(7, "TAG").body)][:3] == [1, 4, 7]
    said = pulled(8, "TAG")
    assert [int(body_of(each)) for each in records(said.body)][:3] == [0, 1, 2], "all: it compares tags itself"
    beat(remote, ("SQL92", "price >= 290"), version=8)
    assert [int(body_of(each)) for each in records(pulled(8, "SQL92").body)] == list(range(290, COUNT))
    said = pulled(9, "SQL92")
    assert (said.code, said.remark) == (NOT_LATEST, "the consumer's subscription not latest")
    with Remote(broker.status().listens) as other:
        beat(other, ("SQL92", "price < 3"), version=5)
        assert [int(body_of(each)) for each in records(pulled(5, "SQL92").body)] == list(range(290, COUNT)), "the newest counts"
    beat(remote, ("SQL92", "price < 3"), version=9)
    assert [int(body_of(each)) for each in records(pulled(9, "SQL92").body)] == [0, 1, 2]


def test_said_in_heartbeats(broker: orbitmq.Broker, remote: Remote) -> None:
    """The newest counts, for the group that says it. Nobody gets what a filter that is not known yet would keep back."""
    fill(broker)
    assert pull(remote, 0).code == NO_SUBSCRIPTION
    assert everything(remote, kind="TAG") == list(range(COUNT)), "a client compares tags itself"
    beat(remote, ("SQL92", "price < 30"))
    assert everything(remote) == list(range(30))
    assert pull(remote, 0, group="another").code == NO_SUBSCRIPTION
    beat(remote, ("SQL92", "price >= 290"))
    assert everything(remote) == list(range(290, COUNT))
    beat(remote, ("TAG", "b"))
    assert everything(remote, kind="TAG") == list(range(1, COUNT, 3))
    assert pull(remote, 0).code == NO_SUBSCRIPTION, "it is one by tags now"
    with Remote(broker.status().listens) as other:
        beat(other, ("SQL92", "price = 7"), group="short")
        assert everything(other, group="short") == [7]
        assert everything(remote, group="short") == [7]
        beat(other)
        assert pull(remote, 0, group="short").code == NO_SUBSCRIPTION


def test_a_killed_gateway_asks_for_the_filter_again(broker: orbitmq.Broker) -> None:
    fill(broker)
    with Remote(broker.status().listens) as remote:
        beat(remote, ("SQL92", "price < 30"))
        assert everything(remote) == list(range(30))
        kill(broker, "gateway")
    with Remote(broker.status().listens) as remote:
        if serving() != "gateway":
            until(lambda: pull(remote, 0).code == NO_SUBSCRIPTION, "the next lead to tell the front what is known")
        assert pull(remote, 0).code == NO_SUBSCRIPTION
        beat(remote, ("SQL92", "price < 30"))
        assert everything(remote) == list(range(30))


def test_a_filter_that_hardly_anything_passes(broker: orbitmq.Broker, remote: Remote) -> None:
    """A pull looks at many messages, so few pulls are needed."""
    fill(broker, 5000)
    said, offset, pulls = pull(remote, 0, "price = 4999"), 0, 1
    while said.code == RETRY:
        offset = int(said.fields["nextBeginOffset"])
        said, pulls = pull(remote, offset, "price = 4999"), pulls + 1
    assert [body_of(record) for record in records(said.body)] == [b"4999"] and pulls <= 7


def test_many_filters(broker: orbitmq.Broker, remote: Remote) -> None:
    """More than are kept at a time: those that nobody uses go. Those of held pulls stay; if all are held, another one is
    refused."""
    fill(broker)
    for n in range(300):
        assert everything(remote, f"price = {n}") == [n]
    with Remote(broker.status().listens) as other:
        held = {}
        for n in range(256):
            fields = other.pull_fields("t", 0, COUNT, suspend_ms=200_000, tags=f"price = {1000 + n}")
            held[other.put(PULL, **{**fields, "expressionType": "SQL92"})] = n
        assert other.ask(HEARTBEAT, b"{}").code == SUCCESS, "all of them are held"
        assert pull(remote, 0, "price = 1").code == BAD_FILTER
        assert everything(remote, "price = 1000") == []
        with broker.producer() as producer:
            producer.send("t", b"1007", properties={"price": "1007"})
        said = other.take()
        assert held.pop(said.opaque) == 7 and [body_of(record) for record in records(said.body)] == [b"1007"]
        assert other.ask(HEARTBEAT, b"{}").code == SUCCESS, "the rest is held on"
        assert everything(remote, "price = 1") == [1] and everything(remote, "price = 2") == [2], "there is one place again"


@pytest.mark.parametrize("kind", ["SQL92", "TAG"])
def test_a_held_pull_passes_over_what_does_not_match(broker: orbitmq.Broker, remote: Remote, kind: str, topic: str) -> None:
    """It is held on, and not answered for nothing; when it ends, it says how far it has looked."""
    text = {"SQL92": "TAGS = 'b'", "TAG": "b"}[kind]
    fields = {**remote.pull_fields(topic, 0, 0, suspend_ms=200_000, tags=text), "expressionType": kind}
    opaque = remote.put(PULL, **fields)
    assert remote.ask(HEARTBEAT, b"{}").code == SUCCESS, "it is held before anything comes"
    with broker.producer() as producer:
        for n in range(1200):  # more than is judged at a time
            producer.send(topic, b"%d" % n, tags="a")
            if n % 400 == 0:
                indexed(broker)
                assert remote.ask(HEARTBEAT, b"{}").code == SUCCESS, "no answer came before this one"
        indexed(broker)
        assert remote.ask(HEARTBEAT, b"{}").code == SUCCESS
        producer.send(topic, b"wanted", tags="b")
        said = remote.take()
        assert (said.opaque, said.code, said.fields["nextBeginOffset"]) == (opaque, SUCCESS, "1201")
        assert [body_of(record) for record in records(said.body)] == [b"wanted"]
        other = {"queueOffset": 1000, "suspendTimeoutMillis": 1, "subscription": text.replace("b", "c")}
        opaque = remote.put(PULL, **{**fields, **other})
        said = remote.take()
        assert (said.opaque, said.code, said.fields["nextBeginOffset"]) == (opaque, NOT_FOUND, "1201") and not said.body


def test_a_held_pull_against_a_model(broker: orbitmq.Broker, topic: str) -> None:
    """Goal: many held pulls with filters, each from a place of its own, get each message once and nothing else. Method: random
    prices and pauses; each client asks again from where its answer says."""
    rng = random.Random(7)
    prices = [rng.randrange(40) for _ in range(400)]
    wanted = rng.sample(range(40), 12)
    found: dict[int, list[int]] = {price: [] for price in wanted}
    with ExitStack() as stack:
        remotes = {price: stack.enter_context(Remote(broker.status().listens)) for price in wanted}

        def ask(price: int, offset: int) -> None:
            suspend_ms = rng.choice([1, 20, 20_000])
            fields = remotes[price].pull_fields(topic, 0, offset, suspend_ms=suspend_ms, tags=f"price = {price}")
            remotes[price].put(PULL, **{**fields, "expressionType": "SQL92"})

        def take(price: int) -> None:
            said = remotes[price].take()
            assert said.code in (SUCCESS, RETRY, NOT_FOUND)
            found[price] += [int(body_of(record)) for record in records(said.body)]
            ask(price, int(said.fields["nextBeginOffset"]))

        for price in wanted:
            ask(price, 0)
        with broker.producer() as producer:
            for n, price in enumerate(prices):
                producer.send(topic, b"%d" % n, properties={"price": str(price)})
                if rng.random() < 0.2:
                    each = rng.choice(wanted)
                    if remotes[each].has_come:
                        take(each)
        for price in wanted:
            due = [n for n, each in enumerate(prices) if each == price]
            while len(found[price]) < len(due):
                take(price)
            assert found[price] == due
