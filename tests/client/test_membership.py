"""Goal: whatever a group does with a member's queues, the program is told of each queue that comes and goes, once and in order,
and each message that it got and cannot commit is named once. Method: a coordinator and cursors that the test controls
(own_cursors.py); hypothesis moves queues, messages and commits."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.client.consumer.assignment import Assignment
from orbitmq.client.consumer.listener import Listener
from orbitmq.client.consumer.membership import Membership, join_settings
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.errors import BrokerBroken, Fenced, OffsetOutOfRange, SettingError, UnknownQueue
from orbitmq.shm.topic_table import QueueKey
from tests.client.own_cursors import OwnHold, OwnReader

KEYS: list[QueueKey] = [("t", 0), ("t", 1), ("u", 0)]


def nobody(consumer: Any, queues: Any) -> None:
    pass


class Group:
    """The coordinator's side: queues with the epoch since which the member has each, those that are to leave, and the group's
    offsets. asked: what the member has asked."""

    name, timeout = "group", 30.0

    def __init__(self) -> None:
        self.queues: dict[QueueKey, int] = {}
        self.leaving: set[QueueKey] = set()
        self.offsets: dict[QueueKey, int] = {}
        self.epoch = 1
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.forgotten = self.broken = False

    def answer(self) -> dict[str, Any]:
        held = sorted(self.queues)
        return {
            "group": 0,
            "epoch": self.epoch,
            "queues": [[*key, KEYS.index(key), self.offsets.get(key, 0)] for key in held],
            "since": [self.queues[key] for key in held],
            "leaving": [number for number, key in enumerate(held) if key in self.leaving],
        }

    def ask(self, operation: str, **fields: Any) -> Any:
        self.asked.append((operation, fields))
        if self.broken:
            raise BrokerBroken("the coordinator failed")
        if operation == "assignment" and self.forgotten:
            raise Fenced("no member")
        if operation == "committed":
            return [[*key, offset] for key, offset in self.offsets.items()]
        return self.answer()

    def caught_up(self, doing: str) -> None:
        pass

    def ask_for_file(self, operation: str, **fields: Any) -> tuple[Any, int]:
        descriptor = os.memfd_create("words")
        os.ftruncate(descriptor, 4096)
        self.forgotten = False
        return self.ask(operation, **fields), descriptor

    def give(self, *keys: QueueKey) -> None:
        """The member has these now; those that it did not have are new to it."""
        self.epoch += 1
        self.queues = {key: self.queues.get(key, self.epoch) for key in keys}
        self.leaving &= set(keys)

    def released(self) -> list[list[Any]]:
        return [queue for operation, fields in self.asked if operation == "release_queues" for queue in fields["released"]]


class Member:
    """The library's side, on cursors of lists."""

    def __init__(self, group: Group, **callbacks: Any) -> None:
        asked = ConsumerSettings("g", max_poll_interval=None, revoke_timeout=30.0)
        settings = join_settings(asked, ["t", "u"], listener := Listener(**callbacks))
        assert settings is not None
        self.group = group
        self.reader, self.hold = OwnReader(), OwnHold()
        self.assignment = Assignment(self.reader, self.hold)  # type: ignore[arg-type]
        self.membership = Membership(group, "g", settings, listener)  # type: ignore[arg-type]
        self.told: list[tuple[str, list[QueueKey]]] = []
        self.enter()

    def enter(self) -> None:
        handle: Any = type("Handle", (), {"generation": 1, "slot": 0, "epoch": 1})()
        self.membership.enter(handle, self.assignment)

    def deliver(self, *keys: QueueKey) -> None:
        for key in keys:
            self.reader.at[self.assignment.index[key]] += 1

    def hear(self) -> None:
        """Runs the program's callbacks."""
        while self.membership.pending:
            event = self.membership.next_event()
            assert event is not None and event.queues
            self.told.append((event.kind, event.queues))
            self.membership.done(event)

    def lost_by_commit(self, offsets: dict[QueueKey, int] | None = None) -> list[QueueKey]:
        try:
            assert self.membership.commit(offsets)
        except Fenced as error:
            assert error.queues
            return list(error.queues)
        return []


@pytest.fixture
def group() -> Group:
    made = Group()
    made.give(("t", 0), ("t", 1))
    return made


ALL = {"on_assigned": nobody, "on_revoked": nobody, "on_lost": nobody}


def test_it_joins_and_goes_on_where_the_group_is(group: Group) -> None:
    group.offsets = {("t", 1): 7}
    member = Member(group, **ALL)
    member.hear()
    assert member.told == [("assigned", [("t", 0), ("t", 1)])]
    assert member.assignment.positions() == {("t", 0): 0, ("t", 1): 7}
    assert group.asked[0][1]["topics"] == ["t", "u"] and member.hold.epoch == group.epoch


def test_what_stays_goes_on_where_it_was(group: Group) -> None:
    """And what comes back after another member had it, where the group is: its messages can no longer be committed."""
    member = Member(group, **ALL)
    member.deliver(("t", 0), ("t", 1))
    group.give(("t", 0))
    group.give(("t", 0), ("t", 1))
    member.membership.rebalance()
    assert member.assignment.positions() == {("t", 0): 1, ("t", 1): 0}
    assert member.lost_by_commit() == [("t", 1)] and member.hold.committed == [1, 0]
    assert member.lost_by_commit() == [], "once"


def test_a_member_that_the_group_forgot_joins_again(group: Group) -> None:
    member = Member(group, **ALL)
    group.forgotten = True
    member.membership.rebalance()
    assert [operation for operation, _ in group.asked] == ["join_group", "assignment", "join_group"]


@pytest.mark.parametrize("hears", [True, False])
def test_a_queue_that_is_to_go(group: Group, hears: bool) -> None:
    """With a callback it goes when that has returned; without, once its messages are committed."""
    member = Member(group, **(ALL if hears else {}))
    member.hear()
    member.deliver(("t", 1))
    group.leaving = {("t", 1)}
    member.membership.rebalance()
    assert member.hold.announced == [0] and not group.released(), "it is read no more"
    if hears:
        member.hear()
        assert member.told[-1] == ("revoked", [("t", 1)])
    else:
        assert member.lost_by_commit() == []
    assert group.released() == [["t", 1, group.queues["t", 1]]]
    member.membership.rebalance()
    assert len(group.released()) == 1, "once"


def test_a_queue_that_stays_after_all(group: Group) -> None:
    """The program was told that it goes, so it is told that it comes."""
    member = Member(group, **ALL)
    member.hear()
    group.leaving = {("t", 1)}
    member.membership.rebalance()
    member.hear()
    group.leaving = set()
    member.membership.rebalance()
    member.hear()
    assert member.told[1:] == [("revoked", [("t", 1)]), ("assigned", [("t", 1)])]
    assert member.hold.announced == [0, 1]


def test_a_coordinator_that_does_not_answer(group: Group) -> None:
    """What cannot be released now is asked for again with the next chance."""
    member = Member(group)
    group.leaving, group.broken = {("t", 1)}, False
    member.membership.part()
    group.broken = True
    assert member.lost_by_commit() == [] and not member.assignment.places[1].released
    group.broken = False
    assert member.lost_by_commit() == [] and all(place.released for place in member.assignment.places)


def test_a_commit_while_the_epoch_moves(group: Group) -> None:
    """The rebalance is taken first; what the member still has is committed then."""
    member = Member(group, **ALL)
    member.deliver(("t", 0), ("t", 1))
    member.hold.moved = 1
    group.give(("t", 0), ("u", 0))
    assert member.lost_by_commit() == [("t", 1)]
    assert member.hold.committed == [1, 0] and member.membership.rebalances == 1


def test_a_commit_of_offsets(group: Group) -> None:
    member = Member(group, **ALL)
    for offsets, kind in (({("x", 0): 1}, UnknownQueue), ({("t", 0): 1001}, OffsetOutOfRange)):
        with pytest.raises(kind):
            member.membership.commit(offsets)
    assert member.hold.committed == []
    assert member.lost_by_commit({("t", 1): 9}) == []
    assert member.assignment.places[1].mark == 9 and member.assignment.places[0].mark == 0
    member.deliver(("t", 0))
    member.membership.lose(told=False, silent=True)
    assert member.lost_by_commit({("t", 0): 1}) == [("t", 0)], "its session delivered it, and is gone"


@pytest.mark.parametrize("which", ["is_gone", "is_closed"])
def test_a_commit_after_the_brokers_end(group: Group, which: str) -> None:
    member = Member(group, **ALL)
    setattr(member.hold, which, True)
    assert not member.membership.commit(None)


def test_committed(group: Group) -> None:
    group.offsets = {("t", 0): 3, ("u", 0): 4}
    assert Member(group).membership.committed() == {("t", 0): 3}


@pytest.mark.parametrize(
    ("poll", "revoke", "why"),
    [
        (0.5, 1.0, "max_poll_interval"),
        (1e10, 1.0, "max_poll_interval"),
        (5.0, -1.0, "revoke_timeout"),
        (float("nan"), 1.0, "max_poll_interval"),
    ],
)
def test_times_that_cannot_be(poll: float, revoke: float, why: str) -> None:
    with pytest.raises(SettingError, match=why):
        join_settings(ConsumerSettings("g", max_poll_interval=poll, revoke_timeout=revoke), ["t"], Listener())


def test_without_a_group() -> None:
    assert join_settings(ConsumerSettings(), ["t"], Listener()) is None
    with pytest.raises(SettingError, match="a consumer without a group keeps its queues"):
        join_settings(ConsumerSettings(), ["t"], Listener(on_lost=nobody))


QUEUES = st.sets(st.sampled_from(KEYS))
STEPS = st.one_of(
    st.tuples(st.just("give"), QUEUES),
    st.tuples(st.just("leave"), QUEUES),
    st.tuples(st.just("deliver"), QUEUES),
    st.tuples(st.just("hear"), st.just(set[QueueKey]())),
    st.tuples(st.just("commit"), st.just(set[QueueKey]())),
    st.tuples(st.just("new session"), QUEUES),
)


def taken(told: Iterable[tuple[str, list[QueueKey]]]) -> set[QueueKey]:
    """The queues that the program has, by what it was told; each comes before it goes, and goes before it comes again."""
    has: set[QueueKey] = set()
    for kind, queues in told:
        if kind == "assigned":
            assert not has & set(queues), "told twice that it has come"
            has |= set(queues)
        else:
            assert set(queues) <= has, "told that something goes which it does not have"
            has -= set(queues)
    return has


@settings(max_examples=200)
@given(st.lists(STEPS, max_size=20))
def test_the_program_knows_what_it_has(steps: list[tuple[str, set[QueueKey]]]) -> None:
    group = Group()
    member = Member(group, **ALL)
    owed: set[tuple[QueueKey, int]] = set()  # of messages delivered and not committed: queue, and since when it was held
    for step, queues in steps:
        if step == "give":
            group.give(*queues)
            member.membership.rebalance()
        elif step == "leave":
            group.leaving = queues & set(group.queues)
            member.membership.rebalance()
        elif step == "deliver":
            reads = [place.key for place in member.assignment.places if not place.idle and place.key in queues]
            member.deliver(*reads)
            owed |= {(key, group.queues[key]) for key in reads}
        elif step == "hear":
            member.hear()
        elif step == "commit":
            gone = {key for key, since in owed if group.queues.get(key) != since}
            lost = set(member.lost_by_commit())
            assert lost == gone, "each message that cannot be committed, and no other"
            owed = set()
        else:
            member.membership.lose(told=False, silent=False)
            member.reader.clear()
            member.assignment.places, member.assignment.index = [], {}
            group.queues, group.leaving = {}, set()
            group.give(*queues)
            member.enter()
        assert [place.slot for place in member.assignment.places] == member.reader.slots
        assert member.assignment.keys == sorted(group.queues)
    member.hear()
    assert taken(member.told) == {key for key in group.queues if key not in group.leaving}
