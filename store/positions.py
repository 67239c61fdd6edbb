"""The file orbitmq/positions: what is known to be on disk, so that recovery knows what it must not lose.

    0     magic "orbitpos"   8   u32 layout version          the rest of the first 512 bytes is zero
    512   slot 0             1024   slot 1                   4096 bytes in all, big-endian

    slot: u64 version   u64 flushed position   u64 wrote position at a clean stop   u64 newest store ms known
          u32 1 after a clean stop   16 bytes boot id   u32 CRC-32 of the slot's bytes before it

The writer fills the older slot, and the CRC makes it count. A process that dies half-way leaves the other slot, which is older
and still true, because positions only grow. A slot lies within one sector, so a power cut leaves it old or new. The page is not
synced while the broker runs: a power cut can take back only the newest positions, never a message.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from typing import NamedTuple

from orbitmq.shm import runtime
from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file
from orbitmq.store.layout import StoreLayout

SIZE = 4096
MAGIC = b"orbitpos"
VERSION = 1
SLOTS = (512, 1024)
_HEADER = struct.Struct(">8sI")
_SLOT = struct.Struct(">QQQQI16s")
_CRC = struct.Struct(">I")
MAGIC_AND_VERSION = _HEADER.pack(MAGIC, VERSION)
SLOT_SIZE = _SLOT.size + _CRC.size


def boot_id() -> bytes:
    """16 bytes that differ after every start of the machine."""
    return bytes.fromhex(runtime.boot_id().replace("-", ""))


class Recorded(NamedTuple):
    """The content of the file. flushed: the log is on disk below it. wrote: the log's end at a clean stop, else 0. store_ms: no
    record below flushed has a later store timestamp."""

    flushed: int
    wrote: int
    store_ms: int
    clean: bool
    boot: bytes


def load(layout: StoreLayout) -> Recorded | None:
    """What was recorded last. None if nothing can be believed."""
    try:
        content = layout.positions.read_bytes()
    except FileNotFoundError:
        return None
    newest = _newest(content)
    return newest[1] if newest else None


def clear_unused(layout: StoreLayout) -> None:
    """Clears the bytes between header and slots, where nothing belongs. A file of another length is left to Positions."""
    content = layout.positions.read_bytes() if layout.positions.exists() else b""
    if len(content) != SIZE:
        return
    cleared = bytearray(SIZE)
    for at, size in ((0, _HEADER.size), *((slot, SLOT_SIZE) for slot in SLOTS)):
        cleared[at : at + size] = content[at : at + size]
    if cleared != content:
        atomic_file.replace(layout.positions, bytes(cleared))


class Positions:
    """The open file. One process writes it: the flush service while the broker runs, the supervisor before and after."""

    def __init__(self, layout: StoreLayout) -> None:
        """Opens the file. It is made if it is missing or unusable."""
        content = layout.positions.read_bytes() if layout.positions.exists() else b""
        if len(content) != SIZE or _HEADER.unpack_from(content) != (MAGIC, VERSION):
            content = _HEADER.pack(MAGIC, VERSION).ljust(SIZE, b"\0")
            atomic_file.replace(layout.positions, content)
        descriptor = os.open(layout.positions, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._map = mmap.mmap(descriptor, SIZE)
        finally:
            os.close(descriptor)
        newest = _newest(content)
        self._version = newest[0] if newest else 0
        self._boot = boot_id()

    def record(self, flushed: int, store_ms: int) -> None:
        """Records that the log is on disk below `flushed`, and that a broker runs. Costs no system call."""
        self._write(Recorded(flushed, 0, store_ms, False, self._boot))

    def record_stop(self, wrote: int, store_ms: int) -> None:
        """Records that the log ends at `wrote` and that all of it is on disk, index and queues too. Durable on return."""
        self._write(Recorded(wrote, wrote, store_ms, True, self._boot))
        self._map.flush()

    def sync(self) -> None:
        """Makes what was recorded durable."""
        self._map.flush()

    def close(self) -> None:
        self._map.close()

    def _write(self, what: Recorded) -> None:
        self._version += 1
        body = _SLOT.pack(self._version, what.flushed, what.wrote, what.store_ms, what.clean, what.boot)
        at = SLOTS[self._version % 2]
        self._map[at : at + len(body) + _CRC.size] = body + _CRC.pack(zlib.crc32(body))
        crash_point("positions_written")


def damaged_slots(content: bytes) -> int | None:
    """How many slots hold something that cannot be believed. None: the file has none that can."""
    if _newest(content) is None:
        return None
    slots = (content[at : at + SLOT_SIZE] for at in SLOTS)
    return sum(1 for slot in slots if any(slot) and _CRC.unpack_from(slot, _SLOT.size)[0] != zlib.crc32(slot[: _SLOT.size]))


def _newest(content: bytes) -> tuple[int, Recorded] | None:
    if len(content) != SIZE or _HEADER.unpack_from(content) != (MAGIC, VERSION):
        return None
    newest: tuple[int, Recorded] | None = None
    for at in SLOTS:
        body = content[at : at + _SLOT.size]
        version, flushed, wrote, store_ms, clean, boot = _SLOT.unpack(body)
        if (
            version
            and _CRC.unpack_from(content, at + _SLOT.size)[0] == zlib.crc32(body)
            and (not newest or version > newest[0])
        ):
            newest = version, Recorded(flushed, wrote, store_ms, bool(clean), boot)
    return newest
