"""Goal: a client that asks whether there is a message to pop (NOTIFICATION) is told so once there is one, and takes none; and
how many pops wait (POLLING_INFO) is what RocketMQ's broker would say.

Method: the Python client of the protocol. Of native/remoting/gateway/gateway_pop_notice.c and of remoting/pops.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import orbitmq
from tests.actors.pop_client import NOTIFICATION, POLLING_INFO, SUCCESS, Popper, asleep, counted, one, send, told
from tests.actors.remoting_client import HEARTBEAT
from tests.actors.shared_broker import broker_for
from tests.trees import indexed, kill, stopped
from tests.waiting import until

SYSTEM_ERROR, NO_PERMISSION, NO_TOPIC, BAD_FILTER, INVALID_PARAMETER = 1, 16, 17, 23, 29
ROUNDS = 10
WAITS = 4096  # of one link
OF_ONE_CONNECTION = 16


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[orbitmq.Broker]:
    with broker_for(request, 4, listen="127.0.0.1:0") as broker:
        yield broker


@pytest.fixture
def popper(broker: orbitmq.Broker, place: tuple[str, str]) -> Iterator[Popper]:
    with Popper(broker.status().listens, *place) as popper:
        yield popper


def polls(popper: Popper, queue: int = -1, **more: object) -> int:
    place = {"consumerGroup": popper.group, "topic": popper.topic, "queueId": queue, **more}
    said = popper.remote.ask(POLLING_INFO, **place)
    assert said.code == SUCCESS
    return int(said.fields["pollingNum"])


def test_whether_there_is_a_message(broker: orbitmq.Broker, popper: Popper, topic: str) -> None:
    """As often as it is asked, until somebody has popped it; and what is in somebody's hands does not count."""
    assert not popper.has(poll_ms=1)
    send(broker, b"x", topic=topic)
    assert popper.has() and popper.has()
    mine = one(popper)
    assert (mine.body, mine.reconsumed) == (b"x", 0)
    assert not popper.has(poll_ms=1)
    assert popper.change(mine, 0)[0] == SUCCESS
    assert popper.has()
    assert popper.ack(one(popper)) == SUCCESS
    assert not popper.has(poll_ms=1)


def test_it_is_told_when_one_comes(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    """By a wake, as a pop is served: see test_a_held_pop_is_woken. All who wait are told."""
    assert not popper.has(poll_ms=1)
    woken = 0
    with broker.producer() as producer, Popper(broker.status().listens, group, topic) as other:
        for n in range(ROUNDS):
            for each in (popper, other):
                each.remote.put(NOTIFICATION, **each.notice())
            asleep(broker)
            before = counted(broker, "wakes")
            producer.send(topic, b"%d" % n, queue=n % 4)
            assert told(popper.remote.take()) and told(other.remote.take())
            woken += counted(broker, "wakes") > before
            assert popper.ack(one(popper)) == SUCCESS
    assert woken >= ROUNDS / 2


def test_it_takes_nothing(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    """What it was told of goes to a local worker, and is no delivery."""
    send(broker, *[b"x"] * 8, topic=topic)
    assert popper.has()
    with broker.work_session(group, [topic]) as worker:
        taken = []

        def all_of_it() -> bool:
            taken.extend(worker.take(8, timeout=0.1))
            return len(taken) == 8

        until(all_of_it, "what nobody has popped")
        assert {each.delivery for each in taken} == {1}


@pytest.mark.parametrize("order", ["false", "true"])
def test_the_pop_behind_it(broker: orbitmq.Broker, order: str, topic: str, group: str) -> None:
    """It gets as many messages at once as if nobody had asked before."""
    with Popper(broker.status().listens, group, topic, order=order) as popper:
        with stopped(broker, "dispatcher"), broker.producer() as producer:
            producer.send_batch(topic, [b"x"] * 40, queue=0)
            indexed(broker)
        assert popper.has(order=order)
        assert len(popper.pop()) == 32


def test_pops_before_and_behind_it(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    """It does not take a pop's place: one that waits longer is served first, and it waits on."""
    with Popper(broker.status().listens, group, topic) as other:
        popper.put(1)
        asleep(broker)
        other.remote.put(NOTIFICATION, **other.notice())
        asleep(broker)
        send(broker, b"first", topic=topic)
        assert [each.body for each in popper.take()] == [b"first"]
        assert popper.remote.ask(HEARTBEAT, b"{}").code == SUCCESS
        assert not other.remote.has_come
        send(broker, b"second", topic=topic)
        assert told(other.remote.take())
        assert one(popper).body == b"second"


def test_its_filter_and_order(broker: orbitmq.Broker, topic: str, group: str) -> None:
    """It counts what a pop with the same filter and order would get."""
    listens, in_order = broker.status().listens, f"ordered-{topic}"
    with Popper(listens, group, topic) as some, Popper(listens, in_order, topic, order="true") as ordered:
        send(broker, b"b", tags="b", topic=topic)
        assert not some.has(poll_ms=1, expType="TAG", exp="a")
        send(broker, b"a", tags="a", topic=topic)
        assert some.has(expType="TAG", exp="a")
        assert ordered.has(order="true")
        first, second = one(ordered), "waits behind it in the same queue"
        assert not ordered.has(poll_ms=1, order="true"), second
        ordered.remote.put(NOTIFICATION, **ordered.notice(order="true"))
        with Popper(listens, in_order, topic) as other:
            assert other.ack(first) == SUCCESS
        assert told(ordered.remote.take())


def test_the_filter_of_the_group(broker: orbitmq.Broker, topic: str, group: str) -> None:
    """A question that names no filter, as RocketMQ 5.3.3's, is about the one by which the group pops."""
    with Popper(broker.status().listens, group, topic, exp="a") as popper:
        assert popper.pop(poll_ms=1) == []
        send(broker, b"b", tags="b", topic=topic)
        assert not popper.has(poll_ms=1)
        send(broker, b"a", tags="a", topic=topic)
        assert popper.has()
        assert one(popper).body == b"a"


SQL = {"expType": "SQL92", "exp": "n = 1"}
KINDS: dict[str, dict[str, object]] = {"tag": {"exp": "a"}, "sql": {**SQL}, "order": {"order": "true"}}


@pytest.mark.parametrize("how", KINDS.values(), ids=KINDS)
def test_a_group_that_nobody_has_popped(
    broker: orbitmq.Broker, popper: Popper, how: dict[str, object], topic: str, group: str
) -> None:
    """Goal: who only asks says nothing about how the group pops: its first pop does, and gets each message at once, as one that
    was never delivered. Whoever waits for an answer is told, and asks again."""
    with broker.producer() as producer, Popper(broker.status().listens, group, topic, **how) as other:
        producer.send(topic, b"a", tags="a", properties={"n": "1"}, queue=0)
        indexed(broker)
        assert popper.has()
        popped = one(other)
        assert (popped.body, popped.reconsumed) == (b"a", 0)
        assert other.ack(popped) == SUCCESS
    with Popper(broker.status().listens, f"h-{topic}", topic, **how) as other:
        assert popper.has(consumerGroup=f"h-{topic}")
        assert (mine := one(other)).body == b"a" and other.ack(mine) == SUCCESS
        assert not popper.has(poll_ms=1, consumerGroup=f"h-{topic}", order=how.get("order", "false"))
    with Popper(broker.status().listens, f"i-{topic}", topic, **how) as other:
        assert other.pop()
    with Popper(broker.status().listens, f"empty-{topic}", f"none-yet-{topic}", **how) as other:
        broker.create_topic(f"none-yet-{topic}", 1)
        opaque = popper.remote.put(NOTIFICATION, **popper.notice(consumerGroup=f"empty-{topic}", topic=f"none-yet-{topic}"))
        asleep(broker)
        other.put()
        assert popper.remote.take().opaque == opaque, "told that there is none now"
        with broker.producer() as producer:
            producer.send(f"none-yet-{topic}", b"x", tags="a", properties={"n": "1"})
        assert other.remote.take().code == SUCCESS


def test_the_first_pop_waits_for_those_who_asked(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    """Goal: it says how the group pops, also if the dispatcher has not yet let go of the session of those who have asked."""
    with Popper(broker.status().listens, group, topic, order="true") as other:
        with stopped(broker, "dispatcher"):
            opaque = popper.remote.put(NOTIFICATION, **popper.notice())
            asleep(broker)
            other.put()
            assert popper.remote.take().opaque == opaque, "told that there is none now"
            for _ in range(5):  # the gateway's turns, in which it looks at the pop too
                assert polls(popper) == 0
        send(broker, b"x", topic=topic)
        assert [each.body for each in other.take()] == [b"x"]


def test_how_many_pops_wait(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    """Those that have named this queue, or none; whatever else waits is none of them."""
    listens = broker.status().listens
    assert polls(popper) == 0
    with Popper(listens, group, topic) as other, Popper(listens, f"another-{topic}", topic) as another:
        other.put()
        other.put()
        other.put(queueId=2)
        another.put()
        another.remote.put(NOTIFICATION, **another.notice())
        until(lambda: polls(popper) == 2, "both pops to wait")
        assert [polls(popper, queue) for queue in (-7, 0, 2)] == [2, 0, 1]
        assert polls(popper, consumerGroup=f"another-{topic}") == 1
    until(lambda: polls(popper) == 0, "the pops to be gone")


def test_refusals(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    broker.create_topic("closed", 4)
    broker.set_permissions("closed", read=False, write=True)
    for code in (NOTIFICATION, POLLING_INFO):
        for expected, change in (
            (NO_TOPIC, {"topic": "none"}),
            (NO_PERMISSION, {"topic": "closed"}),
            (INVALID_PARAMETER, {"queueId": 4}),
            (SYSTEM_ERROR, {"queueId": "many"}),
        ):
            assert popper.remote.ask(code, **popper.notice(**change)).code == expected, (code, change)
        spoiled = {name: value for name, value in popper.notice().items() if name != "consumerGroup"}
        assert popper.remote.ask(code, **spoiled).code == SYSTEM_ERROR
    assert popper.remote.ask(NOTIFICATION, **popper.notice(pollTime="soon")).code == SYSTEM_ERROR
    assert popper.remote.ask(NOTIFICATION, **popper.notice(expType="SQL92", exp="n >")).code == BAD_FILTER
    popper.remote.put(NOTIFICATION, mark=2, **popper.notice())
    assert popper.remote.ask(HEARTBEAT, b"{}").code == SUCCESS
    assert not popper.remote.has_come
    with broker.consumer(f"c-{group}", topics=[topic]):
        said = popper.remote.ask(NOTIFICATION, **popper.notice(consumerGroup=f"c-{group}"))
        assert said.code == SYSTEM_ERROR and "consumer" in (said.remark or "")


def test_more_than_may_wait(broker: orbitmq.Broker, popper: Popper) -> None:
    """The last one is told at once that there is no room. One connection begins only some groups."""
    assert not popper.has(poll_ms=1)
    for _ in range(WAITS):
        popper.remote.put(NOTIFICATION, **popper.notice(60_000))
    opaque = popper.remote.put(NOTIFICATION, **popper.notice(60_000))
    said = popper.remote.take()
    assert (said.opaque, said.fields) == (opaque, {"hasMsg": "false", "pollingFull": "true"})
    with Popper(broker.status().listens, "g", "t") as other:

        def refused() -> bool:
            """A group with which nothing is done for 5 s may have ended."""
            for n in range(OF_ONE_CONNECTION):
                assert not other.has(poll_ms=1, consumerGroup=f"g{n}")
            said = other.remote.ask(NOTIFICATION, **other.notice(1, consumerGroup="one-more"))
            return said.code == SYSTEM_ERROR and "as many as one may" in (said.remark or "")

        until(refused, "a group too many")


@pytest.mark.parametrize("victim", ["dispatcher", "coordinator", "reput"])
def test_deaths(broker: orbitmq.Broker, popper: Popper, victim: str) -> None:
    """Who waits is told by the next one."""
    assert not popper.has(poll_ms=1)
    popper.remote.put(NOTIFICATION, **popper.notice())
    asleep(broker)
    kill(broker, victim)
    send(broker, b"x")
    assert told(popper.remote.take())
    assert one(popper).body == b"x"
