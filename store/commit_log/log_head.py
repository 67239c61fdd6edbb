"""The head of a record somewhere in the log, read without mapping its file."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable

from orbitmq.store.commit_log.record import BLANK_MAGIC
from orbitmq.store.layout import StoreLayout

# total size, magic, body CRC, queue id, flag, queue offset, physical offset, system flag, born timestamp
_HEAD = struct.Struct(">iIIIIqqIq")
_LONG = struct.Struct(">q")
_BORN_V6 = 0x10  # in the system flag: the host after the born timestamp takes 20 bytes instead of 8
_SIZE = _HEAD.size + 20 + _LONG.size
_WINDOW = 1 << 20


def stored_ms(layout: StoreLayout, file_size: int, offset: int) -> int | None:
    """When the record at a physical offset was stored, in milliseconds. None: no record is there, or no file holds the place.

    Raises: OSError: the file cannot be read.
    """
    start = offset - offset % file_size
    try:
        descriptor = os.open(layout.log_file(start), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        content = os.pread(descriptor, _SIZE, offset - start)
    finally:
        os.close(descriptor)
    found = _look(content, 0, offset) if len(content) == _SIZE else None
    return found[1] if found else None


def newest_ms(layout: StoreLayout, file_size: int, start: int, stopping: Callable[[], bool]) -> tuple[int | None, bool]:
    """The newest store time of the records in the closed log file that begins at `start`, in milliseconds, and whether all of
    them were looked at, up to the blank marker. They were not if one is damaged, or if `stopping` came true. Reads the whole
    file.

    Raises: OSError: it cannot be read."""
    newest, at, base, window = None, 0, 0, b""
    descriptor = os.open(layout.log_file(start), os.O_RDONLY | os.O_CLOEXEC)
    try:
        while at < file_size:
            if at - base + _SIZE > len(window):
                if stopping():
                    break
                base, window = at, os.pread(descriptor, _WINDOW, at).ljust(_SIZE, b"\0")
            if _HEAD.unpack_from(window, at - base)[1] == BLANK_MAGIC:
                return newest, True
            found = _look(window, at - base, start + at)
            if found is None:
                break
            newest = max(found[1], newest or 0)
            at += found[0]
    finally:
        os.close(descriptor)
    return newest, False


def _look(content: bytes, at: int, offset: int) -> tuple[int, int] | None:
    """Size and time of the record that is there. None: there is none."""
    size, magic, _, _, _, _, place, flag, _ = _HEAD.unpack_from(content, at)
    # A blank marker has zeros where a record has its place, which is right at the very beginning of the log.
    if size <= 0 or place != offset or magic == BLANK_MAGIC:
        return None
    return size, _LONG.unpack_from(content, at + _HEAD.size + (20 if flag & _BORN_V6 else 8))[0]
