"""Files that are reserved at full length and written from the front: where their bytes are not zero, found without
reading holes and space that is only reserved."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

CHUNK = 1 << 20
_ZEROS = bytes(CHUNK)


def nonzero_chunks(descriptor: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of the chunks of [start, end) that are not all zero, ascending."""
    at = start
    while at < end:
        try:
            at = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            raise
        hole = min(end, os.lseek(descriptor, at, os.SEEK_HOLE))
        while at < hole:
            chunk = os.pread(descriptor, min(CHUNK, hole - at), at)
            if not chunk:
                return
            if chunk != (_ZEROS if len(chunk) == CHUNK else bytes(len(chunk))):
                yield at, chunk
            at += len(chunk)


def last_nonzero(descriptor: int, start: int) -> int:
    """Offset behind the file's last byte at or after `start` that is not zero; `start` when all of them are."""
    last = start
    for offset, chunk in nonzero_chunks(descriptor, start, os.fstat(descriptor).st_size):
        last = offset + len(chunk.rstrip(b"\0"))
    return last


def zero(descriptor: int, start: int, end: int) -> bool:
    """Zeroes [start, end), durably, and keeps the space reserved. True when anything had to be changed."""
    changed = False
    for offset, chunk in nonzero_chunks(descriptor, start, end):
        os.pwrite(descriptor, bytes(len(chunk)), offset)
        changed = True
    if changed:
        os.fdatasync(descriptor)
    return changed
