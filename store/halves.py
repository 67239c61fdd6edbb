"""How far half messages are settled: orbitmq/transactions.

    0   magic "orbittrn"   8  u32 layout version   12  u64 floor   20  u64 operations
    28  u32 CRC-32 of the 28 bytes before, big-endian

All half messages below `floor`, a queue offset, are settled, and all operation messages below `operations` are about those. The
file is written now and then, so it may be old. RocketMQ keeps the same two numbers as the offsets of its group
CID_RMQ_SYS_TRANS. Whichever says more is right, because neither number ever falls.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file, config
from orbitmq.store.layout import StoreLayout

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRANSACTION_TOPICS = (HALF_TOPIC, GIVEN_UP_TOPIC, OP_TOPIC)  # made in this order: senders look for the last
GROUP = "CID_RMQ_SYS_TRANS"
VERSION = 1
_CONTENT = struct.Struct(">8sIQQ")
_CRC = struct.Struct(">I")
_MAGIC = b"orbittrn"


class Halves(NamedTuple):
    """floor, operations: queue offsets of the two topics."""

    floor: int = 0
    operations: int = 0


def parse(content: bytes) -> Halves | None:
    if len(content) != _CONTENT.size + _CRC.size:
        return None
    magic, version, floor, operations = _CONTENT.unpack_from(content)
    good = _CRC.unpack_from(content, _CONTENT.size)[0] == zlib.crc32(content[: _CONTENT.size])
    return Halves(floor, operations) if good and (magic, version) == (_MAGIC, VERSION) else None


def load(layout: StoreLayout) -> Halves:
    """What the file and RocketMQ's say together. A file that is missing or damaged says nothing: then more is read."""
    try:
        own = parse(layout.transactions.read_bytes()) or Halves()
    except FileNotFoundError:
        own = Halves()
    offsets = config.load_offsets(layout)
    theirs = Halves(offsets.get((HALF_TOPIC, GROUP), {}).get(0, 0), offsets.get((OP_TOPIC, GROUP), {}).get(0, 0))
    return max(own, theirs, key=lambda each: each.floor)


def store(layout: StoreLayout, halves: Halves) -> None:
    """Durable on return. Raises: OSError."""
    content = _CONTENT.pack(_MAGIC, VERSION, halves.floor, halves.operations)
    atomic_file.replace(layout.transactions, content + _CRC.pack(zlib.crc32(content)))
    crash_point("halves_stored")
