"""A broker's health in one line that a script can use."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orbitmq.client.admin.status import ActorStatus, Status

OK, DEGRADED, REFUSING, STOPPED = "ok", "degraded", "refusing", "stopped"
# A running process looks up at least every second. The largest single piece of work, a sync of a slow disk, takes seconds.
SILENT_MS = 30_000


@dataclass(frozen=True, slots=True)
class Health:
    """state: OK; DEGRADED: it takes messages, but something is wrong; REFUSING: it refuses sends; STOPPED: no broker runs.

    running: the broker neither starts nor stops. silent: the processes that have shown no sign of life for SILENT_MS."""

    state: str
    reasons: tuple[str, ...] = ()
    running: bool = True
    silent: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether it takes messages now. It may not while a process hangs, such as the writer."""
        return self.running and not self.silent and self.state in (OK, DEGRADED)

    @property
    def live(self) -> bool:
        """Whether every process of it goes on, so that a restart would not help. A full disk is no reason for one."""
        return self.state != STOPPED and not self.silent

    def __str__(self) -> str:
        return f"{self.state}: {'; '.join(self.reasons)}" if self.reasons else self.state


def silent_of(actors: Iterable[ActorStatus]) -> tuple[str, ...]:
    """Names of running processes that have shown no sign of life for SILENT_MS."""
    return tuple(each.name for each in actors if each.state == "running" and each.heartbeat_age_ms > SILENT_MS)


def health_of(status: Status) -> Health:
    seen = status.positions
    refusing: list[str] = []
    degraded: list[str] = []
    if seen.wrote_error:
        refusing.append(f"a write of the log failed: {os.strerror(seen.wrote_error)}")
    if status.read_only:
        refusing.append("the store is opened read-only")
    if seen.allocated_error:
        why = f"no next log file can be made: {os.strerror(seen.allocated_error)}"
        # The last file takes messages as long as they fit into it.
        (refusing if seen.allocated - seen.wrote < status.message_max else degraded).append(why)
    if seen.flushed_error:
        refuses = status.after_failed_sync == "refuse"
        (refusing if refuses else degraded).append(f"a sync of the log failed: {os.strerror(seen.flushed_error)}")
    if seen.reput_error:
        degraded.append(f"consumers get nothing new: {os.strerror(seen.reput_error)}")
    if seen.queues_error:
        degraded.append(f"a sync of queues or index failed: {os.strerror(seen.queues_error)}")
    if status.clock_ahead_ms:
        degraded.append("the clock has jumped ahead, nothing expires by age")
    if status.state != "running":
        degraded.append(f"the broker is {status.state}")
    degraded += [f"{actor.name} has failed" for actor in status.actors if actor.state == "failed"]
    silent = silent_of(status.actors)
    beats = {actor.name: actor.heartbeat_age_ms for actor in status.actors}
    degraded += [f"{name} has shown no sign of life for {beats[name] // 1000} s" for name in silent]
    degraded += [f"{file} could not be read, and what it said last may be missing" for file in status.lost]
    state = REFUSING if refusing else DEGRADED if degraded else OK
    return Health(state, (*refusing, *degraded), status.state == "running", silent)
