"""The file orbitmq/unsynced: syncs that were begun and have not succeeded.

    0     magic "orbitsyn"   8   u32 layout version          the rest of the first 512 bytes is zero
    512   u64 physical offset: up to here, what follows the log was zeroed
    1024  u64 1: ConsumeQueue and index files were being synced
          each followed by the u32 CRC-32 of its bytes; 4096 bytes in all, big-endian

The kernel reports a page that it could not write once, to the next process that syncs, and treats it as written from then on.
So a process that is killed in a failing sync, or after it, leaves memory that looks like the disk and is not. Therefore a word
is raised, durably, before such a sync begins, and lowered after it has succeeded. A process that finds the word raised writes
again what the sync was about. The log itself needs no word: everything behind the recorded flushed position is written again.
"""

from __future__ import annotations

import os
import struct
import zlib
from typing import NamedTuple

from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file
from orbitmq.store.layout import StoreLayout

SIZE = 4096
TAIL_AT, QUEUES_AT = 512, 1024
_HEADER = struct.Struct(">8sI")
_HEAD = _HEADER.pack(b"orbitsyn", 1)
_WORD = struct.Struct(">Q")
_CRC = struct.Struct(">I")
EVERYTHING = (1 << 64) - 1


class Doubt(NamedTuple):
    """What the file says. tail: what follows the log, up to this physical offset, is zero in memory and perhaps not on disk.
    queues: ConsumeQueue and index files may differ in the same way where the checkpoint does not vouch for them."""

    tail: int = 0
    queues: bool = False


def load(layout: StoreLayout) -> Doubt:
    """Without the file nothing is in doubt. A word of it that cannot be believed counts as raised."""
    try:
        content = layout.unsynced.read_bytes()
    except FileNotFoundError:
        return Doubt()
    return Doubt(_word(content, TAIL_AT), _word(content, QUEUES_AT) != 0)


def _word(content: bytes, at: int) -> int:
    body = content[at : at + _WORD.size]
    check = content[at + _WORD.size : at + _WORD.size + _CRC.size]
    if len(check) < _CRC.size or (any(body + check) and _CRC.unpack(check)[0] != zlib.crc32(body)):
        return EVERYTHING
    return int(_WORD.unpack(body)[0])


class Unsynced:
    """Raises and lowers the words. The file is made when the first word is raised. One process writes each word: the writer
    that of what follows the log, the flush service that of the queues; recovery writes both, before the others run."""

    def __init__(self, layout: StoreLayout) -> None:
        self._layout = layout
        self._descriptor = -1

    def raise_tail(self, end: int) -> None:
        """Call before zeroing what lies behind the log up to `end`. Durable on return. Raises: OSError."""
        self._raise(TAIL_AT, end)

    def lower_tail(self) -> None:
        self._lower(TAIL_AT)

    def raise_queues(self) -> None:
        """Call before syncing ConsumeQueue or index files. Durable on return. Raises: OSError."""
        self._raise(QUEUES_AT, 1)

    def lower_queues(self, *, durable: bool = False) -> None:
        """Call after the syncs succeeded. If a power cut raises a word again, the next start takes longer, and nothing else
        happens. Raises: OSError."""
        self._lower(QUEUES_AT)
        if durable and self._descriptor >= 0:
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _raise(self, at: int, value: int) -> None:
        if not self._layout.unsynced.exists() or self._layout.unsynced.stat().st_size != SIZE:
            atomic_file.replace(self._layout.unsynced, _HEAD.ljust(SIZE, b"\0"))
        self._write(at, value)
        os.fdatasync(self._descriptor)
        crash_point("unsynced_raised")

    def _lower(self, at: int) -> None:
        if self._layout.unsynced.exists():
            self._write(at, 0)
            crash_point("unsynced_lowered")

    def _write(self, at: int, value: int) -> None:
        if self._descriptor < 0:
            self._descriptor = os.open(self._layout.unsynced, os.O_RDWR | os.O_CLOEXEC)
        body = _WORD.pack(value)
        os.pwrite(self._descriptor, body + _CRC.pack(zlib.crc32(body)), at)
