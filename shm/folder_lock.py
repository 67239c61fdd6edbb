"""A lock for one process at a time in a folder: a file in it that only its owner can open, so that nobody else can hold it. The
file exists while a process holds it, and is removed afterwards."""

from __future__ import annotations

import fcntl
import os
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orbitmq.errors import SettingError
from orbitmq.shm.file_id import FileId
from orbitmq.shm.lock_holder import holders

NAME = ".lock"
LOOK_MS = 5


@contextmanager
def folder_lock(folder: Path, patience_s: float) -> Iterator[None]:
    """Raises: SettingError: another process held it for so many seconds; has .pid, None if this user may not see it.
    OSError."""
    path = folder / NAME
    descriptor = _acquire(path, time.monotonic() + patience_s)
    try:
        yield
    finally:
        # Removed while the lock is held: a process that waited for this file checks whether it still has the name. If somebody
        # has removed it before, the file of that name may be another process's.
        with suppress(OSError):
            if FileId.of(descriptor) == FileId.of(path):
                path.unlink()
        os.close(descriptor)


def _acquire(path: Path, deadline: float) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if _locked(descriptor, path):
                held, descriptor = descriptor, -1
                return held
            if time.monotonic() >= deadline:
                raise _held(path)
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        # There is nothing to wait on but the lock itself, and a wait in flock cannot be limited.
        select.poll().poll(LOOK_MS)


def _locked(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return FileId.of(descriptor) == FileId.of(path)
    except (BlockingIOError, FileNotFoundError):
        return False


def _held(path: Path) -> SettingError:
    pid = next(iter(holders(path)), None)
    who = f"process {pid}" if pid is not None else "a process that this user cannot see"
    return SettingError(
        f"cannot name this broker: {who} has held {path} for too long",
        hint="look what it does, and end it if it hangs (kill); repeating this is safe",
        path=str(path),
        pid=pid,
    )
