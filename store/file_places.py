"""Folders where files of the store belong: nobody opens such a store, and all say which it is and what belongs there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from orbitmq.errors import StoreUnsupported

if TYPE_CHECKING:
    from orbitmq.store.layout import StoreLayout

_CONFIG = {
    "topics.json": "the file of topics",
    "subscriptionGroup.json": "the file of groups",
    "consumerOffset.json": "the file of the groups' offsets",
}


def refuse_folders(layout: StoreLayout) -> None:
    """Raises: StoreUnsupported: a folder stands where a file belongs; has .path. Files of queues, of which there may be ten
    thousands, are left to who opens them: misplaced()."""
    for path, what in _places(layout):
        if path.is_dir():
            raise _refusal(layout, path, what)


def misplaced(layout: StoreLayout, path: Path) -> StoreUnsupported:
    """The error for a folder that somebody met when he wanted to open a file of the store."""
    return _refusal(layout, path, dict(_places(layout)).get(path, "a file of a queue"))


def _places(layout: StoreLayout) -> Iterator[tuple[Path, str]]:
    yield layout.store_json, "the description of the store"
    yield layout.settings_toml, "the file of settings"
    yield layout.retention, "the note of how long messages are kept"
    yield layout.lock, "the lock"
    yield layout.abort, "the mark of a running broker"
    yield layout.checkpoint, "the checkpoint"
    yield layout.positions, "the file of positions"
    yield layout.rising, "the file of the order of times"
    yield layout.reput, "the file of reput's position"
    yield layout.clock, "the note of the clock"
    yield layout.unsynced, "the note of syncs"
    for half in (0, 1):
        yield layout.commits / f"groups-{half}", "a file of the groups' memory"
    for name, what in _CONFIG.items():
        yield layout.config / name, what
        yield layout.config / f"{name}.bak", f"the copy of {what}"
    for folder, what in ((layout.commitlog, "a file of the log"), (layout.index, "an index file")):
        if folder.is_dir():
            with os.scandir(folder) as entries:
                yield from ((Path(entry.path), what) for entry in entries if entry.name.isdigit())


def _refusal(layout: StoreLayout, path: Path, what: str) -> StoreUnsupported:
    return StoreUnsupported(
        f"cannot use the store {layout.root}: {path} is a folder, where {what} belongs",
        hint="move it elsewhere; what the file held can be put back from a backup, or is made anew by orbitmq repair",
        path=str(path),
    )
