"""Decides when a group no longer waits: for a member that hangs, and for a member that is to release a queue.

A member writes the time of its last call into its session, and renews it while it waits for messages. If the word is older than
the member allowed when it joined, the member has stopped, hangs, or spends too long on one batch. Its queues then go to the
others. When it continues, its commit raises Fenced, and it joins again. The word is a time and not a count of calls, which
somebody would have to remember; so a coordinator that dies now and then forgets nothing.

If the coordinator itself was stopped, perhaps with the whole machine, it gives every member a moment to make a call first."""

from __future__ import annotations

import time
from collections.abc import Callable

from orbitmq.actors import events
from orbitmq.actors.groups.group_registry import GroupRegistry
from orbitmq.actors.sessions.sessions import Session, Sessions

LOOK_S = 0.1  # shortest time between two looks at the members' words; ten looks in a member's time are enough
LOOK_S_MAX = 1.0
LATE_S = 0.5  # if a look comes so much later than it should, the coordinator was stopped
STEADY_S = 1.0  # how long every member is then given


class GroupClock:
    def __init__(self, groups: GroupRegistry, sessions: Sessions, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._groups = groups
        self._sessions = sessions
        self._clock_ns = clock_ns
        self._look_at_s = 0.0
        self._steady_at_s = 0.0  # members can be late from this moment on

    def wait_s(self) -> float:
        """How long the coordinator may sleep."""
        return min(LOOK_S if self._groups.moving else LOOK_S_MAX, max(0.0, self._look_at_s - self._now_s()))

    def tick(self) -> None:
        """Called after every turn of the coordinator's."""
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
        """Removes members that hang from their groups. Returns the shortest time, in seconds, that any member has."""
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
            events.warn(
                f"the group {name!r} goes on without the consumer of process {session.process.pid}: it has made no call for "
                f"{limit_ms / 1000:g} s, its max_poll_interval",
                group=name,
                process=session.process.pid,
            )
            self._groups.leave(session, name)
        return shortest
