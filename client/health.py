"""A broker's health in one line that a script can use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orbitmq.client.status import Status

OK, DEGRADED, REFUSING, STOPPED = "ok", "degraded", "refusing", "stopped"


@dataclass(frozen=True, slots=True)
class Health:
    """state: OK; DEGRADED: it takes messages, but something is wrong; REFUSING: it refuses sends; STOPPED: no broker runs."""

    state: str
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.state}: {'; '.join(self.reasons)}" if self.reasons else self.state


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
    degraded += [f"{file} could not be read, and what it said last may be missing" for file in status.lost]
    if refusing:
        return Health(REFUSING, (*refusing, *degraded))
    return Health(DEGRADED, tuple(degraded)) if degraded else Health(OK)
