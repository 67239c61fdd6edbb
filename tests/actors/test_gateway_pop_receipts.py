"""Goal: a message that was popped is done by its receipt alone: it comes again when its invisible time is over, never once its
acknowledgement was answered, and a receipt of an earlier delivery changes nothing.

Method: as test_gateway_pop.py. Of native/remoting/gateway/gateway_pop_settle.c, native/remoting/gateway/pop_leases.h and
remoting/pops.py."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator

import pytest

import orbitmq
from tests.actors.pop_client import ACK, BATCH_ACK, CHANGE, NO_MESSAGE, POP, SUCCESS, Popped, Popper, asleep, counted, one, send
from tests.actors.remoting_client import HEARTBEAT
from tests.actors.shared_broker import broker_for
from tests.trees import stopped
from tests.waiting import until

ILLEGAL, SYSTEM_ERROR, NO_TOPIC, INVALID = 13, 1, 17, 29
ROUNDS = 10


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[orbitmq.Broker]:
    with broker_for(request, 4, listen="127.0.0.1:0") as broker:
        yield broker


@pytest.fixture
def popper(broker: orbitmq.Broker, place: tuple[str, str]) -> Iterator[Popper]:
    with Popper(broker.status().listens, *place) as popper:
        yield popper


def test_it_comes_again_when_its_time_is_over(broker: orbitmq.Broker, popper: Popper, topic: str) -> None:
    """With one delivery more each time, and under another receipt. The earlier receipts are answered as RocketMQ does, and
    change nothing: else the message would be done."""
    send(broker, b"slow", topic=topic)
    popper.invisible_ms = 1
    earlier = []
    for tried in range(5):
        again = one(popper)
        assert (again.body, again.reconsumed) == (b"slow", tried)
        earlier.append(again)
    popper.invisible_ms = 60_000
    last = one(popper)
    assert last.reconsumed == 5 and last.receipt not in [each.receipt for each in earlier]
    for each in earlier:
        assert popper.ack(each) == SUCCESS
        assert popper.change(each, 0)[0] == NO_MESSAGE
    assert popper.change(last, 0)[0] == SUCCESS
    last = one(popper)
    assert last.reconsumed == 6
    assert popper.ack(last) == SUCCESS
    assert popper.ack(last) == SUCCESS
    assert popper.pop(poll_ms=1) == []


def test_an_acknowledgement_races_with_the_end_of_its_time(
    broker: orbitmq.Broker, popper: Popper, topic: str, group: str
) -> None:
    """The message is done, or comes again, and then counts as not done until its next acknowledgement: in no order of the two
    does an earlier receipt settle a later delivery, or does a message come that is done. Two clients, so that one of them asks
    while the other's time ends."""
    rng = random.Random(7)
    with Popper(broker.status().listens, group, topic) as other, broker.producer() as producer:
        for n in range(60):
            producer.send(topic, b"%d" % n, queue=0)
            popper.invisible_ms = rng.randint(1, 4)
            first = one(popper)
            other.put(1, poll_ms=1)
            assert popper.ack(first) == SUCCESS
            second = other.take()
            at = next(queue for queue in broker.group(group).queues if queue.queue == 0).committed
            if second:
                assert (second[0].offset, second[0].reconsumed) == (n, 1), "what is done comes again"
                assert at == n, "the earlier receipt has settled the later delivery"
                assert other.ack(second[0]) == SUCCESS
            elif at == n:  # it was too late, and the other one has not waited for it
                assert popper.ack(first) == SUCCESS
                popper.invisible_ms = 60_000
                assert popper.ack(one(popper)) == SUCCESS
            assert next(queue for queue in broker.group(group).queues if queue.queue == 0).committed == n + 1


def test_a_reset(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    """A receipt from before the group was moved back counts for no delivery after it: not while the message waits for a pop
    again, nor, once the dispatcher has refused it, does it end what was popped meanwhile."""
    send(broker, b"x", topic=topic)
    first = one(popper)
    broker.reset_group(group, "earliest")
    assert popper.has(), "it is handed out again, and nobody has popped it"
    early = popper.remote.frame(ACK, **popper.fields(first))
    popper.remote.socket.sendall(early + popper.remote.frame(POP, **popper.pop_fields(1)))  # before the dispatcher hears of it
    done, popped = sorted((popper.remote.take(), popper.remote.take()), key=lambda said: said.opaque)
    assert done.code == SUCCESS
    (again,) = popper.read(popped)
    assert (again.body, again.reconsumed) == (b"x", 0)
    assert broker.group(group).queues[0].committed == 0, "the earlier receipt has settled the later delivery"
    code, again = popper.change(again, 0)
    assert code == SUCCESS, "the refusal of the earlier receipt has ended the later one"
    again = one(popper)
    assert again.reconsumed == 1
    assert popper.ack(again) == SUCCESS
    assert broker.group(group).queues[0].committed == 1


def test_a_changed_time(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    """The new receipt counts, and the one before does not. What has more time does not come again meanwhile: while a pop is
    held, only what has less does."""
    send(broker, b"a", topic=topic)

    def in_time() -> tuple[Popped, Popped] | None:
        popper.invisible_ms *= 2
        popped = one(popper)
        code, changed = popper.change(popped, 60_000)
        return (popped, changed) if code == SUCCESS else None

    popper.invisible_ms = 100
    first, longer = until(in_time, "a change within its time")
    assert longer.receipt != first.receipt
    assert popper.ack(first) == SUCCESS, "of no effect"
    code, longer = popper.change(longer, 60_000)
    assert code == SUCCESS, "the earlier receipt has settled it"
    send(broker, b"b", topic=topic)
    second = one(popper)
    with Popper(broker.status().listens, group, topic) as other:
        (again,) = until(lambda: other.pop(1), "the message whose time was not changed")
        assert (again.body, again.reconsumed) == (second.body, 1)
        assert other.pop(poll_ms=1) == []
        assert popper.ack(longer) == SUCCESS
        assert other.change(again, 0)[0] == SUCCESS
        assert other.ack(one(other)) == SUCCESS
    assert popper.pop(poll_ms=1) == []
    assert sum(queue.committed for queue in broker.group(group).queues) == 2


def test_an_acknowledgement_is_answered_by_a_wake(broker: orbitmq.Broker, popper: Popper, topic: str) -> None:
    """The dispatcher ends the gateway's sleep when it has applied one, too; and it does so behind the sleep here."""
    send(broker, *[b"x"] * ROUNDS, topic=topic)
    mine: list[Popped] = []
    while len(mine) < ROUNDS:
        mine += popper.pop()
    woken = 0
    for each in mine:
        with stopped(broker, "dispatcher"):
            popper.remote.put(ACK, **popper.fields(each))
            asleep(broker)
            before = counted(broker, "wakes")
        assert popper.remote.take().code == SUCCESS
        woken += counted(broker, "wakes") > before
    assert woken >= ROUNDS / 2


def test_batches_of_acknowledgements(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    """One request for all of a pop, in JSON; entries of what nobody has are passed over."""
    send(broker, *[b"%d" % n for n in range(64)], topic=topic)
    left = 64
    while left:
        found = until(popper.pop, "more messages")
        left -= len(found)
        words = found[0].receipt.split(" ")
        first = int(words[0])
        bits = sum(1 << each.offset - first for each in found)
        content = base64.b64encode(bits.to_bytes(8, "little")).decode()
        place = {"t": topic, "r": "0", "so": first, "q": found[0].queue}
        ack = {**place, "c": group, "rq": 1, "pt": int(words[1]), "it": 1, "b": content}
        other = {**ack, "q": 99}, {**ack, "t": "none"}, {**ack, "pt": 5}, {**ack, "rq": 2}, {**ack, "c": "h"}
        said = popper.remote.ask(BATCH_ACK, json.dumps({"acks": other}).encode())
        assert (said.code, sum(queue.committed for queue in broker.group(group).queues)) == (SUCCESS, 64 - left - len(found))
        body = json.dumps({"brokerName": "b", "acks": [*other, ack]}).encode()
        assert popper.remote.ask(BATCH_ACK, body).code == SUCCESS
    assert {queue.committed for queue in broker.group(group).queues} == {16}
    assert popper.remote.ask(BATCH_ACK, b'{"acks":[]}').code == NO_MESSAGE
    huge = {**ack, "b": base64.b64encode(b"\xff" * 10_000).decode()}
    spoiled: list[object] = [1, "c", None, {"c": group}, huge]
    spoiled += [{**ack, **wrong} for wrong in ({"b": "?"}, {"b": 1}, {"q": -1}, {"so": []})]
    bodies = [b"[1", *(json.dumps({"acks": [each]}).encode() for each in spoiled)]
    zeros = {**ack, "b": base64.b64encode(bytes(5_000)).decode()}  # to read them is work, though they name nothing
    bodies += [json.dumps({"acks": [each] * count}).encode() for each, count in ((zeros, 2), ({**ack, "b": ""}, 5_000))]
    bodies.append(b" " * (1 << 20) + json.dumps({"acks": [ack]}).encode())
    for body in bodies:
        assert popper.remote.ask(BATCH_ACK, body).code == SYSTEM_ERROR, body


def test_refusals(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    send(broker, b"x", topic=topic)
    mine = one(popper)
    for code, fields in (
        (NO_TOPIC, {"topic": "none"}),
        (INVALID, {"queueId": 4}),
        (INVALID, {"maxMsgNums": 0}),
        (INVALID, {"maxMsgNums": 33}),
        (INVALID, {"invisibleTime": 0}),
        (INVALID, {"invisibleTime": 12 * 3600 * 1000}),
        (INVALID, {"invisibleTime": "soon"}),
    ):
        popper.put(**fields)
        assert popper.remote.take().code == code, fields
    for code, change in (
        (NO_TOPIC, {"topic": "none"}),
        (ILLEGAL, {"queueId": 4}),
        (NO_MESSAGE, {"offset": 1}),
        (SYSTEM_ERROR, {"extraInfo": "1 2"}),
        (SYSTEM_ERROR, {"extraInfo": "a b c d e f"}),
        (SUCCESS, {"consumerGroup": "another"}),
        (SUCCESS, {"extraInfo": "0 1 1 1 0 b 0 0"}),
    ):
        assert popper.remote.ask(ACK, **{**popper.fields(mine), **change}).code == code, change
        expected = NO_MESSAGE if code == SUCCESS else code
        assert popper.remote.ask(CHANGE, **{**popper.fields(mine), **change}, invisibleTime=1).code == expected
    assert popper.remote.ask(CHANGE, **popper.fields(mine), invisibleTime=-1).code == ILLEGAL
    assert broker.group(group).queues[0].committed == 0
    assert popper.ack(mine) == SUCCESS


def test_an_acknowledgement_waits_for_the_dispatcher(
    broker: orbitmq.Broker, popper: Popper, topic: str, group: str
) -> None:
    """It is answered when it is noted, and not while the dispatcher hangs; other requests of the connection are served
    meanwhile."""
    send(broker, b"x", topic=topic)
    mine = one(popper)
    with stopped(broker, "dispatcher"), Popper(broker.status().listens, group, topic) as other:
        other.put()
        first = popper.remote.put(ACK, **popper.fields(mine))
        second = popper.remote.put(HEARTBEAT, b"{}")
        assert popper.remote.take().opaque == second
    assert popper.remote.take().opaque == first
