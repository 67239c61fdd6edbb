"""How far reput has committed its work: the file orbitmq/reput, as far as recovery needs it. native/index_log.h draws it, and
says in which order reput writes it and what it describes."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from orbitmq.store.layout import StoreLayout

SIZE = 4096
MAGIC = b"OMQREPUT"
SLOTS = (64, 192)
_SLOT = struct.Struct(">QQQQ40s")  # version, position, indexed, name of the newest index file, its header
_CRC = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class ReputCommit:
    """position: everything in the log below it is in the queues and the index. indexed: keys of records below it are in the
    index; at or above position. Physical offsets."""

    position: int
    indexed: int

    @classmethod
    def load(cls, layout: StoreLayout) -> ReputCommit | None:
        """The newest commit that is whole; None when there is none."""
        try:
            content = layout.reput.read_bytes()
        except FileNotFoundError:
            return None
        if len(content) != SIZE or not content.startswith(MAGIC):
            return None
        newest, best = 0, None
        for at in SLOTS:
            version, position, indexed, _, _ = _SLOT.unpack_from(content, at)
            whole = _CRC.unpack_from(content, at + _SLOT.size)[0] == zlib.crc32(content[at : at + _SLOT.size])
            if version > newest and whole:
                newest, best = version, cls(position, max(position, indexed))
        return best
