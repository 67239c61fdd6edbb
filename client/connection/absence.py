"""Waiting for a broker that is not there. The client looks for it when something happens in the place where it would appear,
and otherwise from time to time."""

from __future__ import annotations

import select
from collections.abc import Iterable
from contextlib import suppress
from contextvars import ContextVar
from math import ceil
from pathlib import Path
from types import TracebackType
from typing import Self

from orbitmq.client.connection.bell import Bell
from orbitmq.shm.folder_watch import FolderWatch

LOOK_S = 0.5  # between two looks if the kernel reports changes; it cannot report a broker that was killed while it started
BLIND_LOOK_S = 0.05  # between two looks if it does not: the folder does not exist yet, or no watch is left

# Rung when nobody waits any more for what this thread does, because an asyncio task was cancelled (aio/aside.py).
given_up: ContextVar[Bell | None] = ContextVar("given_up", default=None)


class Absence:
    """One wait for a broker in `folder`. Make it before you look for the broker: anything that happens after it was made ends
    the next pause. Each of the `bells` ends the pause as well."""

    def __init__(self, folder: Path, bells: Iterable[Bell]) -> None:
        self._bells = tuple(bells)
        self._folder = folder
        self._watch = FolderWatch(folder)

    @property
    def over(self) -> bool:
        """True if somebody rang a bell."""
        return any(bell.rung for bell in self._bells)

    def pause(self, seconds: float) -> None:
        """Returns when it is worth looking again, or after so many seconds."""
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
                seeing = False  # no descriptor is left for the bell: look at its word instead
        if not self.over:
            poll.poll(ceil(min(max(0.0, seconds), LOOK_S if seeing else BLIND_LOOK_S) * 1000))
        self._watch.drain()
        with suppress(OSError):
            if seeing and not self._folder.is_dir():
                self._watch.close()  # the folder was removed; another one may take its place

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._watch.close()

