"""Limits of the kernel for one process: open files and mappings. Nothing is locked in memory, so RLIMIT_MEMLOCK does not
matter."""

from __future__ import annotations

import resource
from pathlib import Path

from orbitmq.cli.doctor.finding import Finding, Level
from orbitmq.shm.means import DESCRIPTORS_MIN

FILES_GOOD = 4096  # two for each session, in the supervisor, and those of the log and of queues
MAPPINGS_GOOD = 65530  # the kernel's default
_MAPPINGS = Path("/proc/sys/vm/max_map_count")


def look() -> list[Finding]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return [of_files(hard), of_mappings(int(_MAPPINGS.read_text()))]


def of_files(hard: int) -> Finding:
    """hard: the limit to which a broker raises its own."""
    if hard == resource.RLIM_INFINITY:
        return Finding("open files", "any number")
    found = f"at most {hard:,} in one process"
    if hard >= FILES_GOOD:
        return Finding("open files", found)
    level = Level.ADVICE if hard >= DESCRIPTORS_MIN else Level.WRONG
    change = f"raise the hard limit to {FILES_GOOD:,} or more: ulimit -Hn, LimitNOFILE of systemd"
    return Finding("open files", found, level, change)


def of_mappings(count: int) -> Finding:
    found = f"at most {count:,} in one process"
    if count >= MAPPINGS_GOOD:
        return Finding("mappings", found)
    return Finding("mappings", found, Level.ADVICE, f"sysctl vm.max_map_count={MAPPINGS_GOOD}")
