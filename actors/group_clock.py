"""When a group goes on without waiting any longer: for a member that hangs, and for one that is to let a queue go.

A member leaves the time of its last call in its session, and goes on doing so while it waits for messages. One whose word
is older than it has allowed itself when it joined has stopped, hangs, or is busy with one batch for too long: its queues go
to the others. When it wakes, its commit raises Fenced, and it joins again. The word is a time, not a count of calls that
somebody would have to remember, so that a coordinator that dies every now and then forgets nothing.

A coordinator that was stopped itself, with the whole machine perhaps, gives everybody a moment to make a call first."""

from __future__ import annotations

import time
from collections.abc import Callable

from orbitmq.actors.events import say
from orbitmq.actors.group_registry import GroupRegistry
from orbitmq.actors.sessions import Session, Sessions

LOOK_S = 0.1  # shortest time between two looks at the members' words; ten looks in a member's time suffice
LOOK_S_MAX = 1.0
LATE_S = 0.5  # a look that comes so much later than it should: the coordinator was stopped
STEADY_S = 1.0  # what everybody is given then


class GroupClock:
    """name: of the broker, for what is said."""

    def __init__(
        self, name: str, groups: GroupRegistry, sessions: Sessions, clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._name = name
        self._groups = groups
        self._sessions = sessions
        self._clock_ns = clock_ns
        self._look_at_s = 0.0
        self._steady_at_s = 0.0  # from here on members can be late

    def wait_s(self) -> float:
        """How long the coordinator may sleep."""
        return min(LOOK_S if self._groups.moving else LOOK_S_MAX, max(0.0, self._look_at_s - self._now_s()))

    def tick(self) -> None:
        """After every turn of the coordinator's."""
        now = self._now_s()
        if now >= self._look_at_s:
            if now - self._look_at_s >= LATE_S:
                self._steady_at_s = now + STEADY_S
            shortest = self._leave_behind(now)
            self._look_at_s = now + min(LOOK_S_MAX, max(LOOK_S, shortest / 10))
        self._groups.settle()

    def _now_s(self) -> float:
        return self._clock_ns() / 1e9

    def _leave_behind(self, now: float) -> float:
        """Takes members that hang out of their groups; returns the shortest time, seconds, that a member has."""
        late: list[tuple[str, Session, int]] = []
        shortest = LOOK_S_MAX * 10
        for group in self._groups:
            for member in group.members.values():
                session = self._sessions.mapped(member.slot, member.epoch)
                if not member.poll_ms or session is None:
                    continue
                shortest = min(shortest, member.poll_ms / 1000)
                if now - session.called_ns() / 1e9 > member.poll_ms / 1000:
                    late.append((group.name, session, member.poll_ms))
        if now < self._steady_at_s:
            return shortest
        for name, session, limit_ms in late:
            say(
                self._name,
                f"the group {name!r} goes on without the consumer of process {session.process.pid}: it has made no call for "
                f"{limit_ms / 1000:g} s, its max_poll_interval",
            )
            self._groups.leave(session, name)
        return shortest
