"""The groups of config/subscriptionGroup.json for processes that do not write it: read again when it is another file."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.store.config import GROUPS, GroupConfig, load_groups
from orbitmq.store.layout import StoreLayout


class GroupFile:
    """groups: as they were read last."""

    def __init__(self, layout: StoreLayout) -> None:
        self._layout = layout
        self._path = layout.config / GROUPS
        self._mark: tuple[int, ...] | None = None
        self.groups: Mapping[str, GroupConfig] = {}

    def look(self) -> bool:
        """True: the file was read anew. Raises: StoreFailed: it cannot be read; the next look tries again."""
        mark = self._marked()
        if mark == self._mark:
            return False
        self.groups, _ = load_groups(self._layout)
        self._mark = mark
        return True

    def _marked(self) -> tuple[int, ...] | None:
        """Each change puts another file in its place. None: there is none."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
