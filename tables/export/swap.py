"""Replaces files of a folder by others, all at once for whoever lists it: a folder with the same content and the new files in
the place of the old ones is made beside it, and then the two change places.

    <out>/_orbitmq/staging/<run>/00000/part-*.parquet     the first folder of the run: new files, and links to those that stay

| step | killed after it |
| --- | --- |
| the folder is made and synced | no manifest names it: the next run removes it |
| (the manifest is put in place) | |
| it changes places with the one that readers see | done again: the folder with the new files is in its place |

Where the file system cannot let two folders change places, the old one is moved away first. Then readers see neither for some
microseconds, and if the run is killed there, until the next one.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path

from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file

_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EXDEV, errno.EPERM)


def places(staging: Path, folders: Iterable[str]) -> dict[str, Path]:
    """Where the new content of each folder is staged."""
    return {folder: staging / f"{number:05d}" for number, folder in enumerate(sorted(set(folders)))}


def prepare(folder: Path, staged: Path, gone: Iterable[str]) -> None:
    """staged: has the new files; gets links to all files of the folder but those that go. Raises: OSError."""
    staged.chmod(folder.stat().st_mode)
    leave = set(gone)
    for each in folder.iterdir():
        if each.name not in leave:
            (staged / each.name).hardlink_to(each)
    atomic_file.sync_folder(staged)
    crash_point("export_swap_prepared")


def swap(folder: Path, staged: Path, new: str) -> bool:
    """new: name of a file that only the staged folder had. May begin in the middle. False: the new files are nowhere."""
    if not (folder / new).exists():
        if not (staged / new).exists():
            return False
        if folder.exists() and not _exchanged(folder, staged):
            folder.rename(staged.with_name(f"{staged.name}.old"))
            crash_point("export_swap_moved")
        if not (folder / new).exists():
            staged.rename(folder)
        crash_point("export_swap_swapped")
    for parent in (staged.parent, folder.parent):
        atomic_file.sync_folder(parent)
    return True


def _exchanged(one: Path, other: Path) -> bool:
    """False: the file system or the C library cannot. Raises: OSError."""
    try:
        atomic_file.exchange(one, other)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        return False
    return True
