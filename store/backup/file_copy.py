"""Copies of single files into a backup: as a reflink where the file system has them, else byte by byte. What is zero stays
unwritten but reserved, as in the store: a full disk is an error now, and not a SIGBUS of the broker that opens the copy."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from orbitmq.shm.crash_point import crash_point
from orbitmq.store import sparse

_FICLONE = 0x40049409
_NO_REFLINK = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM, errno.ETXTBSY)
_EDGE = 4096

Copied = Callable[[int], None]  # called with the bytes that a file has grown by


def copy(source: Path, target: Path, copied: Copied, *, reserve: bool) -> bool:
    """Copies the file durably, with its times, mode and owner. True if it has anything but zeros.

    Bytes that are written meanwhile may be in the copy or not, but none from behind a place is newer than what lies before it
    was when it was read. reserve: every byte gets its room on the disk, so this is no reflink.
    Raises: OSError; FileNotFoundError: the source is gone, and nothing was made.
    """
    with source.open("rb", buffering=0) as old:
        status = os.fstat(old.fileno())
        whole = status.st_size
        with target.open("xb", buffering=0) as new:
            filled = not reserve and _clone(old.fileno(), new.fileno())
            if filled:
                copied(whole)
            else:
                if reserve and whole:
                    os.posix_fallocate(new.fileno(), 0, whole)
                done = 0
                for offset, chunk in sparse.nonzero_chunks(old.fileno(), 0, whole):
                    _write(new.fileno(), chunk, offset)
                    filled = True
                    copied(offset + len(chunk) - done)
                    done = offset + len(chunk)
                copied(whole - done)
                os.ftruncate(new.fileno(), whole)
            with suppress(PermissionError):
                os.fchown(new.fileno(), status.st_uid, status.st_gid)
            os.fchmod(new.fileno(), status.st_mode & 0o7777)
            os.utime(new.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
            os.fsync(new.fileno())
    crash_point("file_copy_made")
    return filled


def same(kept: Path, source: Path) -> bool:
    """True if a closed file of the log was copied from this one: size and time agree, and the bytes at both ends."""
    try:
        with kept.open("rb", buffering=0) as one, source.open("rb", buffering=0) as other:
            status, theirs = os.fstat(one.fileno()), os.fstat(other.fileno())
            if (status.st_size, status.st_mtime_ns) != (theirs.st_size, theirs.st_mtime_ns):
                return False
            places = (0, max(0, status.st_size - _EDGE))
            return all(os.pread(one.fileno(), _EDGE, at) == os.pread(other.fileno(), _EDGE, at) for at in places)
    except FileNotFoundError:
        return False


def _clone(source: int, target: int) -> bool:
    """Lets the new file share the blocks of the other until one of them is written. False: this file system cannot."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno in _NO_REFLINK:
            return False
        raise
    return True


def _write(descriptor: int, content: bytes, offset: int) -> None:
    written = 0
    while written < len(content):
        written += os.pwrite(descriptor, content[written:], offset + written)
