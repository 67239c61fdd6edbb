"""Makes ConsumeQueues and IndexFiles durable, and the checkpoint after them: store timestamps below which everything
is on disk. It only shortens the next recovery; the log is the truth."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from orbitmq.actors.tree import Tree
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import TopicTable
from orbitmq.store import index_headers
from orbitmq.store.checkpoint import Checkpoint
from orbitmq.store.consume_queue import UNIT_SIZE


class QueueSync:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._layout = tree.settings.layout
        self._topics = TopicTable(tree.topics)
        self._file_size = UNIT_SIZE * tree.settings.files.queue_file_units
        self._synced: dict[int, int] = {}  # max offset of each queue slot when it was synced
        self._synced_reput = -1

    def run(self) -> bool:
        """Syncs once; False when reput has not moved since. Raises: OSError: nothing is claimed."""
        # Two looks: the time of the first belongs to a position that the second has passed for certain.
        newest_ms = int(self._tree.positions().reput_ms)
        reput = int(self._tree.positions().reput)
        if reput == self._synced_reput:
            return False
        maxima = dict(self._synced)
        before = Checkpoint.load(self._layout)
        index = index_headers.load(self._layout)
        for path in self._changed_queues(maxima) + [header.path for header in index if header.end_ms >= before.index_ms]:
            _sync(path)
            crash_point("queue_sync_file")
        self._synced = maxima  # only now: what a failed sync leaves out is tried again, and claimed by nobody meanwhile
        # The newest index file does not count: after a crash RocketMQ takes every file that reaches beyond this time away, and
        # indexes again from this time on.
        index_ms = index[-2].end_ms if len(index) > 1 else 0
        on_disk = int(self._tree.positions().flushed) >= reput
        physic_ms = max(before.physic_ms, newest_ms) if on_disk else before.physic_ms
        Checkpoint(physic_ms, max(before.logics_ms, newest_ms), index_ms).store(self._layout)
        crash_point("queue_sync_stored")
        self._synced_reput = reput
        return True

    def _changed_queues(self, maxima: dict[int, int]) -> list[Path]:
        """ConsumeQueue files with units beyond `maxima`, which is brought up to now."""
        changed: list[Path] = []
        for topic in self._topics:
            for queue in range(topic.queues):
                slot = topic.first_slot + queue
                maximum = self._topics.bounds(slot).maximum
                before = maxima.get(slot, 0)
                if maximum == before:
                    continue
                maxima[slot] = maximum
                folder = self._layout.queue_folder(topic.name, queue)
                first = before * UNIT_SIZE // self._file_size * self._file_size
                last = (maximum - 1) * UNIT_SIZE // self._file_size * self._file_size
                changed += [folder / f"{start:020d}" for start in range(first, last + 1, self._file_size)]
        return changed


def _sync(path: Path) -> None:
    # A file that retention has removed needs no syncing.
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
