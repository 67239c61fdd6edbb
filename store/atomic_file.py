"""Small files replaced whole: a reader, and the next start after a crash, sees the old content or the new one."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from orbitmq.shm.crash_point import crash_point

_AT_FDCWD, _EXCHANGE = -100, 2


def sync_folder(folder: Path) -> None:
    """Makes the folder's entries durable: names that were made, renamed or removed in it before this call."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Makes the folder and those above it, durably, if they do not exist."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        sync_folder(each.parent)


def write_synced(path: Path, content: bytes) -> None:
    """Writes the file's content and makes it durable; its name becomes durable with sync_folder."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        written = 0
        while written < len(content):
            written += os.write(descriptor, content[written:])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, content: bytes, *, like: os.stat_result | None = None) -> None:
    """Replaces the file by `content`, durably, through a temporary name in the same folder. like: it is given the permissions
    and, where we may, the owner of that file, and at no time may others read it."""
    temporary = path.with_name(path.name + ".tmp")
    if like is not None:
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with suppress(PermissionError):
                os.fchown(descriptor, like.st_uid, like.st_gid)
            os.fchmod(descriptor, like.st_mode & 0o777)
        finally:
            os.close(descriptor)
    write_synced(temporary, content)
    crash_point("atomic_file_written")
    temporary.rename(path)
    crash_point("atomic_file_renamed")
    sync_folder(path.parent)


def exchange(one: Path, other: Path) -> None:
    """Two files or folders of one file system change places, both at once. Raises: OSError: also if the file system or the C
    library cannot."""
    import ctypes  # here: it is rarely needed

    libc = ctypes.CDLL(None, use_errno=True)
    try:
        failed = libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE)
    except AttributeError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(one)) from None
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one))
