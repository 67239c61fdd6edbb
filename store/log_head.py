"""The head of a record that stands somewhere in the log, read without mapping its file."""

from __future__ import annotations

import os
import struct

from orbitmq.store.layout import StoreLayout

# total size, magic, body CRC, queue id, flag, queue offset, physical offset, system flag, born timestamp
_HEAD = struct.Struct(">iIIIIqqIq")
_LONG = struct.Struct(">q")
_BORN_V6 = 0x10  # in the system flag: the host after the born timestamp takes 20 bytes instead of 8
_SIZE = _HEAD.size + 20 + _LONG.size


def stored_ms(layout: StoreLayout, file_size: int, offset: int) -> int | None:
    """When the record at a physical offset was stored, milliseconds; None: no record stands there, or no file holds the place.

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
    if len(content) < _SIZE:
        return None
    size, _, _, _, _, _, place, flag, _ = _HEAD.unpack_from(content)
    if size <= 0 or place != offset:
        return None
    found: int = _LONG.unpack_from(content, _HEAD.size + (20 if flag & _BORN_V6 else 8))[0]
    return found
