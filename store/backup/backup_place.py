"""Where a backup goes: it is made in the folder DIR.partial and gets its name when it is whole, in place of the last one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from orbitmq.errors import StoreUnsupported
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.disk_fault import said
from orbitmq.store import atomic_file
from orbitmq.store.backup import backup_note
from orbitmq.store.file_system import disk_error, refuse_network
from orbitmq.store.layout import StoreLayout
from orbitmq.store.lock import StoreLock

SUFFIX = ".partial"
_UNFINISHED = "unfinished"  # in orbitmq/: this folder is a backup's, and may be removed


@dataclass(slots=True)
class BackupPlace:
    """target: the folder that the user named. image: where the backup is made. last: the backup that is there already."""

    target: StoreLayout
    image: StoreLayout
    last: StoreLayout | None

    @classmethod
    @contextmanager
    def take(cls, source: StoreLayout, folder: str | os.PathLike[str]) -> Iterator[BackupPlace]:
        """An empty store folder for the image, locked until the end, and removed if it is not finished.

        Raises: StoreUnsupported: this is no place for a backup; has .path. StoreLocked; StoreFull; StoreFailed.
        """
        target = StoreLayout.at(folder)
        image = StoreLayout.at(target.root.with_name(target.root.name + SUFFIX))
        _refuse_place(source, target)
        last = _last_backup(source, target)
        refuse_network(target.root)
        locks = []
        try:
            if last is not None:
                locks.append(StoreLock.acquire(last, "backup"))
            try:
                _begin(image)
            except OSError as error:
                raise disk_error(error, target.root.parent, 0, f"the backup {target.root}") from error
            locks.append(StoreLock.acquire(image, "backup"))
            try:
                _clear(image, but=("lock", "orbitmq"))
                image.make_folders()
                yield cls(target, image, last)
            except BaseException:
                with suppress(OSError):
                    _remove(image)
                raise
        finally:
            for lock in locks:
                lock.release()

    def finish(self) -> None:
        """Gives the image its name. It is whole, and durable. Raises: StoreUnsupported, StoreFailed."""
        for path in (self.image.own / _UNFINISHED, self.image.holder):
            path.unlink(missing_ok=True)
        atomic_file.sync_folder(self.image.own)
        crash_point("backup_place_ready")
        try:
            if self.last is None:
                self.image.root.rename(self.target.root)
            else:
                atomic_file.exchange(self.image.root, self.target.root)
            crash_point("backup_place_renamed")
            atomic_file.sync_folder(self.target.root.parent)
        except OSError as error:
            raise StoreUnsupported(
                f"cannot put the backup in the place of {self.target.root}: {said(error)}",
                hint="remove the folder, or name another",
                path=str(self.target.root),
            ) from error
        if self.last is not None:
            _remove(self.image)


def _refuse_place(source: StoreLayout, target: StoreLayout) -> None:
    why = None
    if target.root.name.endswith(SUFFIX):
        why = f"names that end in {SUFFIX} are for backups that are being made"
    elif target.root == source.root:
        why = "that is the store itself"
    elif target.root.is_relative_to(source.root):
        why = f"it lies in the store {source.root}"
    elif source.root.is_relative_to(target.root):
        why = f"the store {source.root} lies in it"
    elif not target.root.parent.is_dir():
        why = f"there is no folder {target.root.parent}"
    if why is not None:
        raise StoreUnsupported(
            f"cannot back up into {target.root}: {why}",
            hint="name a folder beside the store, or on another disk",
            path=str(target.root),
        )


def _last_backup(source: StoreLayout, target: StoreLayout) -> StoreLayout | None:
    if not os.path.lexists(target.root) or (target.root.is_dir() and not any(target.root.iterdir())):
        return None
    note = backup_note.load(target) if target.root.is_dir() else None
    if note is not None and note.store == str(source.root):
        return target
    what = (
        f"it holds a backup of {note.store}"
        if note is not None
        else "a broker has used that backup as its store since"
        if target.backup_json.is_file()
        else "it exists, and is no backup"
    )
    raise StoreUnsupported(
        f"cannot back up {source.root} into {target.root}: {what}",
        hint="name another folder, or move this one",
        path=str(target.root),
    )


def _begin(image: StoreLayout) -> None:
    """Makes the folder, with the sign that it may be removed. Raises: StoreUnsupported: it is something else; OSError."""
    mark = image.own / _UNFINISHED
    if os.path.lexists(image.root) and not mark.exists():
        known = image.root.is_dir() and (
            backup_note.load(image) is not None or not any(path.is_file() for path in image.root.rglob("*"))
        )
        if not known:
            raise StoreUnsupported(
                f"cannot make a backup in {image.root}: it exists, and is not an unfinished backup",
                hint="move it elsewhere",
                path=str(image.root),
            )
    atomic_file.make_folder(image.own)
    atomic_file.write_synced(mark, b"")
    atomic_file.sync_folder(image.own)
    crash_point("backup_place_begun")


def _remove(image: StoreLayout) -> None:
    """Removes the folder. If it is killed in between, the rest does not look like a backup and is known as one's remains."""
    atomic_file.write_synced(image.own / _UNFINISHED, b"")
    atomic_file.sync_folder(image.own)
    backup_note.remove(image)
    crash_point("backup_place_discarded")
    _clear(image, but=("orbitmq",))
    shutil.rmtree(image.root)


def _clear(image: StoreLayout, but: tuple[str, ...]) -> None:
    """Removes what is in the folder except these names, and what is in orbitmq/ except the sign."""
    backup_note.remove(image)
    for folder, keep in ((image.root, but), (image.own, (_UNFINISHED, image.holder.name))):
        for path in folder.iterdir():
            if path.name in keep:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
