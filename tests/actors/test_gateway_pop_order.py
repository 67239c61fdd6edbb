"""Goal: a group that pops in order gets each queue's messages in their order: a batch comes once all of the one before it is
done, or its time is over, and what comes again comes first. All this also when processes of the broker are killed.

Method: the Python client of the protocol; a model of what each queue may hand out next. Of work_queue_busy in
native/actors/dispatcher/work_queue.c, and of what native/remoting/gateway/gateway_pop.h says about order."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.client.work.settings import WorkSettings
from orbitmq.errors import GroupInUse, SettingError
from tests.actors.failing_disk import kill_tree
from tests.actors.pop_client import CHANGE, NO_MESSAGE, POP, SUCCESS, Popped, Popper, asleep, one, popped, send
from tests.actors.remoting_client import Said
from tests.actors.shared_broker import OWN_TOPIC, broker_for
from tests.cli.commands import run
from tests.trees import indexed, kill, small_broker, stopped
from tests.waiting import until

SYSTEM_ERROR, MAKE_GROUP = 1, 200
BATCH = 32
EACH = 20  # messages of each of four queues


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[orbitmq.Broker]:
    with broker_for(request, 4, listen="127.0.0.1:0") as broker:
        yield broker


@pytest.fixture
def popper(broker: orbitmq.Broker, place: tuple[str, str]) -> Iterator[Popper]:
    with in_order(broker, *place) as popper:
        yield popper


def in_order(broker: orbitmq.Broker, group: str = "g", topic: str = OWN_TOPIC, **more: object) -> Popper:
    return Popper(broker.status().listens, group, topic, order="true", **more)  # type: ignore[arg-type]


def fill(broker: orbitmq.Client, count: int, queue: int = 0, *, topic: str = OWN_TOPIC, **how: object) -> None:
    """All of it comes at once for the dispatcher."""
    with stopped(broker, "dispatcher"), broker.producer() as producer:
        producer.send_batch(topic, [b"%d" % n for n in range(count)], queue=queue, **how)  # type: ignore[arg-type]
        indexed(broker)


def offsets(found: list[Popped]) -> list[tuple[int, int]]:
    """Which, and how often they came before."""
    return [(each.offset, each.reconsumed) for each in found]


def fresh(begin: int, end: int) -> list[tuple[int, int]]:
    return [(offset, 0) for offset in range(begin, end)]


def test_one_batch_after_the_other(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    """Two clients wait for more than a batch of one queue: one of them gets the first batch, and the other one nothing, until
    all of that is done, in whatever order. Another queue goes on meanwhile. What a client does not want of a batch, and a third
    one would take, waits too, and is not counted as a delivery."""
    with in_order(broker, group, topic) as other, in_order(broker, group, topic) as third:
        for each in (popper, other):
            each.put(BATCH)
            asleep(broker)
        fill(broker, 3 * BATCH, topic=topic)
        first = popper.take()
        assert offsets(first) == fresh(0, BATCH)
        assert popper.pop(poll_ms=1) == []
        assert not other.remote.has_come
        fill(broker, 2, queue=1, topic=topic)
        beside = other.take()
        assert [each.queue for each in beside] == [1, 1] and offsets(beside) == fresh(0, 2)
        for each, most in ((other, 5), (third, BATCH)):
            each.put(most)
            asleep(broker)
        random.Random(5).shuffle(first)
        for mine in first:
            assert not other.remote.has_come, "a batch came before the one before it was done"
            assert popper.ack(mine) == SUCCESS
        found = other.take()
        assert offsets(found) == fresh(BATCH, BATCH + 5)
        for mine in found:
            assert not third.remote.has_come
            assert popper.ack(mine) == SUCCESS
        assert offsets(third.take()) == fresh(BATCH + 5, 2 * BATCH)


def test_what_comes_again_comes_first(broker: orbitmq.Broker, popper: Popper, topic: str) -> None:
    """One after the other: what was acknowledged stays done, and what was never handed out waits behind it."""
    fill(broker, 8, topic=topic)
    first = popper.pop(5)
    assert offsets(first) == fresh(0, 5)
    for each in (first[3], first[1]):
        assert popper.ack(each) == SUCCESS
    for each in (first[4], first[2]):
        assert popper.change(each, 0)[0] == SUCCESS
    assert popper.pop(poll_ms=1) == [], "the first one's time is not over"
    assert popper.change(first[0], 0)[0] == SUCCESS
    for again in (0, 2, 4):
        found = until(popper.pop, "what comes again")
        assert offsets(found) == [(again, 1)]
        assert popper.pop(poll_ms=1) == []
        assert popper.ack(first[again]) == SUCCESS, "of no effect"
        assert popper.change(first[again], 0)[0] == NO_MESSAGE
        assert popper.ack(found[0]) == SUCCESS
    assert offsets(popper.pop()) == fresh(5, 8)


def test_a_time_that_is_over(broker: orbitmq.Broker, popper: Popper, topic: str) -> None:
    """A batch that nobody acknowledges comes again in its order, as often as it takes."""
    fill(broker, 6, topic=topic)
    popper.invisible_ms = 1
    for times in range(3):

        def comes() -> Said | None:
            said = popper.remote.ask(POP, **popper.pop_fields(3))
            return said if said.code == SUCCESS else None

        said = until(comes, "the batch")
        assert offsets(popped(said)) == [(offset, times) for offset in range(3)]
        each = [f"0 qo0%{offset} {times}" for offset in range(3)] if times else []
        assert said.fields["orderCountInfo"] == ";".join([*each, f"0 0 {times}"])
    popper.invisible_ms = 60_000
    last = until(popper.pop, "the batch")
    assert offsets(last) == [(offset, 3) for offset in range(3)]


def test_a_changed_time(broker: orbitmq.Broker, popper: Popper, topic: str) -> None:
    """As with RocketMQ, the receipt stays as it was; only its invisible time is another one, from the pop on."""
    fill(broker, 2, topic=topic)
    (first,) = popper.pop(1)
    said = popper.remote.ask(CHANGE, **popper.fields(first), invisibleTime=120_000)
    moment = first.receipt.split(" ")[1]
    assert (said.code, said.fields["popTime"]) == (SUCCESS, moment)
    assert int(said.fields["invisibleTime"]) >= 120_000
    assert popper.pop(poll_ms=1) == []
    assert popper.ack(first) == SUCCESS
    assert offsets(popper.pop()) == [(1, 0)]


def test_a_pop_that_is_asked_again(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    """By whatever connection. Other attempts wait, as pops that name none do."""
    fill(broker, 8, topic=topic)
    first = popper.pop(3, attemptId="one")
    assert offsets(first) == fresh(0, 3)
    assert popper.ack(first[0]) == SUCCESS
    for attempt in ({"attemptId": "two"}, {}):
        assert popper.pop(poll_ms=1, **attempt) == []
    with in_order(broker, group, topic) as other:
        again = until(lambda: other.pop(3, attemptId="one"), "the rest of it")
        assert offsets(again) == fresh(1, 3)
    for earlier, later in zip(first[1:], again, strict=True):
        assert earlier.receipt != later.receipt
        assert popper.change(earlier, 0)[0] == NO_MESSAGE
        assert popper.ack(later) == SUCCESS
    assert offsets(until(lambda: popper.pop(3, attemptId="one"), "the next one")) == fresh(3, 6)


def test_the_last_try(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    """It becomes a dead letter, and the next one follows only then."""
    shape = json.dumps({"groupName": group, "retryMaxTimes": 2}).encode()
    assert popper.remote.ask(MAKE_GROUP, shape).code == SUCCESS
    fill(broker, 2, topic=topic)
    popper.invisible_ms = 1
    assert [offsets([one(popper)])[0] for _ in range(2)] == [(0, 0), (0, 1)]
    popper.invisible_ms = 60_000
    assert offsets([one(popper)]) == [(1, 0)]
    assert until(lambda: [letter.body for letter in broker.dead_letters(group)], "the dead letter") == [b"0"]


def test_only_some_messages(broker: orbitmq.Broker, topic: str, group: str) -> None:
    send(broker, b"a0", b"a1", b"a2", b"a3", tags="a", topic=topic)
    send(broker, *[b"b"] * 8, tags="b", topic=topic)
    send(broker, b"a4", b"a5", b"a6", b"a7", tags="a", topic=topic)
    with in_order(broker, group, topic, exp="a") as popper:
        found: dict[int, list[bytes]] = {}
        while sum(map(len, found.values())) < 8:
            for each in until(popper.pop, "more messages"):
                found.setdefault(each.queue, []).append(each.body)
                assert popper.ack(each) == SUCCESS
        assert found == {queue: [b"a%d" % queue, b"a%d" % (queue + 4)] for queue in range(4)}


def test_what_is_purged_holds_up_nothing(broker: orbitmq.Broker, popper: Popper, topic: str) -> None:
    fill(broker, 5, topic=topic)
    popper.invisible_ms = 3_600_000
    assert len(popper.pop()) == 5
    broker.purge_topic(topic)
    fill(broker, 2, topic=topic)
    assert offsets(until(popper.pop, "what came after the purge")) == fresh(5, 7)


def test_all_of_a_group_pop_in_order(broker: orbitmq.Broker, popper: Popper, topic: str, group: str) -> None:
    """Or none of it does; and local workers have no such order."""
    until(lambda: popper.pop(poll_ms=1) == [], "the group to begin")
    popper.put(poll_ms=60_000)  # so that it goes on popping
    asleep(broker)
    with Popper(broker.status().listens, group, topic) as other:
        other.put()
        said = other.remote.take()
        assert said.code == SYSTEM_ERROR and "queue_ordered" in (said.remark or "")
    for key_ordered in (False, True):
        with pytest.raises(GroupInUse, match="_ordered"):
            broker.work_session(group, [topic], key_ordered=key_ordered)


def test_what_operators_see(broker: orbitmq.Broker, popper: Popper) -> None:
    """That the group pops in order, and what waits for that."""
    fill(broker, 3)
    assert len(until(lambda: popper.pop(2), "a batch")) == 2
    popper.put(1)

    def seen() -> bool:
        return "1 message of t: an earlier message of the same queue is not done" in broker.group("g").held_up

    until(seen, "the reason why the third one waits")
    (group,) = (each for each in broker.status().groups if each.name == "g")
    assert (group.queue_ordered, group.key_ordered, group.order) == (True, False, "by queue")
    told = run("group", "describe", "g", "--name", broker.name)
    assert "1 worker, in order by queue" in told.stdout, told
    assert "in order by queue" in " ".join(run("status", "--name", broker.name).stdout.split())
    assert json.loads(run("group", "describe", "g", "--name", broker.name, "--json").stdout)["queue_ordered"]
    with Popper(broker.status().listens, "other", "t") as other:
        until(lambda: other.pop(poll_ms=1), "messages")
        assert broker.group("other").order == ""


def test_a_failure_without_a_delay_waits_in_place(
    broker: orbitmq.Broker, monkeypatch: pytest.MonkeyPatch, topic: str, group: str
) -> None:
    """No retry is made of it, for those behind it would pass it."""
    fields = WorkSettings.fields
    monkeypatch.setattr(WorkSettings, "fields", lambda settings: {**fields(settings), "queue_ordered": True})
    fill(broker, 2, topic=topic)
    with broker.work_session(group, [topic]) as worker:
        (first,) = until(lambda: worker.take(1, timeout=0.1), "the first one")
        assert first.message.offset == 0
        worker.nack(first)
        assert worker.settled(None) == []
        work = broker.group(group).queues[0].work
        assert work is not None and (work.waiting, work.leaving) == (1, 0)
        assert worker.take(1, timeout=0.2) == []


def test_one_order(broker: orbitmq.Broker, topic: str, group: str) -> None:
    """The control socket takes either order, and nothing that is none."""
    with broker.work_session(group, [topic]) as worker:
        handle = worker._handle
        assert handle is not None
        place = {"slot": handle.slot, "epoch": handle.epoch, **worker.settings.fields()}
        for wrong in ({"queue_ordered": 1}, {"queue_ordered": True, "key_ordered": True}):
            with pytest.raises(SettingError, match="queue_ordered"):
                worker._opener.ask("join_work", **{**place, **wrong})


class Model:
    """What each queue may hand out next, for clients whose time is long."""

    def __init__(self) -> None:
        self.done: dict[int, set[int]] = {queue: set() for queue in range(4)}
        self.out: dict[int, dict[int, Popped]] = {queue: {} for queue in range(4)}

    def got(self, found: list[Popped]) -> None:
        if not found:
            return
        (queue,) = {each.queue for each in found}
        assert not self.out[queue], "a batch came before the one before it was done"
        left = [offset for offset in range(EACH) if offset not in self.done[queue]]
        assert [each.offset for each in found] == left[: len(found)], "in another order, or again"
        self.out[queue] = {each.offset: each for each in found}

    def settle(self, popper: Popper, rng: random.Random) -> None:
        """Acknowledges some of it."""
        for queue, out in self.out.items():
            for offset in rng.sample(sorted(out), rng.randint(0, len(out))):
                assert popper.ack(out.pop(offset)) == SUCCESS
                self.done[queue].add(offset)

    def lost(self, popper: Popper) -> None:
        """The gateway has died: what was in hand comes again, and its receipts change nothing."""
        for out in self.out.values():
            for each in out.values():
                assert popper.ack(each) == SUCCESS, "of no effect"
            out.clear()

    def finished(self, popper: Popper, rng: random.Random) -> bool:
        self.got(popper.pop(poll_ms=1))
        self.settle(popper, rng)
        return all(len(done) == EACH for done in self.done.values())


@pytest.mark.parametrize("victim", ["gateway", "dispatcher", "coordinator", "reput"])
def test_deaths(tmp_path: Path, victim: str) -> None:
    rng, model = random.Random(victim), Model()
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker:
        broker.create_topic("t", 4)
        send(broker, *[b"%d" % n for n in range(4 * EACH)])
        popper = in_order(broker)
        for _ in range(6):
            for _ in range(4):
                model.got(popper.pop(rng.randint(1, 8), poll_ms=1))
            model.settle(popper, rng)
            popper.put(3, poll_ms=500)  # there may be nothing, if each queue has something out
            kill(broker, victim)
            if victim != "gateway":
                model.got(popper.take())
                continue
            popper.remote.socket.close()
            popper = in_order(broker)
            model.lost(popper)
        until(lambda: model.finished(popper, rng), "the rest")
        assert popper.pop(poll_ms=1) == []
        popper.remote.socket.close()


def test_the_whole_tree(tmp_path: Path) -> None:
    """The next broker on the store goes on with the first message that is not done, whatever was done behind it."""
    rng, model = random.Random(3), Model()
    for life in range(4):
        with small_broker(tmp_path, listen="127.0.0.1:0") as broker:
            if not life:
                broker.create_topic("t", 4)
                send(broker, *[b"%d" % n for n in range(4 * EACH)])
            with in_order(broker) as popper:
                for _ in range(3):
                    for _ in range(4):
                        model.got(popper.pop(rng.randint(1, 8), poll_ms=1))
                    model.settle(popper, rng)
                if life == 3:
                    until(lambda: model.finished(popper, rng), "the rest")
                elif rng.randrange(2):
                    kill_tree(broker)
        model.out = {queue: {} for queue in range(4)}
