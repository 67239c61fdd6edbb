"""orbitmq/transaction-checks: which half messages were asked about, how often and when (docs/transactions.md).

    0   u64 queue offset of the half   8   u64 its physical offset   16  u64 when, ms since the epoch
    24  u32 number of the check        28  u32 CRC-32 of the 28 bytes before, big-endian

Entries of this form, one behind the other; of each half the last one counts, and one whose CRC does not hold counts for
nothing. The coordinator writes an entry before it lets anybody ask. None is synced: the page cache keeps them whichever process
dies, and after a power cut a half may be asked about more often. When most entries are about halves that are settled, the file
is replaced by one without them.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from orbitmq.shm.crash_point import crash_point
from orbitmq.store.layout import StoreLayout

_CONTENT = struct.Struct(">QQQI")
_CRC = struct.Struct(">I")
ENTRY_SIZE = _CONTENT.size + _CRC.size


class CheckNote(NamedTuple):
    """half: its queue offset. number: of the check, 1 for the first. asked_ms: when, milliseconds since the epoch."""

    half: int
    physical_offset: int
    asked_ms: int
    number: int


def parse(content: bytes) -> dict[int, CheckNote]:
    """The last note of each half."""
    found: dict[int, CheckNote] = {}
    for at in range(0, len(content) - ENTRY_SIZE + 1, ENTRY_SIZE):
        if _CRC.unpack_from(content, at + _CONTENT.size)[0] == zlib.crc32(content[at : at + _CONTENT.size]):
            note = CheckNote(*_CONTENT.unpack_from(content, at))
            found[note.half] = note
    return found


class CheckNotes:
    """The file. One process at a time writes it."""

    def __init__(self, layout: StoreLayout) -> None:
        self._path = layout.transaction_checks
        self.entries = 0  # in the file

    def load(self) -> dict[int, CheckNote]:
        """A file that cannot be read says nothing. Half an entry at its end is written over."""
        content = b""
        with suppress(OSError):
            content = self._path.read_bytes()
        self.entries = len(content) // ENTRY_SIZE
        return parse(content)

    def add(self, notes: Iterable[CheckNote]) -> None:
        """Raises: OSError: some of them may be in the file."""
        content = b"".join(map(_encoded, notes))
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            written = os.pwrite(descriptor, content, self.entries * ENTRY_SIZE)
        finally:
            os.close(descriptor)
        if written < len(content):
            raise OSError(f"{self._path} took {written} of {len(content)} bytes")
        self.entries += written // ENTRY_SIZE
        crash_point("check_notes_added")

    def replace(self, notes: Mapping[int, CheckNote]) -> None:
        """The file has these and no others. Raises: OSError: nothing has changed."""
        temporary = self._path.with_name(f"{self._path.name}.tmp")
        temporary.write_bytes(b"".join(map(_encoded, notes.values())))
        crash_point("check_notes_written")
        temporary.rename(self._path)
        self.entries = len(notes)
        crash_point("check_notes_replaced")


def _encoded(note: CheckNote) -> bytes:
    content = _CONTENT.pack(note.half, note.physical_offset, note.asked_ms, note.number)
    return content + _CRC.pack(zlib.crc32(content))
