"""The file orbitmq/rising: the place in the log from which store timestamps are known to rise.

    0   magic "orbitris"   8  u32 layout version   12  u64 physical offset   20  u32 CRC-32 of the 20 bytes before, big-endian

OrbitMQ's writer never gives a record an earlier time than the one before it, whatever the clock does. Another program that has
written to the store may have. So each recovery determines, before anything is appended, from where on every record is known to
be no earlier than the one before it. From there on a search by time may be binary. docs/time.md has the details.
"""

from __future__ import annotations

import struct
import zlib

from orbitmq.store import atomic_file, positions
from orbitmq.store.commit_log.log_scan import LogScan
from orbitmq.store.layout import StoreLayout
from orbitmq.store.positions import Recorded

VERSION = 1
_CONTENT = struct.Struct(">8sIQ")
_CRC = struct.Struct(">I")
_MAGIC = b"orbitris"


def load(layout: StoreLayout) -> int | None:
    """The physical offset. None if there is none that can be believed."""
    try:
        return parse(layout.rising.read_bytes())
    except FileNotFoundError:
        return None


def parse(content: bytes) -> int | None:
    if len(content) != _CONTENT.size + _CRC.size or _CRC.unpack_from(content, _CONTENT.size)[0] != zlib.crc32(content[:20]):
        return None
    magic, version, begin = _CONTENT.unpack_from(content)
    return int(begin) if (magic, version) == (_MAGIC, VERSION) else None


def store(layout: StoreLayout, begin: int) -> None:
    """Durable on return. Writes nothing if the file says so already."""
    if load(layout) != begin:
        content = _CONTENT.pack(_MAGIC, VERSION, begin)
        atomic_file.replace(layout.rising, content + _CRC.pack(zlib.crc32(content)))


def settle(known: int | None, recorded: Recorded | None, scan: LogScan) -> int:
    """The place from which times rise, once recovery has read the log.

    known: what the file says. It is about the log as its last broker left it, the part below the flushed position. What lies
        behind that may be another program's, and has to be seen in the scan.
    """
    falls = scan.rising_from > scan.start
    if known is None or recorded is None or scan.start > recorded.flushed or falls or known > scan.start:
        return scan.rising_from
    # No record may have come between what is known and what was seen: the first record seen is either OrbitMQ's, or no earlier
    # than any below the flushed position.
    first_unlike = scan.records and scan.start == recorded.flushed and not scan.first_sealed
    return scan.start if first_unlike and scan.first_ms < recorded.store_ms else known


def trusted(layout: StoreLayout) -> tuple[int, int]:
    """For a store whose broker does not run: the part [begin, end) of the log in which times rise; empty if nothing is known.
    What lies behind the flushed position may have been appended by another program since."""
    begin, recorded = load(layout), positions.load(layout)
    return (0, 0) if begin is None or recorded is None else (begin, max(begin, recorded.flushed))
