"""Files that are reserved at full length and written from the front: finds bytes that are not zero, without reading holes and
space that is only reserved."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

CHUNK = 1 << 20
_ZEROS = bytes(CHUNK)


def nonzero_chunks(descriptor: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of the chunks of [start, end) that are not all zero, ascending."""
    for begin, hole in _data(descriptor, start, end):
        at = begin
        while at < hole:
            chunk = os.pread(descriptor, min(CHUNK, hole - at), at)
            if not chunk:
                return
            if chunk != (_ZEROS if len(chunk) == CHUNK else bytes(len(chunk))):
                yield at, chunk
            at += len(chunk)


def _data(descriptor: int, start: int, end: int) -> list[tuple[int, int]]:
    """The parts of [start, end) that are not holes. Determined before anything is read: reserved space counts as data once it
    is in the page cache, and reading brings more of it there, to the end of the file."""
    parts = []
    at = start
    while at < end:
        try:
            at = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                break
            raise
        hole = os.lseek(descriptor, at, os.SEEK_HOLE)
        parts.append((at, min(end, hole)))
        at = hole
    return parts


def last_nonzero(descriptor: int, start: int) -> int:
    """Offset after the file's last nonzero byte at or after `start`; `start` if all of them are zero."""
    last = start
    for offset, chunk in nonzero_chunks(descriptor, start, os.fstat(descriptor).st_size):
        last = offset + len(chunk.rstrip(b"\0"))
    return last


def zero_again(descriptor: int, start: int, end: int) -> None:
    """Writes zeros over [start, end) where the file has data, even if that is zero already. Syncs nothing."""
    for begin, hole in _data(descriptor, start, end):
        for at in range(begin, hole, CHUNK):
            os.pwrite(descriptor, _ZEROS[: min(CHUNK, hole - at)], at)


def zero(descriptor: int, start: int, end: int) -> bool:
    """Zeroes [start, end), durably, and keeps the space reserved. True if anything had to be changed."""
    changed = False
    for offset, chunk in nonzero_chunks(descriptor, start, end):
        os.pwrite(descriptor, bytes(len(chunk)), offset)
        changed = True
    if changed:
        try:
            os.fdatasync(descriptor)
        except OSError:  # perhaps of an earlier write, which the kernel reports to a new descriptor
            zero_again(descriptor, start, end)
            os.fdatasync(descriptor)
    return changed
