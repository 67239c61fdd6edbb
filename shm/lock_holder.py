"""Finds the processes that hold a lock on a file, as far as the kernel reports them.

/proc/locks lists every lock with device and inode of its file, and everybody may read it. But it names no process for an
open-file-description lock, and leaves out locks from another pid namespace. /proc/<pid>/fdinfo shows which descriptor such a
lock belongs to, for the processes that this user may inspect: its own, or all of them for root.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")


def is_locked(file: Path) -> bool:
    """True while any process holds a lock on the file. Needs no permission to open it. Raises: OSError."""
    return any(True for _ in _locks(file.stat()))


def holders(file: Path) -> list[int]:
    """The processes that hold a lock on the file, except this one and those that this user may not see. Raises: OSError."""
    status = file.stat()
    found: set[int] = set()
    for pid in _locks(status):
        found.update([pid] if pid > 0 else _heirs(status))
    return sorted(found - {os.getpid()})


def _locks(status: os.stat_result) -> Iterator[int]:
    """The process of each lock on the file; -1 if the lock belongs to an open file."""
    for line in (PROC / "locks").read_text().splitlines():
        # 1: POSIX  ADVISORY  WRITE 2048 fe:00:9986052 0 EOF; a process that waits has -> after the number
        parts = line.split()
        if len(parts) < 8 or parts[1] == "->":
            continue
        major, _, rest = parts[5].partition(":")
        minor, _, inode = rest.partition(":")
        # A lock whose file the kernel cannot tell has <none>:0 there.
        if inode == str(status.st_ino) and _same_device(int(major, 16), int(minor, 16), status.st_dev):
            yield int(parts[4])


def _same_device(major: int, minor: int, device: int) -> bool:
    """Some file systems (btrfs, overlays) show a device number of their own for each part, without a disk behind it; the
    kernel's list has the number of the whole."""
    return (major, minor) == (os.major(device), os.minor(device)) or (major == 0 and os.major(device) == 0)


def _heirs(status: os.stat_result) -> Iterator[int]:
    """Processes with a descriptor of the file that holds a lock."""
    for process in PROC.iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                if any(_holds(process, path.name, status) for path in (process / "fd").iterdir()):
                    yield int(process.name)


def _holds(process: Path, descriptor: str, status: os.stat_result) -> bool:
    with suppress(OSError):
        seen = (process / "fd" / descriptor).stat()
        if (seen.st_dev, seen.st_ino) == (status.st_dev, status.st_ino):
            return "\nlock:" in (process / "fdinfo" / descriptor).read_text()
    return False
