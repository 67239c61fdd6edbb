"""Goal: a rebalance delivers no message twice if that can be avoided, and loses none: a queue that stays continues, a queue
that goes waits for its commit, and if its member is late it goes without. Method: real consumers over the real registry of
groups, whose clock the tests move."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client.aio.consumer import AsyncConsumer
from orbitmq.client.consumer.consumer import Consumer
from orbitmq.errors import Fenced, OffsetOutOfRange, SettingError, UnknownQueue, UsageError
from tests.client.registry_broker import SECOND_NS, RegistryBroker

QUEUES = 4
EACH = 6


@pytest.fixture
def broker(tmp_path: Path) -> RegistryBroker:
    made = RegistryBroker(tmp_path / "store")
    slot = made.add_topic("t", QUEUES)
    for number in range(EACH):
        for queue in range(QUEUES):
            made.append("t", slot + queue, b"%d.%d" % (queue, number))
    made.publish()
    return made


ALL = sorted(b"%d.%d" % (queue, number) for queue in range(QUEUES) for number in range(EACH))


def some(consumer: Consumer, most: int) -> list[bytes]:
    return consumer.poll_bodies(most, 0)


def drain(*consumers: Consumer) -> list[bytes]:
    """Everything that they get, committing as they go, until nobody gets anything."""
    got: list[bytes] = []
    while found := [body for consumer in consumers for body in some(consumer, 5)]:
        got += found
        for consumer in consumers:
            consumer.commit()
    return got


class Told:
    """Callbacks that write down what they are told."""

    def __init__(self, commit: bool = True) -> None:
        self.log: list[tuple[str, list[int]]] = []
        self._commit = commit

    def fields(self) -> dict[str, Any]:
        return {"on_assigned": self.assigned, "on_revoked": self.revoked, "on_lost": self.lost}

    def assigned(self, consumer: Consumer, queues: list[tuple[str, int]]) -> None:
        self.log.append(("assigned", [queue for _, queue in queues]))

    def revoked(self, consumer: Consumer, queues: list[tuple[str, int]]) -> None:
        self.log.append(("revoked", [queue for _, queue in queues]))
        if self._commit:
            consumer.commit()

    def lost(self, consumer: Consumer, queues: list[tuple[str, int]]) -> None:
        self.log.append(("lost", [queue for _, queue in queues]))


def test_nothing_is_repeated_when_a_member_comes(broker: RegistryBroker) -> None:
    """The first member has messages that are not committed. The queue that stays continues; the one that goes waits for the
    commit."""
    first = Consumer(broker, "g", ["t"])
    got = some(first, 10)
    second = Consumer(broker, "g", ["t"])
    assert second.assignment == []
    assert some(second, 10) == []
    got += some(first, 2)
    assert first.assignment == [("t", 0), ("t", 1)], "two are about to go"
    assert second.assignment == [], "and are not there yet"
    first.commit()
    got += drain(first, second)
    assert (first.assignment, second.assignment) == ([("t", 0), ("t", 1)], [("t", 2), ("t", 3)])
    assert sorted(got) == ALL


def test_a_queue_without_open_messages_goes_at_once(broker: RegistryBroker) -> None:
    first = Consumer(broker, "g", ["t"])
    second = Consumer(broker, "g", ["t"])
    first.settle()
    second.settle()
    assert len(second.assignment) == 2


def test_who_commits_too_late_is_fenced(broker: RegistryBroker) -> None:
    """Only what went is repeated, and only it is named."""
    first = Consumer(broker, "g", ["t"], revoke_timeout=3.0, max_poll_interval=None)
    got = some(first, 24)
    second = Consumer(broker, "g", ["t"])
    first.settle()
    broker.pass_time(2.0)
    assert second.settle() is None and second.assignment == []
    broker.pass_time(1.1)
    second.settle()
    assert second.assignment == [("t", 2), ("t", 3)]
    with pytest.raises(Fenced) as caught:
        first.commit()
    assert caught.value.queues == [("t", 2), ("t", 3)]
    again = drain(first, second)
    assert sorted(again) == [body for body in ALL if body[:1] in b"23"]
    assert sorted(got) == ALL


def test_no_time_to_let_go(broker: RegistryBroker) -> None:
    """revoke_timeout=0: the queue goes at once, commits or not."""
    first = Consumer(broker, "g", ["t"], revoke_timeout=0)
    some(first, 24)
    second = Consumer(broker, "g", ["t"])
    assert second.assignment == [("t", 2), ("t", 3)]
    with pytest.raises(Fenced):
        first.commit()


def test_callbacks(broker: RegistryBroker) -> None:
    """In order: what came, what is to go and can be committed, what has gone."""
    told, other = Told(), Told()
    first = Consumer(broker, "g", ["t"], **told.fields())
    assert told.log == []
    got = some(first, 24)
    assert told.log == [("assigned", [0, 1, 2, 3])]
    second = Consumer(broker, "g", ["t"], **other.fields())
    first.settle()
    assert told.log[1:] == [("revoked", [2, 3])]
    assert some(second, 10) == []
    assert other.log == [("assigned", [2, 3])]
    assert second.committed() == {("t", 2): EACH, ("t", 3): EACH}
    assert sorted(got) == ALL
    second.close()
    assert other.log[1:] == [("revoked", [2, 3])]
    broker.client_gone(1)
    first.settle()
    assert told.log[2:] == [("assigned", [2, 3])]
    first.close()
    assert told.log[3:] == [("revoked", [0, 1, 2, 3])]


def test_a_callback_that_does_not_commit_lets_the_queue_go(broker: RegistryBroker) -> None:
    told = Told(commit=False)
    first = Consumer(broker, "g", ["t"], **told.fields())
    some(first, 24)
    second = Consumer(broker, "g", ["t"])
    first.settle()
    assert sorted(drain(second)) == [body for body in ALL if body[:1] in b"23"]
    with pytest.raises(Fenced, match="'t' 2, 't' 3"):
        first.commit()


def test_a_callback_that_raises_ends_the_call_only(broker: RegistryBroker) -> None:
    def revoked(consumer: Consumer, queues: object) -> None:
        raise RuntimeError("mine")

    first = Consumer(broker, "g", ["t"], on_revoked=revoked)
    some(first, 3)
    second = Consumer(broker, "g", ["t"])
    with pytest.raises(RuntimeError, match="mine"):
        first.poll(0)
    second.settle()
    assert len(second.assignment) == 2
    assert first.poll(0) is not None


def test_what_a_callback_may_do(broker: RegistryBroker) -> None:
    """Positions, seeks, pauses and commits; not polls."""
    seen: list[object] = []

    def assigned(consumer: Consumer, queues: list[tuple[str, int]]) -> None:
        for topic, queue in queues:
            consumer.seek(topic, queue, EACH - 1)
        consumer.pause([("t", 3)])
        seen.append(consumer.position())
        seen.append((consumer.lag(), consumer.committed()))
        for call in (consumer.poll, consumer.poll_batch, consumer.wait):
            with pytest.raises(UsageError, match="in a callback"):
                call()

    first = Consumer(broker, "g", ["t"], on_assigned=assigned)
    assert sorted(some(first, 24)) == [b"0.5", b"1.5", b"2.5"]
    assert seen[0] == {("t", queue): EACH - 1 for queue in range(QUEUES)}


def test_a_member_that_makes_no_call_loses_its_queues(broker: RegistryBroker) -> None:
    """It is fenced when it continues, is told, and joins again. A member that calls, or has no limit, stays."""
    told = Told()
    patient = Consumer(broker, "g", ["t"], max_poll_interval=None)
    sleepy = Consumer(broker, "g", ["t"], max_poll_interval=10.0, **told.fields())
    patient.settle()
    sleepy.settle()
    assert len(some(sleepy, 12)) == 12
    broker.pass_time(9.0)
    broker.called(1)
    broker.pass_time(9.0)
    patient.settle()
    assert len(patient.assignment) == 2
    broker.pass_time(2.2)  # members are checked once a second
    patient.settle()
    assert len(patient.assignment) == 4
    assert len(drain(patient)) == 24
    with pytest.raises(Fenced):
        sleepy.commit()
    assert told.log == [("assigned", [2, 3])], "the rest at the next poll"
    patient.settle()
    sleepy.settle()
    assert told.log[1] == ("lost", [2, 3])
    sleepy.settle()
    assert len(sleepy.assignment) == 2 and told.log[2][0] == "assigned"
    assert drain(patient, sleepy) == []


def test_a_stopped_coordinator_blames_nobody(broker: RegistryBroker) -> None:
    """A coordinator that could not look for a while gives everybody a moment to make a call first, and not longer."""
    Consumer(broker, "g", ["t"], max_poll_interval=1.0)
    broker.pass_time(0.5)
    broker.clock_ns += 100 * SECOND_NS
    broker.tick()
    broker.pass_time(0.9)
    assert owners(broker) == {"0.1"}
    broker.pass_time(0.3)
    assert owners(broker) == set()


def owners(broker: RegistryBroker) -> set[str]:
    return {owner for group in broker.registry for owner in group.owners().values()}


def test_the_coordinator_dies_in_between(broker: RegistryBroker) -> None:
    """At any moment of a hand-over its successor continues: what was released and not handed over goes when its time is over;
    the member that has it keeps it, and commits, until then."""
    first = Consumer(broker, "g", ["t"])
    got = some(first, 10)
    second = Consumer(broker, "g", ["t"])
    broker.start_coordinator()
    first.settle()
    first.commit()
    broker.start_coordinator()
    got += drain(first, second)
    assert sorted(got) == ALL
    assert len(second.assignment) == 2
    third = Consumer(broker, "g", ["t"], revoke_timeout=1.0)
    broker.start_coordinator()
    broker.pass_time(6.0)
    for consumer in (first, second, third):
        consumer.settle()
    assert sorted(key for consumer in (first, second, third) for key in consumer.assignment) == [("t", q) for q in range(4)]
    assert drain(first, second, third) == []


def test_a_queue_that_was_to_go_and_stays(broker: RegistryBroker) -> None:
    """The newcomer dies before the queue was released: nothing happens to the queue. After: it comes back with its commit."""
    first = Consumer(broker, "g", ["t"])
    got = some(first, 10)
    Consumer(broker, "g", ["t"])
    got += some(first, 2)
    broker.client_gone(1)
    got += drain(first)
    assert sorted(got) == ALL
    told = Told()
    third = Consumer(broker, "g", ["t"], **told.fields())
    first.settle()
    broker.client_gone(2)
    first.settle()
    assert len(first.assignment) == 4
    assert drain(first) == []
    assert third.closed is False


def test_pause_and_unpause(broker: RegistryBroker) -> None:
    consumer = Consumer(broker, "g", ["t"], batch=24)
    first = consumer.poll(0)
    assert first is not None
    consumer.pause([("t", 1), ("t", 2)])
    assert consumer.paused == [("t", 1), ("t", 2)]
    got = [bytes(first), *drain(consumer)]
    assert sorted({body[:1] for body in got} - {bytes(first)[:1]}) == sorted({b"0", b"3"} - {bytes(first)[:1]})
    assert consumer.wait(0) is False
    with pytest.raises(UnknownQueue, match="could not pause queue 9 of 't'"):
        consumer.pause([("t", 0), ("t", 9)])
    assert consumer.paused == [("t", 1), ("t", 2)]
    other = Consumer(broker, "g", ["t"])
    consumer.settle()
    assert consumer.paused == [("t", 1)], "a queue that stays stays paused"
    broker.client_gone(other._handle.slot if other._handle else -1)
    consumer.unpause()
    assert consumer.paused == []
    assert sorted(got + drain(consumer)) == ALL


def test_commit_of_offsets(broker: RegistryBroker) -> None:
    consumer = Consumer(broker, "g", ["t"])
    some(consumer, 24)
    consumer.commit({("t", 1): 4, ("t", 2): EACH})
    assert consumer.committed() == {("t", 0): 0, ("t", 1): 4, ("t", 2): EACH, ("t", 3): 0}
    consumer.commit({})
    with pytest.raises(UnknownQueue, match="could not commit an offset of queue 9 of 't'"):
        consumer.commit({("t", 0): 1, ("t", 9): 1})
    for wrong in (-1, EACH + 1):
        with pytest.raises(OffsetOutOfRange) as caught:
            consumer.commit({("t", 0): 1, ("t", 3): wrong})
        assert (caught.value.minimum, caught.value.maximum) == (0, EACH)
    assert consumer.committed()["t", 0] == 0, "all or nothing"


def test_offsets_of_a_queue_that_went(broker: RegistryBroker) -> None:
    """The error names it, and the others are stored."""
    consumer = Consumer(broker, "g", ["t"], revoke_timeout=0)
    some(consumer, 24)
    Consumer(broker, "g", ["t"], revoke_timeout=0)
    with pytest.raises(Fenced) as caught:
        consumer.commit({("t", 0): 3, ("t", 3): 3})
    assert caught.value.queues == [("t", 3)]
    assert consumer.committed() == {("t", 0): 3, ("t", 1): 0}
    with pytest.raises(Fenced) as caught:
        consumer.commit()
    assert caught.value.queues == [("t", 2)]


def test_settings_that_cannot_be(broker: RegistryBroker) -> None:
    for settings in ({"max_poll_interval": 0.5}, {"max_poll_interval": float("nan")}, {"revoke_timeout": -1.0}):
        with pytest.raises(SettingError, match="lies outside"):
            Consumer(broker, "g", ["t"], **settings)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="without a group"):
        Consumer(broker, None, ["t"], on_revoked=lambda consumer, queues: None)


def test_asyncio(broker: RegistryBroker) -> None:
    """Callbacks run in the event loop, may be awaited and may await the consumer; plain functions do as well."""
    log: list[tuple[str, object]] = []

    async def revoked(consumer: AsyncConsumer, queues: list[tuple[str, int]]) -> None:
        log.append(("revoked", queues))
        await asyncio.sleep(0)
        await consumer.commit()
        with pytest.raises(UsageError, match="in a callback"):
            await consumer.poll()

    def assigned(consumer: AsyncConsumer, queues: list[tuple[str, int]]) -> None:
        log.append(("assigned", len(queues)))

    async def work() -> None:
        first = AsyncConsumer(Consumer(broker, "g", ["t"], on_assigned=assigned, on_revoked=revoked))
        assert len(await first.poll_bodies(24, 0)) == 24
        second = AsyncConsumer(Consumer(broker, "g", ["t"], on_revoked=revoked))
        assert await first.poll(0) is None
        assert log == [("assigned", 4), ("revoked", [("t", 2), ("t", 3)])]
        assert await second.poll(0) is None
        assert await second.committed() == {("t", 2): EACH, ("t", 3): EACH}
        await second.pause([("t", 2)])
        assert second.paused == [("t", 2)]
        await second.unpause()
        await second.commit({("t", 2): 0})
        await first.settle()
        await second.close()
        assert log[2:] == [("revoked", [("t", 2), ("t", 3)])]
        await first.close()

    asyncio.run(work())
