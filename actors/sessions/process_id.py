"""Identifies a client process. A number alone is not enough: another process may get it while something here still refers to
the first one."""

from __future__ import annotations

import select
from typing import NamedTuple

from orbitmq.shm import runtime


class ProcessId(NamedTuple):
    """Identifies a process for ever: its number, and its start in clock ticks since boot."""

    pid: int
    started: int


def process_of(pid: int, pidfd: int) -> ProcessId | None:
    """The process that the pidfd stands for, whose number is `pid`. None if it has ended.

    The start time is read by number, and the pidfd is asked afterwards: as long as its process lives, no other process has the
    number.
    """
    started = runtime.start_ticks(pid)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return None if started is None or poll.poll(0) else ProcessId(pid, started)
