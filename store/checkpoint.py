"""The file `checkpoint`: up to which store timestamps log, queues and index are on disk. RocketMQ's format:

0  i64 physic ms   8  i64 logics ms   16  i64 index ms   then zeros to 4096; big-endian
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from orbitmq.store import atomic_file
from orbitmq.store.layout import StoreLayout

SIZE = 4096
# Timestamps are taken before the flush that they describe. The clocks may have been read a moment apart.
SAFETY_MS = 3000
_LONGS = struct.Struct(">qqq")


class Checkpoint(NamedTuple):
    """Store timestamps, milliseconds: everything stored before them is on disk. 0: nothing is known to be on disk."""

    physic_ms: int = 0  # the CommitLog
    logics_ms: int = 0  # the ConsumeQueues
    index_ms: int = 0  # IndexFiles that are full

    @property
    def threshold_ms(self) -> int:
        """Log and queues hold everything stored before this time."""
        return max(0, min(self.physic_ms, self.logics_ms) - SAFETY_MS)

    @classmethod
    def load(cls, layout: StoreLayout) -> Checkpoint:
        """The checkpoint; zeros if the file is missing or short. Recovery then reads more than it would need."""
        try:
            content = layout.checkpoint.read_bytes()
        except FileNotFoundError:
            return cls()
        if len(content) < _LONGS.size:
            return cls()
        return cls(*(max(0, value) for value in _LONGS.unpack_from(content)))

    def store(self, layout: StoreLayout) -> None:
        """Replaces the file durably."""
        content = _LONGS.pack(self.physic_ms, self.logics_ms, self.index_ms)
        atomic_file.replace(layout.checkpoint, content.ljust(SIZE, b"\0"))
