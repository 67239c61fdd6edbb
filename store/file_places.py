"""Folders in places where files of the store belong. No command opens such a store; each says which folder it is and what
belongs there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from orbitmq.errors import StoreUnsupported

File = tuple[Path, str]  # and what the file is


def refuse_folders(root: Path, files: Iterable[File]) -> None:
    """files: of the store at root. Raises: StoreUnsupported: one of them is a folder; has .path. Files of queues, of which
    there may be ten thousands, are checked when they are opened: misplaced()."""
    for path, what in files:
        if path.is_dir():
            raise _refusal(root, path, what)


def misplaced(root: Path, files: Iterable[File], path: Path) -> StoreUnsupported:
    """The error for a folder that was found when a file of the store was to be opened."""
    return _refusal(root, path, dict(files).get(path, "a file of a queue"))


def _refusal(root: Path, path: Path, what: str) -> StoreUnsupported:
    return StoreUnsupported(
        f"cannot use the store {root}: {path} is a folder, where {what} belongs",
        hint="move it elsewhere; what the file held can be put back from a backup, or is made anew by orbitmq repair",
        path=str(path),
    )
