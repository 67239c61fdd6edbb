"""Marks of exported messages, which show whether a queue is still the same one.

Queue offsets alone do not show it: a topic that was deleted and created again, or another store, also counts from 0. A record's
first 88 bytes contain its place in the log, its times and its body's CRC. No two messages have the same ones, and nobody writes
them again.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

from orbitmq.errors import OffsetOutOfRange
from orbitmq.store.consume_queue import ConsumeQueue
from orbitmq.store.layout import StoreLayout
from orbitmq.store.stand_in import MARK as STANDS_IN
from orbitmq.tables.export.manifest import Mark
from orbitmq.tables.extents import Snapshot

HEAD = 88  # bytes before the body's length, with addresses of IPv4; nothing after them is needed
_PREPARED = struct.Struct(">Q")
_PREPARED_AT = 76
OPEN_MOST = 8  # log files open at once


class Marks:
    """Reads the files of a store. Close it after use."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._layout = StoreLayout.at(snapshot.root)
        self._log_file_size = snapshot.log_file_size
        self._units = snapshot.queue_file_units
        self._open: dict[Path, int] = {}

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def of(self, topic: str, queue: int, offset: int) -> Mark | None:
        """The mark of one message. None if the message, or its unit, is not there any more."""
        try:
            unit = ConsumeQueue(self._layout.root, topic, queue, self._units).peek(offset)
        except OffsetOutOfRange:
            return None
        if unit.size <= 0 or unit.blank:
            return None
        head = self._head(unit.physical_offset)
        return None if head is None else Mark(unit.physical_offset, zlib.crc32(head))

    def holds(self, mark: Mark) -> bool | None:
        """True if the log still has that message in its place. None: retention has removed that part."""
        head = self._head(mark.physical)
        if head is None:
            newest = max(self._starts(), default=0)
            return None if mark.physical < newest else False
        # A repair may have given the message up since; it left its own mark in that place.
        return zlib.crc32(head) == mark.crc or _PREPARED.unpack_from(head, _PREPARED_AT)[0] == STANDS_IN

    def _starts(self) -> list[int]:
        return [int(path.name) for path in self._layout.commitlog.iterdir() if path.name.isdecimal()]

    def _head(self, physical: int) -> bytes | None:
        place = physical % self._log_file_size
        path = self._layout.log_file(physical - place)
        if path not in self._open:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            if len(self._open) >= OPEN_MOST:
                os.close(self._open.pop(next(iter(self._open))))
            self._open[path] = descriptor
        head = os.pread(self._open[path], HEAD, place)
        return head if len(head) == HEAD else None
