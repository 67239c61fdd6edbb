"""The store: its file system, its room, whether it may be written and opened, and how its last broker ended."""

from __future__ import annotations

import os
from pathlib import Path

from orbitmq.cli.doctor.finding import Finding, Level
from orbitmq.errors import OrbitError
from orbitmq.shm.disk_fault import byte_count
from orbitmq.store import abort, lock
from orbitmq.store.file_system import NETWORK_KINDS, Mount, free_bytes, mount_of
from orbitmq.store.layout import LAYOUT_VERSION, StoreLayout

VOLATILE_KINDS = frozenset({"tmpfs", "ramfs"})


def look(layout: StoreLayout) -> list[Finding]:
    there = next(each for each in (layout.root, *layout.root.parents) if each.exists())
    findings = [of_kind(mount_of(layout.root)), _written(layout.root, there)]
    if not there.is_dir():
        return findings
    try:
        size = layout.settings().log_file_size
    except OrbitError as error:
        return [*findings, Finding.of_error("store", error)]
    return [*findings, of_room(free_bytes(there), size), _state(layout)]


def of_kind(mount: Mount) -> Finding:
    found = f"{mount.kind} on {mount.point}"
    if mount.kind in NETWORK_KINDS:
        change = "choose a folder on a disk of this machine: no broker starts on a network's"
        return Finding("file system", found, Level.WRONG, change)
    if mount.kind in VOLATILE_KINDS:
        change = "choose a folder on a disk: what is in memory is lost when the machine stops, flushed or not"
        return Finding("file system", found, Level.ADVICE, change)
    return Finding("file system", found)


def of_room(free: int, log_file_size: int) -> Finding:
    """A broker reserves two files of the log ahead."""
    found = f"{byte_count(free)} free, {byte_count(log_file_size)} for each file of the log"
    if free >= 2 * log_file_size:
        return Finding("room", found)
    level = Level.ADVICE if free >= log_file_size else Level.WRONG
    change = "make room, keep less (orbitmq config set retention_bytes=...), or use smaller files in a new store"
    return Finding("room", found, level, change)


def _written(root: Path, there: Path) -> Finding:
    """there: what exists of its path."""
    if not there.is_dir():
        return Finding("folder", f"{there} is no folder", Level.WRONG, "choose another folder for the store")
    if not os.access(there, os.W_OK | os.X_OK):
        change = "run the broker as the owner of the store, and mount its file system writable"
        return Finding("folder", f"{root}: this user may not write in {there}", Level.WRONG, change)
    return Finding("folder", str(root) if there == root else f"{root}, which the first start makes")


def _state(layout: StoreLayout) -> Finding:
    if not layout.store_json.exists() and not abort.exists(layout):
        return Finding("store", "none yet, or one that OrbitMQ has not opened")
    version = f"layout {LAYOUT_VERSION}"
    if lock.is_held(layout):
        return Finding("store", f"{version}, a broker runs on it")
    if abort.exists(layout):
        change = "start the broker: the start recovers the store; if it died by itself, its log says why"
        return Finding("store", f"{version}, its last broker did not stop cleanly", Level.ADVICE, change)
    return Finding("store", f"{version}, stopped cleanly")
