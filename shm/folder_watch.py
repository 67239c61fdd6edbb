"""A folder to wait on: a descriptor that becomes readable when a name in the folder comes, changes or goes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from orbitmq.native._core import lib


class FolderWatch:
    """descriptor: for poll; -1 if the folder does not exist, or this user has no watch left. The caller then has to look from
    time to time."""

    def __init__(self, folder: Path) -> None:
        self.descriptor: int = max(-1, lib.watch_open(os.fsencode(folder)))

    def drain(self) -> None:
        """Forgets what has happened so far."""
        if self.descriptor >= 0:
            lib.watch_drain(self.descriptor)

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
