"""Processor time differs less from one minute to the next than messages a second do, so it distinguishes two versions
sooner."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any


def ran_ns(pid: int) -> int:
    """How long all threads of a process have run on a processor (the kernel's schedstat)."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir())


def actors(broker: Any, names: Iterable[str] = ()) -> dict[str, int]:
    """{name: pid} of a broker's actors; only of these names, if any are given."""
    wanted = set(names)
    return {each.name: each.pid for each in broker.status().actors if each.pid and (not wanted or each.name in wanted)}
