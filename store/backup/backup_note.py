"""The file orbitmq/backup.json: this folder is a whole backup, of which store, and what it holds.

It is written last, once everything else is on disk, and removed first. `positions` is the CRC-32 of orbitmq/positions, which
every start of a broker changes: so a backup that has been opened as a store is one no longer.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass

from orbitmq.shm import finite_json
from orbitmq.store import atomic_file
from orbitmq.store.layout import StoreLayout

VERSION = 1


@dataclass(frozen=True, slots=True)
class BackupNote:
    """store: the folder that was backed up. made_ms: when it began. begin, end: physical offsets of the log.
    closed: log files that end up to here could not change any more when they were copied."""

    store: str
    made_ms: int
    begin: int
    end: int
    closed: int
    positions: int


def load(layout: StoreLayout) -> BackupNote | None:
    """None: the folder is no backup, not a whole one, or has been a broker's store since."""
    try:
        noted = finite_json.loads(layout.backup_json.read_bytes())
        if noted.pop("version") != VERSION:
            return None
        note = BackupNote(**noted)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return note if note.positions == _positions(layout) else None


def store(layout: StoreLayout, source: StoreLayout, made_ms: int, begin: int, end: int, closed: int) -> BackupNote:
    """Durable on return. Raises: OSError."""
    note = BackupNote(str(source.root), made_ms, begin, end, closed, _positions(layout))
    atomic_file.replace(layout.backup_json, (json.dumps({"version": VERSION, **asdict(note)}, indent=2) + "\n").encode())
    return note


def remove(layout: StoreLayout) -> None:
    """Durable on return: from now on the folder does not look like a whole backup. Raises: OSError."""
    layout.backup_json.unlink(missing_ok=True)
    if layout.own.is_dir():
        atomic_file.sync_folder(layout.own)


def _positions(layout: StoreLayout) -> int:
    try:
        return zlib.crc32(layout.positions.read_bytes())
    except FileNotFoundError:
        return 0
