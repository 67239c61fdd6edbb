"""The last wait of a start: reput first completes queues that end before the log does. Until then the queues look shorter to
clients than they are: a consumer could not seek to where it had been, and would find nothing left to read."""

from __future__ import annotations

import time
from collections.abc import Callable

from orbitmq.actors.pages import PAGE_REPUT
from orbitmq.actors.tree import Tree
from orbitmq.store.recovery.report import RecoveryReport

LOOK_S = 0.002
SHOW_S = 0.5


class CatchUp:
    """One start's wait.

    show: gets a line now and then while the wait is long. patience_s: how long reput may make no progress; then the wait is
        given up, and the tree runs as it is."""

    def __init__(self, tree: Tree, report: RecoveryReport, patience_s: float, show: Callable[[str], None]) -> None:
        self._tree = tree
        self._end = report.end if any(queue.max_offset < queue.next_offset for queue in report.queues) else 0
        self._patience_s = patience_s
        self._show = show
        self._seen = -1
        self._moved_at = self._shown_at = time.monotonic()
        self.given_up = False

    def lasts(self) -> bool:
        """False once the queues are complete, and also if reput has failed, which status shows."""
        position, now = int(self._tree.positions().reput), time.monotonic()
        if position >= self._end or self._tree.page_error(PAGE_REPUT):
            return False
        if position != self._seen:
            self._seen, self._moved_at = position, now
        self.given_up = now - self._moved_at > self._patience_s
        if now - self._shown_at > SHOW_S:
            self._shown_at = now
            self._show(f"made the queues anew up to {position:,} of {self._end:,} bytes of the log")
        return not self.given_up
