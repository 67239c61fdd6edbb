"""Waits for conditions, under a watchdog that only ends a test that would hang."""

from __future__ import annotations

import asyncio
import os
import select
import time
from collections.abc import Callable
from typing import Any

from orbitmq.shm import runtime

WATCHDOG_S = 240.0  # the start of a JVM can take more than a minute on a machine that does ten things at once
LOOK_MS = 2
# Whoever waits leaves the processor to those that it waits for: between two looks passes so many times what a look takes.
PATIENCE = 9
# The longer it has waited, the less a look more matters: it comes at most this part of the time too late.
LATE = 1 / 20
PAUSE_MS = 50  # at most


class Stuck(AssertionError):
    """Something that had to come did not, by a wide margin."""


def until(condition: Callable[[], Any], what: str = "what the test is about", *, look_ms: int = LOOK_MS) -> Any:
    """Waits for a condition, and returns what it found. look_ms: between two quick looks; 0: whenever the processor
    is free. Raises: Stuck."""
    first = begun = time.monotonic()
    deadline = begun + WATCHDOG_S
    while not (found := condition()):
        looked = time.monotonic()
        if looked > deadline:
            raise Stuck(f"waited {WATCHDOG_S:g} s for {what}")
        if look_ms:
            pause_s = max(PATIENCE * (looked - begun), LATE * (looked - first))
            select.poll().poll(max(look_ms, min(pause_s * 1000, PAUSE_MS)))
            begun = time.monotonic()
        else:
            os.sched_yield()
    return found


async def until_in_loop(condition: Callable[[], Any], what: str = "what the test is about") -> Any:
    """The same in a coroutine, whose event loop goes on meanwhile."""
    first = time.monotonic()
    while not (found := condition()):
        waited_s = time.monotonic() - first
        if waited_s > WATCHDOG_S:
            raise Stuck(f"waited {WATCHDOG_S:g} s for {what}")
        await asyncio.sleep(min(LATE * waited_s, PAUSE_MS / 1000))
    return found


def dead(pid: int) -> bool:
    """True if no process has the number, or only its exit status is left to be fetched."""
    return runtime.start_ticks(pid) is None
