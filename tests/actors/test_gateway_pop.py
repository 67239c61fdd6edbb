"""Goal: what remote clients pop is the work queue's: each message goes to one of them, in the order in which they wait, also
the filtered ones and the group's retries, and a client that does not read or wants no answer takes nothing from others.

Method: the Python client of the protocol, which reads receipts as Java's does, beside local workers of the same group. Of
native/remoting/gateway/gateway_pop.h and what it names; the order of looks is held by native/litmus/popped_or_news.litmus.
What becomes of messages that were popped: test_gateway_pop_receipts.py."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import orbitmq
from tests.actors.pop_client import POLLING_TIMEOUT, POP, SUCCESS, Popper, asleep, counted, one, send
from tests.actors.remoting_client import HEARTBEAT
from tests.actors.shared_broker import broker_for
from tests.trees import indexed
from tests.waiting import until

SYSTEM_ERROR, BAD_FILTER = 1, 23
ROUNDS = 10


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[orbitmq.Broker]:
    with broker_for(request, 4, listen="127.0.0.1:0") as broker:
        yield broker


@pytest.fixture
def popper(broker: orbitmq.Broker, place: tuple[str, str]) -> Iterator[Popper]:
    with Popper(broker.status().listens, *place) as popper:
        yield popper


def test_each_comes_once_and_is_done(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    """Also for local workers of the group, and in its offsets."""
    sent = [b"%d" % n for n in range(100)]
    send(broker, *sent, topic=topic)
    got: list[bytes] = []
    while len(got) < len(sent):
        for each in until(popper.pop, "more messages"):
            assert (each.reconsumed, each.topic) == (0, topic)
            got.append(each.body)
            assert popper.ack(each) == SUCCESS
    assert sorted(got) == sorted(sent)
    assert popper.pop(poll_ms=1) == []
    with broker.work_session(group, [topic]) as worker:
        assert worker.take(1, timeout=0) == []
    assert {queue.committed for queue in broker.group(group).queues if queue.topic == topic} == {25}


def test_a_held_pop_is_woken(broker: orbitmq.Broker, popper: Popper, topic: str) -> None:
    """What comes is handed out, and ends the gateway's sleep. A look every tenth of a second would find it as well, and so
    what wakes is counted, from the sleep to the arrival."""
    until(lambda: popper.pop(poll_ms=1) == [], "the group to begin")
    woken = 0
    with broker.producer() as producer:
        for n in range(ROUNDS):
            popper.put()
            asleep(broker)
            before = counted(broker, "wakes")
            producer.send(topic, b"%d" % n, queue=n % 4)
            (found,) = popper.take()
            woken += counted(broker, "wakes") > before
            assert found.body == b"%d" % n
            assert popper.ack(found) == SUCCESS
    assert woken >= ROUNDS / 2


def test_who_waits_first_is_served_first(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    """What nobody came for ends with code 210; a client that sends no more is told at once, and one that has gone takes
    nothing."""
    with Popper(broker.status().listens, group, topic) as other, Popper(broker.status().listens, group, topic) as gone:
        gone.put(1)
        asleep(broker)
        gone.remote.socket.close()
        popper.put(1)
        asleep(broker)
        other.put(1)
        asleep(broker)
        send(broker, b"first", topic=topic)
        assert [each.body for each in popper.take()] == [b"first"]
        assert not other.remote.has_come
        other.remote.socket.shutdown(1)
        assert other.take() == []
    popper.put(poll_ms=1)
    assert popper.remote.take().code == POLLING_TIMEOUT


def test_the_last_try(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    """What is never acknowledged becomes a dead letter, by the rules of the work queue."""
    with broker.work_session(group, [topic], max_tries=3):
        pass
    send(broker, b"poison", topic=topic)
    popper.invisible_ms = 1
    assert [one(popper).reconsumed for _ in range(3)] == [0, 1, 2]

    def dead() -> list[bytes]:
        assert popper.pop(poll_ms=1) == []
        return [letter.body for letter in broker.dead_letters(group)]

    assert until(dead, "the dead letter") == [b"poison"]


def test_retries_of_the_group(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    """What a local worker nacked comes from the topic of retries to whoever pops, and is acknowledged there."""
    send(broker, b"hard", topic=topic)
    with broker.work_session(group, [topic], max_tries=2) as worker:
        (failed,) = worker.take(1, timeout=None)
        worker.nack(failed, reason="no")
        worker.settled(None)
        again = one(popper)
        assert (again.body, again.reconsumed, again.topic) == (b"hard", 1, f"%RETRY%{group}")
        assert popper.ack(again) == SUCCESS
        assert until(lambda: sum(queue.lag_messages for queue in broker.group(group).queues) == 0, "it is done")


def test_where_a_new_group_begins(broker: orbitmq.Broker, topic: str) -> None:
    """At the first message, or if its client wants so (initMode 1) at the next one to come; but as with RocketMQ at the first
    one of a queue of which no message was removed yet."""
    with ExitStack() as stack:

        def begin(group: str, init_mode: int) -> Popper:
            return stack.enter_context(Popper(broker.status().listens, f"{group}-{topic}", topic, initMode=init_mode))

        send(broker, b"a", topic=topic)
        assert one(begin("g0", 1)).body == b"a"
        broker.purge_topic(topic)
        send(broker, b"b", topic=topic)
        indexed(broker)
        last = begin("g1", 1)
        assert last.pop(poll_ms=1) == []
        assert one(begin("g2", 0)).body == b"b"
        send(broker, b"c", b"d", topic=topic)  # in another queue, too
        assert {one(last).body for _ in range(2)} == {b"c", b"d"}
        assert last.pop(poll_ms=1) == []
        with broker.producer() as producer:
            producer.send(topic, b"e", queue=2)
        assert {one(each).body for each in [begin("g3", 1)] * 2} == {b"d", b"e"}


def test_only_some_messages(broker: orbitmq.Broker, topic: str, group: str) -> None:
    """By tags and by SQL92; the rest is passed over. Of one topic all want the same."""
    with broker.producer() as producer:
        for n in range(20):
            producer.send(topic, b"%d" % n, queue=0, tags="ab"[n % 2], properties={"n": str(n)})
    listens = broker.status().listens
    by_sql = {"expType": "SQL92", "exp": "n > 16"}
    with Popper(listens, f"tags-{topic}", topic, exp="a || c") as popper, Popper(listens, group, topic, **by_sql) as sql:
        wanted = {b"%d" % n for n in range(0, 20, 2)}
        while wanted:
            for each in until(popper.pop, "more messages"):
                wanted.remove(each.body)
                assert popper.ack(each) == SUCCESS
        assert {one(sql).body for _ in range(3)} == {b"17", b"18", b"19"}
        assert popper.pop(poll_ms=1) == [] == sql.pop(poll_ms=1)
        popper.put(exp="b")
        said = popper.remote.take()
        assert said.code == SYSTEM_ERROR and "came with tags" in (said.remark or "")
        for fields in ({"expType": "SQL92", "exp": "n >"}, {"exp": " || "}):
            popper.put(**fields)
            assert popper.remote.take().code == BAD_FILTER


def test_a_client_that_does_not_read(broker: orbitmq.Broker, popper: Popper) -> None:
    """Its pops wait until it reads, and others of the group go on meanwhile. What it has got comes to them, too."""
    send(broker, *[b"x" * 100_000 for _ in range(120)])
    with Popper(broker.status().listens, "g", "t", invisible_ms=1) as slow:
        for _ in range(60):
            slow.put(3)
        asleep(broker)
        found = 0

        def all_of_it() -> bool:
            nonlocal found
            for each in popper.pop(poll_ms=1):
                found += 1
                assert popper.ack(each) == SUCCESS
            return found == 120

        until(all_of_it, "what the other one does not read")
        assert popper.remote.ask(HEARTBEAT, b"{}").code == SUCCESS


def test_who_wants_no_answer_takes_nothing(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    """A one-way pop has no effect: nobody would get the messages."""
    until(lambda: popper.pop(poll_ms=1) == [], "the group to begin")
    fields = {"consumerGroup": group, "topic": topic, "queueId": -1, "maxMsgNums": 32}
    fields |= {"invisibleTime": 600_000, "pollTime": 15_000}
    popper.remote.put(POP, mark=2, **fields, exp="*", expType="TAG", order="false")
    assert popper.remote.ask(HEARTBEAT, b"{}").code == SUCCESS
    send(broker, b"first", topic=topic)
    assert [each.body for each in popper.pop()] == [b"first"]


def test_a_client_that_does_not_read_keeps_nothing(broker: orbitmq.Broker, popper: Popper) -> None:
    """What it has asked for goes to local workers, and the gateway sleeps, though the time of its pops is over."""
    send(broker, *[b"x" * 100_000 for _ in range(120)])
    with Popper(broker.status().listens, "g", "t") as slow:
        for _ in range(60):
            slow.put(32, poll_ms=1)
        until(lambda: counted(broker, "sleeps"), "the gateway to serve")

        def sleeps() -> bool:
            before, began = counted(broker, "sleeps"), time.monotonic()
            until(lambda: counted(broker, "sleeps") >= before + 10, "ten sleeps")
            return time.monotonic() - began > 0.5

        until(sleeps, "sleeps that last")
        send(broker, *[b"y"] * 400)
        with broker.work_session("g", ["t"]) as worker:
            left = 400

            def gets() -> bool:
                nonlocal left
                taken = worker.take(500, timeout=0.1)
                worker.ack(taken)
                left -= sum(bytes(each.message.body) == b"y" for each in taken)
                return left == 0

            until(gets, "what the client asked for and does not read")
