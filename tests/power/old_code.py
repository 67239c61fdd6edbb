"""Defects, for tests of the test, which must catch each. Most are earlier behaviour of OrbitMQ, before it knew that a sync that
succeeds does not undo one that failed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from orbitmq.actors import queue_sync, scheduler
from orbitmq.actors.halves import HalvesNote
from orbitmq.actors.kept_note import KeptNote
from orbitmq.store.recovery import log_rewrite, lone_commit
from orbitmq.store.recovery import recover as recovery
from orbitmq.store.unsynced import Doubt


def log_not_written_again() -> None:
    """A start syncs what memory has, and treats it as flushed."""
    changed: Any = log_rewrite
    changed._rewrite = changed._write_past_cache = lambda *_: None


def queues_synced_again() -> None:
    """A sync of queues or index that failed is tried again, and then vouched for. The word is ignored."""

    def run(self: queue_sync.QueueSync) -> bool:
        return self._run()

    changed: Any = queue_sync.QueueSync
    changed.run = run
    word_overlooked()


def word_overlooked() -> None:
    """A start, or a successor, does not check which syncs were begun."""

    def nothing(layout: object) -> Doubt:
        return Doubt()

    modules: tuple[Any, ...] = (queue_sync, recovery)
    for module in modules:
        module.load_doubt = nothing


def noted_too_soon() -> None:
    """A note of where groups are is written before the records that it stands on are on disk."""

    def keep(self: Any) -> None:
        found = self.look()
        if found is not None:
            self._store(found)

    changed: Any = KeptNote
    changed._keep = keep


def halves_noted_too_soon() -> None:
    """The same, of which half messages are settled alone: the log's end may lack what has settled them."""

    def keep(self: Any) -> None:
        found = self.look()
        if found is not None:
            self._store(found)

    changed: Any = HalvesNote
    changed._keep = keep


def deliveries_noted_too_soon() -> None:
    """A note of which delayed messages have come is written before they are on disk in their topics."""
    kept = scheduler.now

    def now(tree: Any) -> Any:
        class Ahead:
            """All that was written counts as on disk."""

            def __getattr__(self, name: str) -> Any:
                return getattr(tree, name)

            def positions(self) -> Any:
                return SimpleNamespace(flushed=tree.positions().wrote)

        return kept(Ahead())  # type: ignore[arg-type]

    changed: Any = scheduler
    changed.now = now


def deliveries_not_looked_for() -> None:
    """A start believes the note, and does not read in the log what has come since."""
    begin = scheduler.Scheduler._begin

    def begin_at_end(self: scheduler.Scheduler) -> None:
        if self._files.start is not None:
            self._files = self._files._replace(start=int(self.tree.positions().wrote))
        begin(self)

    changed: Any = scheduler.Scheduler
    changed._begin = begin_at_end


def lone_commit_kept() -> None:
    """A message of a transaction at the very end of the log stays, although what settles its half is not there."""
    changed: Any = lone_commit
    changed.without = lambda scan, _: scan


DEEDS = (log_not_written_again, queues_synced_again, word_overlooked, noted_too_soon)
OLD: dict[str, Callable[[], None]] = {deed.__name__: deed for deed in DEEDS}
LATER = (halves_noted_too_soon, deliveries_noted_too_soon, deliveries_not_looked_for, lone_commit_kept)
LATER_DEEDS: dict[str, Callable[[], None]] = {deed.__name__: deed for deed in LATER}
OLD |= LATER_DEEDS
