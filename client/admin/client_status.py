"""Who uses a broker: its client processes, as `orbitmq clients` shows them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbitmq.client.admin.status import SessionStatus

COMMAND_MAX = 300


@dataclass(frozen=True, slots=True)
class ClientStatus:
    """A process. uid: its user; None: it has no connection at this moment. command: what it was started as, shortened; empty if
    this process may not know. connections: of the control socket. groups: those that it is a member of."""

    pid: int
    uid: int | None
    command: str
    connections: int
    groups: tuple[str, ...]
    sessions: tuple[SessionStatus, ...]

    @property
    def producers(self) -> int:
        """How many producers it has open."""
        return sum(session.window > 0 for session in self.sessions)

    @property
    def consumers(self) -> int:
        """How many consumers it has open."""
        return len(self.sessions) - self.producers


def client_status(content: dict[str, Any]) -> ClientStatus:
    """content: an answer of the coordinator's."""
    sessions = tuple(SessionStatus(**session) for session in content["sessions"])
    pid = content["pid"]
    return ClientStatus(pid, content["uid"], command_of(pid), content["connections"], tuple(content["groups"]), sessions)


def command_of(pid: int) -> str:
    """What a process was started as; empty if nobody may know."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        return b" ".join(words).decode(errors="replace")[:COMMAND_MAX]
    return ""
