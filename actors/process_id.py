"""Which process a client is. A number alone may come back for another process while something here still bears it."""

from __future__ import annotations

import select
from dataclasses import dataclass

from orbitmq.shm import runtime


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process for ever: its number, and its start in clock ticks since boot."""

    pid: int
    started: int


def process_of(pid: int, pidfd: int) -> ProcessId | None:
    """The process that the pidfd stands for, whose number is `pid`; None when it has ended.

    The start is read by number and the pidfd asked afterwards: while its process lives, nobody else has the number.
    """
    started = runtime.start_ticks(pid)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return None if started is None or poll.poll(0) else ProcessId(pid, started)
