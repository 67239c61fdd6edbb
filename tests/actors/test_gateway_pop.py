"""Goal: what remote clients pop is the work queue's: each message goes to one of them, comes again when its invisible time is
over, and never once its acknowledgement was answered; a receipt of an earlier delivery changes nothing.

Method: the Python client of the protocol, which reads receipts as Java's does, beside local workers of the same group. Of
native/remoting/gateway_pop.h and what it names, of actors/popping.py, and of remoting/pops.py; the order of looks is held by
native/litmus/popped_or_news.litmus."""

from __future__ import annotations

import base64
import json
import mmap
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import orbitmq
from orbitmq.actors.popping import Popping
from orbitmq.errors import GroupInUse
from orbitmq.native._core import ffi, lib
from tests.actors.failing_disk import kill_tree
from tests.actors.pop_client import ACK, BATCH_ACK, CHANGE, NO_MESSAGE, POLLING_TIMEOUT, POP, SUCCESS, Popped, Popper
from tests.actors.remoting_client import HEARTBEAT
from tests.actors.test_gateway_holds import asleep, counted
from tests.trees import kill, small_broker, stopped
from tests.waiting import until

ILLEGAL, SYSTEM_ERROR, NO_TOPIC, BAD_FILTER = 13, 1, 17, 23
ROUNDS = 10
LEASES_MAX = 16_384
OF_ONE_PROCESS, OF_ONE_CONNECTION = 64, 16


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker:
        broker.create_topic("t", 4)
        yield broker


@pytest.fixture
def popper(broker: orbitmq.Broker) -> Iterator[Popper]:
    with Popper(broker.status().listens, "g", "t") as popper:
        yield popper


def send(broker: orbitmq.Client, *bodies: bytes, **how: object) -> None:
    with broker.producer() as producer:
        for number, body in enumerate(bodies):
            producer.send("t", body, queue=number % 4, **how)  # type: ignore[arg-type]


def one(popper: Popper, **how: object) -> Popped:
    """The next message, alone, however long it takes."""
    found: list[Popped] = until(lambda: popper.pop(1, **how), "a message")  # type: ignore[arg-type]
    return found[0]


def test_each_comes_once_and_is_done(broker: orbitmq.Broker, popper: Popper) -> None:
    """Also for local workers of the group, and in its offsets."""
    sent = [b"%d" % n for n in range(100)]
    send(broker, *sent)
    got: list[bytes] = []
    while len(got) < len(sent):
        for each in until(popper.pop, "more messages"):
            assert (each.reconsumed, each.topic) == (0, "t")
            got.append(each.body)
            assert popper.ack(each) == SUCCESS
    assert sorted(got) == sorted(sent)
    assert popper.pop(poll_ms=1) == []
    with broker.work_session("g", ["t"]) as worker:
        assert worker.take(1, timeout=0) == []
    assert {queue.committed for queue in broker.group("g").queues if queue.topic == "t"} == {25}


def test_it_comes_again_when_its_time_is_over(broker: orbitmq.Broker, popper: Popper) -> None:
    """With one delivery more each time, and under another receipt. The earlier receipts are answered as RocketMQ does, and
    change nothing: else the message would be done."""
    send(broker, b"slow")
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


def test_an_acknowledgement_races_with_the_end_of_its_time(broker: orbitmq.Broker, popper: Popper) -> None:
    """The message is done, or comes again, and then counts as not done until its next acknowledgement: in no order of the two
    does an earlier receipt settle a later delivery, or does a message come that is done. Two clients, so that one of them asks
    while the other's time ends."""
    rng = random.Random(7)
    with Popper(broker.status().listens, "g", "t") as other, broker.producer() as producer:
        for n in range(60):
            producer.send("t", b"%d" % n, queue=0)
            popper.invisible_ms = rng.randint(1, 4)
            first = one(popper)
            other.put(1, poll_ms=1)
            assert popper.ack(first) == SUCCESS
            second = other.take()
            at = next(queue for queue in broker.group("g").queues if queue.queue == 0).committed
            if second:
                assert (second[0].offset, second[0].reconsumed) == (n, 1), "what is done comes again"
                assert at == n, "the earlier receipt has settled the later delivery"
                assert other.ack(second[0]) == SUCCESS
            elif at == n:  # it was too late, and the other one has not waited for it
                assert popper.ack(first) == SUCCESS
                popper.invisible_ms = 60_000
                assert popper.ack(one(popper)) == SUCCESS
            assert next(queue for queue in broker.group("g").queues if queue.queue == 0).committed == n + 1


def test_a_changed_time(broker: orbitmq.Broker, popper: Popper) -> None:
    """The new receipt counts, and the one before does not. What has more time does not come again meanwhile: while a pop is
    held, only what has less does."""
    send(broker, b"a")

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
    send(broker, b"b")
    second = one(popper)
    with Popper(broker.status().listens, "g", "t") as other:
        (again,) = until(lambda: other.pop(1), "the message whose time was not changed")
        assert (again.body, again.reconsumed) == (second.body, 1)
        assert other.pop(poll_ms=1) == []
        assert popper.ack(longer) == SUCCESS
        assert other.change(again, 0)[0] == SUCCESS
        assert other.ack(one(other)) == SUCCESS
    assert popper.pop(poll_ms=1) == []
    assert sum(queue.committed for queue in broker.group("g").queues) == 2


def test_a_held_pop_is_woken(broker: orbitmq.Broker, popper: Popper) -> None:
    """What comes is handed out, and ends the gateway's sleep. A look every tenth of a second would find it as well, and so
    what wakes is counted, from the sleep to the arrival."""
    until(lambda: popper.pop(poll_ms=1) == [], "the group to begin")
    woken = 0
    with broker.producer() as producer:
        for n in range(ROUNDS):
            popper.put()
            asleep(broker)
            before = counted(broker, "wakes")
            producer.send("t", b"%d" % n, queue=n % 4)
            (found,) = popper.take()
            woken += counted(broker, "wakes") > before
            assert found.body == b"%d" % n
            assert popper.ack(found) == SUCCESS
    assert woken >= ROUNDS / 2


def test_an_acknowledgement_is_answered_by_a_wake(broker: orbitmq.Broker, popper: Popper) -> None:
    """The dispatcher ends the gateway's sleep when it has applied one, too; and it does so behind the sleep here."""
    send(broker, *[b"x"] * ROUNDS)
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


def test_who_waits_first_is_served_first(broker: orbitmq.Broker, popper: Popper) -> None:
    """What nobody came for ends with code 210; a client that sends no more is told at once, and one that has gone takes
    nothing."""
    with Popper(broker.status().listens, "g", "t") as other, Popper(broker.status().listens, "g", "t") as gone:
        gone.put(1)
        asleep(broker)
        gone.remote.socket.close()
        popper.put(1)
        asleep(broker)
        other.put(1)
        asleep(broker)
        send(broker, b"first")
        assert [each.body for each in popper.take()] == [b"first"]
        assert not other.remote.has_come
        other.remote.socket.shutdown(1)
        assert other.take() == []
    popper.put(poll_ms=1)
    assert popper.remote.take().code == POLLING_TIMEOUT


def test_the_last_try(broker: orbitmq.Broker, popper: Popper) -> None:
    """What is never acknowledged becomes a dead letter, by the rules of the work queue."""
    with broker.work_session("g", ["t"], max_tries=3):
        pass
    send(broker, b"poison")
    popper.invisible_ms = 1
    assert [one(popper).reconsumed for _ in range(3)] == [0, 1, 2]

    def dead() -> list[bytes]:
        assert popper.pop(poll_ms=1) == []
        return [letter.body for letter in broker.dead_letters("g")]

    assert until(dead, "the dead letter") == [b"poison"]


def test_retries_of_the_group(broker: orbitmq.Broker, popper: Popper) -> None:
    """What a local worker nacked comes from the topic of retries to whoever pops, and is acknowledged there."""
    send(broker, b"hard")
    with broker.work_session("g", ["t"], max_tries=2) as worker:
        (failed,) = worker.take(1, timeout=None)
        worker.nack(failed, reason="no")
        worker.settled(None)
        again = one(popper)
        assert (again.body, again.reconsumed, again.topic) == (b"hard", 1, "%RETRY%g")
        assert popper.ack(again) == SUCCESS
        assert until(lambda: sum(queue.lag_messages for queue in broker.group("g").queues) == 0, "it is done")


def test_only_some_messages(broker: orbitmq.Broker) -> None:
    """By tags and by SQL92; the rest is passed over. Of one topic all want the same."""
    with broker.producer() as producer:
        for n in range(20):
            producer.send("t", b"%d" % n, queue=0, tags="ab"[n % 2], properties={"n": str(n)})
    listens = broker.status().listens
    by_sql = {"expType": "SQL92", "exp": "n > 16"}
    with Popper(listens, "tags", "t", exp="a || c") as popper, Popper(listens, "sql", "t", **by_sql) as sql:
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


def test_beside_local_workers(broker: orbitmq.Broker, popper: Popper) -> None:
    """They share the messages. Consumers cannot join until nobody has popped for some seconds."""
    send(broker, *[b"%d" % n for n in range(200)])
    got: list[bytes] = []
    with broker.work_session("g", ["t"]) as worker:
        while len(got) < 200:
            taken = worker.take(10, timeout=0.1)
            got += [bytes(each.message.body) for each in taken]
            worker.ack(taken)
            for each in popper.pop(10, poll_ms=1):
                got.append(each.body)
                popper.ack(each)
        assert len(set(got)) == len(got) == 200
    with pytest.raises(GroupInUse), broker.consumer("g", topics=["t"]):
        pass

    def joins() -> bool:
        try:
            with broker.consumer("g", topics=["t"]):
                popper.put()
                said = popper.remote.take()
                assert said.code == SYSTEM_ERROR and "consumer" in (said.remark or "")
                return True
        except GroupInUse:
            return False

    until(joins, "the group to be free")


def test_batches_of_acknowledgements(broker: orbitmq.Broker, popper: Popper) -> None:
    """One request for all of a pop, in JSON; entries of what nobody has are passed over."""
    send(broker, *[b"%d" % n for n in range(64)])
    left = 64
    while left:
        found = until(popper.pop, "more messages")
        left -= len(found)
        words = found[0].receipt.split(" ")
        first = int(words[0])
        bits = sum(1 << each.offset - first for each in found)
        content = base64.b64encode(bits.to_bytes(8, "little")).decode()
        place = {"t": "t", "r": "0", "so": first, "q": found[0].queue}
        ack = {**place, "c": "g", "rq": 1, "pt": int(words[1]), "it": 1, "b": content}
        other = {**ack, "q": 99}, {**ack, "t": "none"}, {**ack, "pt": 5}, {**ack, "rq": 2}, {**ack, "c": "h"}
        said = popper.remote.ask(BATCH_ACK, json.dumps({"acks": other}).encode())
        assert (said.code, sum(queue.committed for queue in broker.group("g").queues)) == (SUCCESS, 64 - left - len(found))
        body = json.dumps({"brokerName": "b", "acks": [*other, ack]}).encode()
        assert popper.remote.ask(BATCH_ACK, body).code == SUCCESS
    assert {queue.committed for queue in broker.group("g").queues} == {16}
    assert popper.remote.ask(BATCH_ACK, b'{"acks":[]}').code == NO_MESSAGE
    huge = {**ack, "b": base64.b64encode(b"\xff" * 10_000).decode()}
    spoiled: list[object] = [1, "c", None, {"c": "g"}, huge]
    spoiled += [{**ack, **wrong} for wrong in ({"b": "?"}, {"b": 1}, {"q": -1}, {"so": []})]
    bodies = [b"[1", *(json.dumps({"acks": [each]}).encode() for each in spoiled)]
    zeros = {**ack, "b": base64.b64encode(bytes(5_000)).decode()}  # to read them is work, though they name nothing
    bodies += [json.dumps({"acks": [each] * count}).encode() for each, count in ((zeros, 2), ({**ack, "b": ""}, 5_000))]
    bodies.append(b" " * (1 << 20) + json.dumps({"acks": [ack]}).encode())
    for body in bodies:
        assert popper.remote.ask(BATCH_ACK, body).code == SYSTEM_ERROR, body


def test_many_groups(broker: orbitmq.Broker) -> None:
    """More than a client process may have sessions; but one connection opens only some, also after it named what is no text."""
    listens = broker.status().listens
    for n in range(OF_ONE_PROCESS // OF_ONE_CONNECTION + 1):
        with Popper(listens, "g", "t") as popper:
            for filter_ in ("QQ", "a || QQ"):
                popper.put(exp=filter_, spoil=True)
                assert popper.remote.take().code == BAD_FILTER
            popper.group = "QQ"
            popper.put(spoil=True)
            assert popper.remote.take().code == SYSTEM_ERROR
            for group in range(OF_ONE_CONNECTION):
                popper.group = f"g{n}-{group}"
                popper.put(poll_ms=1)
            assert [popper.take() for _ in range(OF_ONE_CONNECTION)] == [[]] * OF_ONE_CONNECTION
            popper.group = "another"
            popper.put()
            said = popper.remote.take()
            assert said.code == SYSTEM_ERROR and "as many as one may" in (said.remark or "")


def test_sessions_are_closed_until_the_coordinator_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, with a pause after one that was not answered, because each may keep the loop waiting."""
    ends = [(n, 10 + n) for n in range(3)]
    memory = ffi.new("uint8_t[]", 1)
    asked: list[tuple[object, object]] = []
    now_s, answers = 0.0, False

    class Core:
        def __getattr__(self, name: str) -> Any:
            return getattr(lib, name)

        @staticmethod
        def gateway_pop_over(_: Any, end: Any) -> bool:
            if not ends:
                return False
            end.slot, end.epoch = ends.pop(0)
            end.memory = memory
            popping._mapped[int(ffi.cast("uintptr_t", memory))] = mmap.mmap(-1, 1), ffi.from_buffer(bytearray(1))
            return True

    def ask(operation: str, *, slot: object, epoch: object) -> Any:
        asked.append((slot, epoch))
        if not answers:
            raise TimeoutError
        return None, ()

    monkeypatch.setattr("orbitmq.actors.popping.lib", Core())
    popping = Popping(None, cast(Any, None), cast(Any, ask), lambda: now_s)
    for _ in range(3):
        popping.look()
    assert (asked, ends, popping._mapped) == ([(0, 10)], [], {})
    now_s, answers = 100.0, True
    popping.look()
    assert asked == [(0, 10), (0, 10), (1, 11), (2, 12)]
    popping.look()
    assert len(asked) == 4


def test_refusals(broker: orbitmq.Broker, popper: Popper) -> None:
    send(broker, b"x")
    mine = one(popper)
    for code, fields in (
        (NO_TOPIC, {"topic": "none"}),
        (ILLEGAL, {"queueId": 4}),
        (ILLEGAL, {"maxMsgNums": 0}),
        (ILLEGAL, {"maxMsgNums": 33}),
        (ILLEGAL, {"invisibleTime": 0}),
        (ILLEGAL, {"invisibleTime": 12 * 3600 * 1000}),
        (ILLEGAL, {"order": "true"}),
        (ILLEGAL, {"invisibleTime": "soon"}),
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
    assert broker.group("g").queues[0].committed == 0
    assert popper.ack(mine) == SUCCESS


@pytest.mark.parametrize("victim", ["gateway", "dispatcher", "coordinator", "reput"])
def test_deaths(tmp_path: Path, victim: str) -> None:
    """Nothing is lost, and nothing comes again once it was done. With the gateway its leases end: what clients had comes
    again, and their receipts change nothing."""
    rng = random.Random(victim)
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker, broker.producer() as producer:
        broker.create_topic("t", 4)
        popper = Popper(broker.status().listens, "g", "t", invisible_ms=600_000)
        open_: dict[bytes, Popped] = {}
        done: set[bytes] = set()
        for n in range(80):
            producer.send("t", b"%d" % n, queue=n % 4)

        def got(found: list[Popped]) -> None:
            for each in found:
                assert each.body not in done, "what is done comes again"
                open_[each.body] = each

        def settle() -> None:
            for body in rng.sample(sorted(open_), min(5, len(open_))):
                each = open_.pop(body)
                assert popper.ack(each) == SUCCESS
                done.add(body)

        for _ in range(6):
            got(popper.pop(rng.randint(1, 8), poll_ms=1))
            settle()
            if rng.random() < 0.5:
                popper.put(3)
                kill(broker, victim)
                if victim != "gateway":
                    got(popper.take())
            else:
                kill(broker, victim)
            if victim == "gateway":
                popper.remote.socket.close()
                popper = Popper(broker.status().listens, "g", "t")
                for each in open_.values():
                    assert popper.ack(each) == SUCCESS, "of no effect"
                open_.clear()

        def finished() -> bool:
            got(popper.pop(poll_ms=1))
            settle()
            return len(done) == 80

        until(finished, "the rest")
        assert popper.pop(poll_ms=1) == []
        popper.remote.socket.close()


def test_the_whole_tree(tmp_path: Path) -> None:
    """What was acknowledged, and answered, is done for the next broker on the store, out of order too."""
    done: set[bytes] = set()
    for life in range(3):
        with small_broker(tmp_path, listen="127.0.0.1:0") as broker:
            if not life:
                broker.create_topic("t", 4)
                send(broker, *[b"%d" % n for n in range(40)])
            with Popper(broker.status().listens, "g", "t", invisible_ms=600_000) as popper:
                for n in range(16 if life < 2 else 40 - len(done)):
                    each = one(popper)
                    assert each.body not in done, "what is done comes again"
                    if n % 2 or life == 2:
                        assert popper.ack(each) == SUCCESS
                        done.add(each.body)
                popper.put()  # held over the end
                if life == 0:  # no time to write anything down
                    kill_tree(broker)
    assert len(done) == 40


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


def test_what_is_purged_is_in_nobodys_hands(broker: orbitmq.Broker, popper: Popper) -> None:
    """Clients have as many messages as they may, and those are purged: the group gets what comes, and the gateway serves
    others. The dispatcher lets go of what is purged without a word, and so the gateway has to ask."""
    popper.invisible_ms = 3_600_000
    with broker.producer() as producer:
        for queue in range(4):
            for _ in range(LEASES_MAX // 1024):
                producer.send_batch("t", [b"x"] * 256, queue=queue)
        left = LEASES_MAX
        while left:
            left -= len(until(popper.pop, "more messages"))
        broker.purge_topic("t")
        producer.send_batch("t", [b"y"] * 64, queue=0)
        assert {one(popper).body for _ in range(64)} == {b"y"}
        assert popper.remote.ask(HEARTBEAT, b"{}").code == SUCCESS


def test_who_wants_no_answer_takes_nothing(broker: orbitmq.Broker, popper: Popper) -> None:
    """A one-way pop has no effect: nobody would get the messages."""
    until(lambda: popper.pop(poll_ms=1) == [], "the group to begin")
    popper.invisible_ms = 600_000
    fields = {"consumerGroup": "g", "topic": "t", "queueId": -1, "maxMsgNums": 32, "invisibleTime": 600_000, "pollTime": 15_000}
    popper.remote.put(POP, mark=2, **fields, exp="*", expType="TAG", order="false")
    assert popper.remote.ask(HEARTBEAT, b"{}").code == SUCCESS
    send(broker, b"first")
    assert [each.body for each in popper.pop()] == [b"first"]


def test_a_client_that_does_not_read_keeps_nothing(broker: orbitmq.Broker, popper: Popper) -> None:
    """What it has asked for goes to local workers, and the gateway sleeps, though the time of its pops is over."""
    send(broker, *[b"x" * 100_000 for _ in range(120)])
    with Popper(broker.status().listens, "g", "t", invisible_ms=600_000) as slow:
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


def test_an_acknowledgement_waits_for_the_dispatcher(broker: orbitmq.Broker, popper: Popper) -> None:
    """It is answered when it is noted, and not while the dispatcher hangs; other requests of the connection are served
    meanwhile."""
    send(broker, b"x")
    mine = one(popper)
    with stopped(broker, "dispatcher"), Popper(broker.status().listens, "g", "t") as other:
        other.put()
        first = popper.remote.put(ACK, **popper.fields(mine))
        second = popper.remote.put(HEARTBEAT, b"{}")
        assert popper.remote.take().opaque == second
    assert popper.remote.take().opaque == first
