"""Defects, for tests of the test, which must catch each. Most are earlier behaviour of OrbitMQ, before it knew that a sync that
succeeds does not undo one that failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orbitmq.actors import queue_sync
from orbitmq.actors.kept_note import KeptNote
from orbitmq.store.recovery import log_rewrite
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


DEEDS = (log_not_written_again, queues_synced_again, word_overlooked, noted_too_soon)
OLD: dict[str, Callable[[], None]] = {deed.__name__: deed for deed in DEEDS}
