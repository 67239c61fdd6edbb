"""Goal: whichever members come and go, a group's queues are a partition, fairly shared, and move as little as possible. Method:
hypothesis plays joins and leaves against the strategy."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.actors.groups.assignment import assign
from orbitmq.actors.groups.groups import Group, Member

MEMBERS = [f"{slot}.1" for slot in range(5)]


@given(st.integers(0, 40), st.lists(st.sampled_from(MEMBERS), max_size=20))
def test_partition_and_fairness(queues: int, turns: list[str]) -> None:
    """Each turn lets a member join, or leave if it is there. Every queue has one owner; shares differ by at most one."""
    present: list[str] = []
    before: dict[int, str] = {}
    for turn in turns:
        joins = turn not in present
        if joins:
            present.append(turn)
        else:
            present.remove(turn)
        result = assign(queues, present, before, {})
        after = {queue: member for member, taken in result.items() for queue in taken}
        if not present:
            assert after == {}
        else:
            assert sorted(queue for taken in result.values() for queue in taken) == list(range(queues))
            sizes = [len(taken) for taken in result.values()]
            assert max(sizes) - min(sizes) <= 1
            stayed = [queue for queue, owner in before.items() if owner in present and (after[queue] == owner)]
            movable = [queue for queue, owner in before.items() if owner in present]
            if joins and len(present) > 1:
                # Only what the newcomer got has moved.
                assert len(movable) - len(stayed) == len(result[turn])
            else:
                assert stayed == movable
        before = after


def test_odd_queues_go_to_who_has_least_elsewhere() -> None:
    """Three topics of one queue and three members: one each, where RocketMQ would give the first member all."""
    group = Group("g", 0)
    for slot in range(3):
        group.members[f"{slot}.1"] = Member(f"{slot}.1", slot, 1, 1, ("a", "b", "c"), "earliest", 100)
    group.assign({"a": 1, "b": 1, "c": 1})
    assert sorted(len(queues) for queues in group.assigned.values()) == [1, 1, 1]


def test_members_get_only_what_they_subscribe() -> None:
    group = Group("g", 0)
    group.members["0.1"] = Member("0.1", 0, 1, 1, ("a",), "earliest", 100)
    group.members["1.1"] = Member("1.1", 1, 1, 1, ("a", "b"), "earliest", 100)
    group.assign({"a": 2, "b": 3})
    assert {topic for topic, _ in group.assigned["0.1"]} == {"a"}
    assert sum(topic == "b" for topic, _ in group.assigned["1.1"]) == 3
    assert sum(topic == "a" for topic, _ in group.assigned["1.1"]) == 1


def test_packed_group_comes_back() -> None:
    group = Group("g", 3, 7)
    group.members["0.1"] = Member("0.1", 0, 1, 99, ("a",), "latest", 100)
    group.assign({"a": 2})
    assert Group.unpacked("g", group.packed()) == group
