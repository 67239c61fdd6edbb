"""Removes the files of everything that lies before a new beginning of the log.

The log's files go first, oldest first, then those of the queues, then those of the index. Each removal is durable before the
next one that depends on it. Whatever process is killed, and whenever the power fails, what stays is a log without a gap and
queues without a gap. Queues and index may still name messages that are gone, which every reader skips. In the other order there
would be messages that no queue leads to.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from orbitmq.errors import OffsetOutOfRange
from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file, index_headers
from orbitmq.store.commit_log import mapped_file
from orbitmq.store.consume_queue import ConsumeQueue, queues
from orbitmq.store.layout import StoreLayout
from orbitmq.store.reput_commit import ReputCommit
from orbitmq.store.settings.settings import StoreSettings


@dataclass(slots=True)
class Removed:
    """How many files were removed. whole: nothing is left to remove."""

    log: int = 0
    queue: int = 0
    index: int = 0
    whole: bool = False


def trim(layout: StoreLayout, settings: StoreSettings, begin: int, stopping: Callable[[], bool]) -> Removed:
    """Removes every file whose content lies before the physical offset `begin`, the start of a log file. The newest file of
    each queue and of the index stays. The caller has published `begin`, so readers continue after it.

    stopping: asked between two files; true ends the work early, and the next call continues. Raises: OSError.
    """
    removed = Removed()
    for start in mapped_file.list_starts(layout, settings.log_file_size):
        if start >= begin:
            break
        if stopping():
            return removed
        layout.log_file(start).unlink()
        # Two of them at once could leave a gap after a power cut.
        atomic_file.sync_folder(layout.commitlog)
        removed.log += 1
        crash_point("trim_log_removed")
    for topic, queue in queues(layout.root):
        if stopping():
            return removed
        # Those of a deleted topic may go meanwhile (actors/burial.py).
        with suppress(FileNotFoundError, OffsetOutOfRange):
            for path in ConsumeQueue(layout.root, topic, queue, settings.queue_file_units).expired(begin):
                path.unlink()
                # As above: a queue ends where a gap begins.
                atomic_file.sync_folder(path.parent)
                removed.queue += 1
                crash_point("trim_queue_removed")
    removed.index = _trim_index(layout, begin)
    removed.whole = True
    return removed


def _trim_index(layout: StoreLayout, begin: int) -> int:
    """Only files older than the one that reput's commit names: reput writes that one and those after it, or rolls them back."""
    commit = ReputCommit.load(layout)
    newest = commit.index_file if commit is not None else None
    count = 0
    for header in index_headers.load(layout):
        if newest is None or header.path.name >= newest or header.end_offset >= begin:
            break
        header.path.unlink()
        count += 1
        crash_point("trim_index_removed")
    return count
