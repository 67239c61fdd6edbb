"""Two workers that do the jobs of a backlog: how many a second, and what they and the server cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.benchmark.processor import ran_ns
from scripts.benchmark.roles import Role, together

IDLE_S = 0.5  # a worker ends so long after its last job; that time does not count
until = time.monotonic_ns


def measured(server: int, jobs: int, workers: Sequence[tuple[Any, ...]], warm: Path | None = None) -> list[float]:
    """Jobs a second; ns of processor time a job of the workers, and of the process `server`. workers: what makes each, and its
    arguments; it returns how many jobs it did, and when it had the last, by `until`."""
    roles = [Role(*worker) for worker in workers]
    ran = ran_ns(server)
    found = together(*roles, warm=warm)
    ran = ran_ns(server) - ran
    done = sum(count for _, _, (count, _) in found)
    if done != jobs:
        raise AssertionError(f"{done} of {jobs} jobs were done")
    begin = min(begin for begin, _, _ in found)
    seconds = (max(last for _, _, (_, last) in found) - begin) / 1e9
    return [jobs / seconds, sum(role.ran_ns for role in roles) / jobs, ran / jobs]
