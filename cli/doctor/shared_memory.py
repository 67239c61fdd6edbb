"""Shared memory: whether there is room for a broker in /dev/shm, and what dead brokers have left there."""

from __future__ import annotations

from orbitmq.cli.console import counted
from orbitmq.cli.doctor.finding import Finding, Level
from orbitmq.cli.doctor.machine import cores
from orbitmq.shm.disk_fault import byte_count
from orbitmq.shm.segment import MOUNT, shared_memory_free
from orbitmq.shm.segment_owner import dead_segments

TREE = 14 << 20  # what a broker takes in any case
LANE = 8 << 20  # for each handler, the scheduler and the dispatcher, by default
HANDLERS_MAX = 4  # by default


def look(runs: bool) -> list[Finding]:
    """runs: the broker of this store has taken its memory already."""
    findings = [of_room(shared_memory_free(), 0 if runs else need(cores()))]
    dead = dead_segments()
    if dead:
        size = sum((MOUNT / name).stat().st_size for name in dead if (MOUNT / name).exists())
        left = f"{counted(len(dead), 'segment')} of dead brokers, {byte_count(size)}"
        findings.append(Finding("leftovers", left, Level.ADVICE, "start any broker of this user: each start removes them"))
    else:
        findings.append(Finding("leftovers", "nothing of dead brokers"))
    return findings


def need(cores: int) -> int:
    """Bytes that a broker with the usual settings takes."""
    return TREE + LANE * (min(cores, HANDLERS_MAX) + 2)


def of_room(free: int, need: int) -> Finding:
    found = f"{byte_count(free)} free"
    if free < need:
        change = f"a broker takes {byte_count(need)}: mount -o remount,size=1G {MOUNT}; in a container, --shm-size 1g"
        return Finding(str(MOUNT), found, Level.WRONG, change)
    return Finding(str(MOUNT), found)
