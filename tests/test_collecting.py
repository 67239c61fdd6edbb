"""Goal: of several processes that read the tests' modules, one compiles them, and what was read is no work for the garbage
collector. Method: threads at the lock; the state of the collector in this run."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest

from tests.collecting import after_the_first, kept_objects
from tests.waiting import WATCHDOG_S, until


def test_the_others_wait_for_the_first_and_not_for_each_other(tmp_path: Path) -> None:
    lock = tmp_path / "build" / "lock"
    seen: list[str] = []
    together = threading.Barrier(2)

    def follow() -> None:
        with after_the_first(lock):
            seen.append("follower")
            together.wait(WATCHDOG_S)

    followers = [threading.Thread(target=follow) for _ in range(2)]
    with after_the_first(lock):
        for each in followers:
            each.start()
        waiting = f"-> FLOCK  ADVISORY  READ {os.getpid()} ", f":{lock.stat().st_ino} "
        until(lambda: sum(all(part in line for part in waiting) for line in _locks()) == 2, "both followers to wait")
        seen.append("first")
    for each in followers:
        each.join(WATCHDOG_S)
    assert seen == ["first", "follower", "follower"] and not together.broken


def _locks() -> list[str]:
    return Path("/proc/locks").read_text().splitlines()


def test_what_was_collected_is_left_alone(request: pytest.FixtureRequest) -> None:
    assert gc.isenabled() and gc.get_freeze_count() > len(request.session.items)
    frozen = gc.get_freeze_count()
    with kept_objects():
        assert not gc.isenabled()
        kept: list[list[int]] = [[] for _ in range(1000)]
    assert gc.isenabled() and gc.get_freeze_count() - frozen >= len(kept)
