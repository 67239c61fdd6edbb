"""Makes a part of the log durable whose last sync may have failed. Its bytes are written again first: the kernel treats a page
that it could not write as written, so another sync alone would find nothing to do (native/format/log_rewrite.h)."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from orbitmq.native._core import lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.store import sparse
from orbitmq.store.layout import StoreLayout


def sync_again(layout: StoreLayout, file_size: int, starts: list[int], begin: int, end: int) -> None:
    """Writes the log's bytes [begin, end) again and syncs them. starts: of the log's files. Raises: OSError."""
    for path, first, last in _parts(layout, file_size, starts, begin, end):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            _twice(descriptor, partial(_rewrite, descriptor, first, last))
            if lib.file_extents_unwritten(descriptor, first, last):
                _write_past_cache(path, descriptor, first, last)
        finally:
            os.close(descriptor)


def zero_again(layout: StoreLayout, file_size: int, starts: list[int], begin: int, end: int) -> None:
    """Zeroes [begin, end), whatever it seems to hold, and syncs it. Space that was never written stays so. Raises: OSError."""
    for path, first, last in _parts(layout, file_size, starts, begin, end):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            _twice(descriptor, partial(sparse.zero_again, descriptor, first, last))
        finally:
            os.close(descriptor)


def _parts(layout: StoreLayout, file_size: int, starts: list[int], begin: int, end: int) -> list[tuple[Path, int, int]]:
    """The files that hold parts of [begin, end), and which bytes of them."""
    held = [start for start in starts if start < end and start + file_size > begin]
    return [(layout.log_file(start), max(begin - start, 0), min(end - start, file_size)) for start in held]


def _twice(descriptor: int, write: Callable[[], None]) -> None:
    """Writes and syncs. The kernel reports an old error to a new descriptor; if everything is written once more, only the
    second result counts."""
    try:
        write()
        crash_point("log_rewrite_written")
        os.fdatasync(descriptor)
    except OSError:
        write()
        os.fdatasync(descriptor)


def _write_past_cache(path: Path, descriptor: int, first: int, last: int) -> None:
    """If ext4 could not write a page once, it no longer marks the page's blocks as written, unless the write goes past the
    cache."""
    direct = os.open(path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    try:
        _check(lib.log_rewrite_direct(descriptor, direct, first, last))
        os.fdatasync(direct)
    finally:
        os.close(direct)
    if lib.file_extents_unwritten(descriptor, first, last):
        raise OSError(errno.EIO, "the file system does not mark it as written", str(path))


def _rewrite(descriptor: int, first: int, last: int) -> None:
    _check(lib.log_rewrite(descriptor, first, last))


def _check(error: int) -> None:
    if error:
        raise OSError(error, os.strerror(error))
