"""A note of what the writer knows, so that the next start reads less of the log. The scheduler writes it from time to time, and
never says more than the disk has, because a power cut could take back what the note stands on."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from orbitmq.actors.tree import Tree
from orbitmq.actors.trouble import Trouble

Note = TypeVar("Note")


class KeptNote(ABC, Generic[Note]):
    """cannot: what is said, with the reason, when the note cannot be written."""

    cannot: str

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._interval_s = tree.settings.offsets_interval_s
        self._keep_at = time.monotonic() + self._interval_s
        self._next: tuple[Note, int] | None = None  # what to write once the log is on disk up to there
        self._trouble = Trouble()

    def tick(self) -> None:
        if time.monotonic() >= self._keep_at and not self._tree.settings.read_only:
            self._keep_at = time.monotonic() + self._interval_s
            if self.ready():
                self._keep()

    @abstractmethod
    def ready(self) -> bool:
        """The writer knows it: it has read the log."""

    @abstractmethod
    def look(self) -> Note | None:
        """What is known now; None: nothing that the note lacks."""

    @abstractmethod
    def store(self, note: Note) -> None:
        """Raises: OSError."""

    def _keep(self) -> None:
        if self._next is not None and self._tree.positions().flushed >= self._next[1]:
            self._store(self._next[0])
            self._next = None
        found = self.look()
        if found is not None and self._next is None:
            self._next = (found, int(self._tree.positions().wrote))  # all that it stands on is below

    def _store(self, note: Note) -> None:
        try:
            self.store(note)
            self._trouble.over()
        except OSError as error:
            self._trouble.say(f"{self.cannot}: {error}")
