"""Goal: a group continues without a member that hangs, and keeps all others: a member that is nearly too slow, and all of them
if the coordinator itself was stopped. Method: groups, sessions and a clock that the test controls."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.actors.groups.group_clock import LATE_S, LOOK_S, LOOK_S_MAX, STEADY_S, GroupClock
from orbitmq.actors.groups.groups import Group, Member


class World:
    """called: when each member made its last call, seconds."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.moving = False
        self.called: dict[str, float] = {}
        self.group = Group("g", 0)
        self.settled = 0
        world: Any = self
        self.clock = GroupClock(world, world, lambda: int(self.now * 1e9))

    def __iter__(self) -> Any:
        return iter([self.group])

    def add(self, slot: int, poll_s: float) -> None:
        name = f"{slot}.1"
        self.group.members[name] = Member(name, slot, 1, 40 + slot, ("t",), "earliest", 8, int(poll_s * 1000))
        self.called[name] = self.now

    def mapped(self, slot: int, epoch: int) -> Any:
        name = f"{slot}.{epoch}"
        if name not in self.called:
            return None
        process = SimpleNamespace(pid=40 + slot)
        return SimpleNamespace(key=name, process=process, called_ns=lambda: int(self.called[name] * 1e9))

    def leave(self, session: Any, name: str) -> None:
        assert name == "g"
        del self.group.members[session.key]

    def settle(self) -> None:
        self.settled += 1

    def passes(self, seconds: float, *calling: int) -> None:
        """Time passes as it does for a coordinator that runs; these members make calls meanwhile."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + self.clock.wait_s() + 0.001)
            for slot in calling:
                self.called[f"{slot}.1"] = self.now
            self.clock.tick()

    @property
    def members(self) -> list[int]:
        return [member.slot for member in self.group.members.values()]


@pytest.fixture
def world() -> World:
    made = World()
    made.clock.tick()  # of its own beginning
    made.passes(STEADY_S + 1)
    return made


def test_a_member_that_hangs(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.add(1, 5)
    world.add(2, 5)
    world.passes(4.9, 2)
    assert world.members == [1, 2]
    world.passes(1.0, 2)
    assert world.members == [2]
    assert "the group 'g' goes on without the consumer of process 41: it has made no call for 5 s" in caplog.text


def test_a_member_that_may_take_its_time(world: World) -> None:
    world.add(1, 0)
    world.add(2, 3600)
    world.passes(60)
    assert world.members == [1, 2]


def test_a_session_that_is_gone(world: World) -> None:
    """Its end is on its way by itself."""
    world.add(1, 1)
    del world.called["1.1"]
    world.passes(10)
    assert world.members == [1]


def test_the_coordinator_was_stopped(world: World) -> None:
    """With the whole machine, perhaps: every member gets a moment to make a call; one that makes none then hangs."""
    world.add(1, 5)
    world.add(2, 5)
    world.now += 100
    world.clock.tick()
    assert world.members == [1, 2]
    world.passes(STEADY_S / 2, 2)
    assert world.members == [1, 2]
    world.passes(STEADY_S + LOOK_S_MAX, 2)
    assert world.members == [2]


def test_a_coordinator_that_is_a_little_late(world: World) -> None:
    world.add(1, 5)
    world.passes(5.5)
    assert world.members == []
    world.add(2, 5)
    world.passes(4.9)
    world.now += LATE_S / 2
    world.clock.tick()
    world.passes(LOOK_S_MAX)
    assert world.members == []


def test_how_often_it_looks(world: World) -> None:
    """Ten times in the shortest time that a member has, within limits; and soon while queues are on their way."""
    for poll_s, wait_s in ((0, LOOK_S_MAX), (3600, LOOK_S_MAX), (5, 0.5), (1, LOOK_S), (0.2, LOOK_S)):
        world.group.members.clear()
        world.add(1, poll_s)
        world.passes(2, 1)
        world.now += world.clock.wait_s()
        world.clock.tick()
        assert world.clock.wait_s() == pytest.approx(wait_s, abs=0.01)
    world.moving, before = True, world.settled
    assert world.clock.wait_s() <= LOOK_S
    world.clock.tick()
    assert world.settled == before + 1, "queues are handed over with every turn"
