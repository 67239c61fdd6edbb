"""The machine: its processors, and the versions of Python and of the kernel."""

from __future__ import annotations

import os
import platform

from orbitmq.cli.console import counted
from orbitmq.cli.doctor.finding import Finding, Level

CORES_GOOD = 2  # a sender, or a reader, and the writer beside it


def cores() -> int:
    """Those that this process may use; a container may have fewer than the machine."""
    return len(os.sched_getaffinity(0))


def look() -> list[Finding]:
    kernel = f"Linux {platform.release()}, {platform.machine()}, Python {platform.python_version()}"
    return [Finding("machine", kernel), of_cores(cores())]


def of_cores(count: int) -> Finding:
    if count < CORES_GOOD:
        change = f"give the broker at least {CORES_GOOD}: on one, its processes and its clients take turns"
        return Finding("cores", counted(count, "core"), Level.ADVICE, change)
    return Finding("cores", counted(count, "core"))
