"""What the kernel reports about a process in /proc/<pid>/stat. native/base/process_stat.h is the same for C."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_GONE = ("Z", "X")  # a zombie, and a process that is being removed
_EXITING = 4  # PF_EXITING of the kernel: set before a process lets go of anything


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """command: the name of the program, cut by the kernel to 15 bytes. parent: the pid of its parent. used_ticks: processor
    time in user mode and in the kernel. start_ticks: when it started, since boot. Both are in clock ticks (SC_CLK_TCK)."""

    command: str
    ended: bool
    exiting: bool  # it has ended, or has begun to exit
    parent: int
    used_ticks: int
    start_ticks: int


def process_stat(pid: int) -> ProcessStat | None:
    """None: there is no such process. A thread's number works, too.

    Raises: OSError: the file cannot be read for another reason."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name is in brackets. It may itself have blanks, brackets, and bytes that are no UTF-8; no later field has a bracket.
    before, _, after = line.rpartition(b")")
    fields = after.decode("ascii").split()  # field 3 of proc(5) is the first
    ended = fields[0] in _GONE
    return ProcessStat(
        command=before.partition(b"(")[2].decode(errors="surrogateescape"),
        ended=ended,
        exiting=ended or bool(int(fields[6]) & _EXITING),
        parent=int(fields[1]),
        used_ticks=int(fields[11]) + int(fields[12]),
        start_ticks=int(fields[19]),
    )
