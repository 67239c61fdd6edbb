"""The CommitLog writer (native/actors/writer/writer.h): takes over from its predecessor or from recovery, then appends."""

from __future__ import annotations

from orbitmq.actors import halves
from orbitmq.actors.actor import CoreActor
from orbitmq.actors.groups import group_commits
from orbitmq.actors.pages import PAGE_WRITER
from orbitmq.actors.tree import Tree
from orbitmq.native._core import lib
from orbitmq.store.unsynced import Unsynced


class Writer(CoreActor):
    kind = "writer"

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree, PAGE_WRITER)
        self.owns_log = False
        self._unsynced = Unsynced(tree.settings.layout)
        self._left_over: int | None = None  # where that ends; None: nobody has looked yet

    def run(self, limit_ms: int) -> None:
        if self.owns_log:
            super().run(limit_ms)
        else:
            self.take_over(limit_ms)

    def take_over(self, limit_ms: int) -> None:
        """Clears up after the predecessor, then waits for limit_ms at most until reput has caught up with its log: before that,
        the queues' next offsets are not known. That may take longer than one call, so orders are looked at in between."""
        self._note_left_over()
        result = lib.writer_take_over(self.handle, limit_ms)
        if result == lib.RUN_FAILED:
            self.fail()
        if result == lib.RUN_NEED:
            halves.restore(self.tree, self.handle)
            group_commits.restore(self.tree, self.handle)
        self.owns_log = result == lib.RUN_NEED
        if self.owns_log and self._left_over and not self.tree.positions().wrote_error:
            self._unsynced.lower_tail()

    def _note_left_over(self) -> None:
        """If this sync fails, the next start writes again what is zeroed now. Raises: OSError."""
        if self._left_over is None:
            self._left_over = int(lib.writer_left_over(self.handle))
            if self._left_over:
                self._unsynced.raise_tail(self._left_over)

    def step(self) -> int:
        # A writer that was stopped before it had taken over leaves everything to the next one.
        return super().step() if self.owns_log else 0
