"""Waiting for a broker that is not there: it is looked for when something happens where it would be found, and else every now
and then."""

from __future__ import annotations

import select
from collections.abc import Iterable
from contextlib import suppress
from contextvars import ContextVar
from math import ceil
from pathlib import Path
from types import TracebackType
from typing import Self

from orbitmq.client.bell import Bell
from orbitmq.shm.folder_watch import FolderWatch

LOOK_S = 0.5  # between two looks where the kernel tells of changes: it cannot tell of a broker that was killed as it started
BLIND_LOOK_S = 0.05  # where it does not: there is no such folder yet, or no watch to be had

# Rung when nobody waits any more for what this thread does: an asyncio task was cancelled (aside.py).
given_up: ContextVar[Bell | None] = ContextVar("given_up", default=None)


class Absence:
    """One wait for a broker in `folder`. Made before the look that it is to follow: what happens after it was made ends the
    next pause. bells: each ends it as well."""

    def __init__(self, folder: Path, bells: Iterable[Bell]) -> None:
        self._bells = tuple(bells)
        self._folder = folder
        self._watch = FolderWatch(folder)

    @property
    def over(self) -> bool:
        """Somebody rang."""
        return any(bell.rung for bell in self._bells)

    def pause(self, seconds: float) -> None:
        """Returns when it is worth another look, or after so many seconds."""
        poll = select.poll()
        if self._watch.descriptor < 0:
            self._watch = FolderWatch(self._folder)
        seeing = self._watch.descriptor >= 0
        if seeing:
            poll.register(self._watch.descriptor, select.POLLIN)
        for bell in self._bells:
            try:
                poll.register(bell.descriptor(), select.POLLIN)
            except OSError:
                seeing = False  # no descriptor is left: its word is looked at
        if not self.over:
            poll.poll(ceil(min(max(0.0, seconds), LOOK_S if seeing else BLIND_LOOK_S) * 1000))
        self._watch.drain()
        with suppress(OSError):
            if seeing and not self._folder.is_dir():
                self._watch.close()  # it was removed; another one may come in its place

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._watch.close()

