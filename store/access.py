"""Which other users may read a store: none, or the members of one group.

A broker makes its files under a umask, so they are private to its user: folders of mode 0700, files of 0600. A store that is
open to a group has folders of mode 02750, whose set-group-id bit gives the group everything that is made in them later, and
files of 0640. Nobody else writes: messages come in through the broker only. The lock file belongs to its owner alone in either
case, because a process that may open it may keep every broker out (lock.py).

Only these modes are changed into each other. A store that RocketMQ made has others, and keeps them.

    <root>/orbitmq/group    the number of the group that may read the store; no such file: no group

The file is written before the first mode is changed and removed after the last one, so that a start after a crash in between
does the rest. The folder orbitmq/ itself shows whether everything is open: it is the last to be opened and the first to be
closed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from orbitmq.errors import StoreUnsupported
from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file
from orbitmq.store.layout import StoreLayout

PRIVATE_UMASK = 0o077
GROUP_UMASK = 0o027

_SHUT_FOLDER, _SHUT_FILE = 0o700, 0o600
_OPEN_FOLDER, _OPEN_FILE = 0o2750, 0o640


def let(layout: StoreLayout, group: int | None) -> None:
    """Lets this group, and no other, read the store; None: no group. The caller holds the lock, and has a umask of
    PRIVATE_UMASK. If there is a group, it makes files under GROUP_UMASK from now on.

    Raises: OSError: a mode cannot be changed.
    """
    before = _recorded(layout)
    if before is not None and before != group:
        _shut(layout.own, before)
        for path in _walk(layout.root, top_first=True):
            if path != layout.lock:
                _shut(path, before)
        crash_point("access_shut")
        _record(layout).unlink()
        atomic_file.sync_folder(layout.own)
    if group is None or _is_open(layout.own, group):
        return
    atomic_file.replace(_record(layout), f"{group}\n".encode())
    crash_point("access_recorded")
    for path in _walk(layout.root, top_first=False):
        if path not in (layout.own, layout.lock):
            _open(path, group)
    if _is_open(layout.commitlog, group):
        _admit(layout.root, group)  # whoever made it; its other bits are its maker's choice
    crash_point("access_opened")
    _open(layout.own, group)


def work_as_owner(layout: StoreLayout) -> None:
    """Gives this process the umask that a broker of the store works under, so that nobody else may use what it makes.

    Raises: StoreUnsupported: the store is another user's. Its owner's broker could not open what root would make in it.
    """
    owner = layout.commitlog.stat().st_uid
    if owner != os.geteuid():
        raise StoreUnsupported(
            f"cannot change the store {layout.root} as uid {os.geteuid()}: it belongs to uid {owner}",
            hint="run it as the owner of the store",
            path=str(layout.root),
        )
    os.umask(PRIVATE_UMASK if _recorded(layout) is None else GROUP_UMASK)


def _record(layout: StoreLayout) -> Path:
    return layout.own / "group"


def _recorded(layout: StoreLayout) -> int | None:
    with suppress(FileNotFoundError, ValueError):
        return int(_record(layout).read_text())
    return None


def _walk(root: Path, *, top_first: bool) -> Iterator[Path]:
    for folder, _, files in os.walk(root, topdown=top_first):
        inside = [Path(folder, name) for name in files]
        yield from [Path(folder), *inside] if top_first else [*inside, Path(folder)]


def _is_open(folder: Path, group: int) -> bool:
    status = folder.lstat()
    return status.st_gid == group and stat.S_IMODE(status.st_mode) == _OPEN_FOLDER


def _open(path: Path, group: int) -> None:
    with _Entry(path) as entry:
        if entry.ours and entry.mode & 0o077 == 0:
            entry.change(group, _OPEN_FOLDER if entry.is_folder else _OPEN_FILE)


def _shut(path: Path, group: int) -> None:
    with _Entry(path) as entry:
        if entry.ours and entry.group == group and entry.mode == (_OPEN_FOLDER if entry.is_folder else _OPEN_FILE):
            entry.change(group, _SHUT_FOLDER if entry.is_folder else _SHUT_FILE)


def _admit(folder: Path, group: int) -> None:
    with _Entry(folder) as entry:
        if entry.ours:
            entry.change(group, entry.mode | 0o2050)


class _Entry:
    """A file or folder by descriptor. ours: it belongs to this user, has this one name only, and is no link to another
    place."""

    def __init__(self, path: Path) -> None:
        self.ours, self.is_folder, self.mode, self.group = False, False, 0, -1
        self._descriptor = -1
        with suppress(OSError):  # a link, a socket, or another user's
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            status = os.fstat(self._descriptor)
            self.is_folder = stat.S_ISDIR(status.st_mode)
            self.mode, self.group = stat.S_IMODE(status.st_mode), status.st_gid
            alone = self.is_folder or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)
            self.ours = alone and status.st_uid == os.geteuid()

    def change(self, group: int, mode: int) -> None:
        os.fchown(self._descriptor, -1, group)
        os.fchmod(self._descriptor, mode)

    def __enter__(self) -> _Entry:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
