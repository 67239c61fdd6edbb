"""Processor time differs less from one minute to the next than messages a second do, so it distinguishes two versions
sooner."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any


def ran_ns(pid: int) -> int:
    """How long all threads of a process have run on a processor (the kernel's schedstat)."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir())


def tree_ns(pid: int) -> int:
    """How long a process and all of its descendants have run, threads and processes that have ended included, if somebody has
    waited for them. In steps of 10 ms each (/proc/PID/stat)."""
    ticks, waiting = 0, [pid]
    while waiting:
        of = waiting.pop()
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            ticks += sum(map(int, Path(f"/proc/{of}/stat").read_text().rpartition(")")[2].split()[11:15]))
            for task in Path(f"/proc/{of}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
    return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def actors(broker: Any, names: Iterable[str] = ()) -> dict[str, int]:
    """{name: pid} of a broker's actors; only of these names, if any are given."""
    wanted = set(names)
    return {each.name: each.pid for each in broker.status().actors if each.pid and (not wanted or each.name in wanted)}
