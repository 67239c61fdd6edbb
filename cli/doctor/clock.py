"""The clock: messages expire by it, and delayed ones come by it."""

from __future__ import annotations

import time

from orbitmq.cli.console import clock_time, duration
from orbitmq.cli.doctor.finding import Finding, Level
from orbitmq.store import index_headers, positions
from orbitmq.store.checkpoint import Checkpoint
from orbitmq.store.layout import StoreLayout

EARLIEST_MS = 1_704_067_200_000  # 2024-01-01; a machine without a clock of its own starts in 1970
TOLERATED_MS = 1000  # two threads do not read the clock in one moment


def look(layout: StoreLayout) -> list[Finding]:
    return [of_times(time.time_ns() // 1_000_000, newest_ms(layout) if layout.root.is_dir() else 0)]


def newest_ms(layout: StoreLayout) -> int:
    """The newest store timestamp that the store's small files speak of; 0: none."""
    checkpoint = Checkpoint.load(layout)
    recorded = positions.load(layout)
    times = [checkpoint.physic_ms, checkpoint.logics_ms, checkpoint.index_ms]
    times += [header.end_ms for header in index_headers.load(layout)]
    return max(times + ([recorded.store_ms] if recorded else []))


def of_times(now_ms: int, stored_ms: int) -> Finding:
    found = clock_time(now_ms)
    if now_ms < EARLIEST_MS:
        return Finding("clock", found, Level.WRONG, "set the clock (chrony, systemd-timesyncd) before a broker starts")
    if stored_ms > now_ms + TOLERATED_MS:
        found = f"{found}; the store has messages that are {duration(stored_ms - now_ms)} younger"
        change = "set the clock if it is behind; else it was ahead, and these messages are kept longer than others"
        return Finding("clock", found, Level.ADVICE, change)
    return Finding("clock", found)
