"""Makes ConsumeQueues and IndexFiles durable, and then the checkpoint: store timestamps below which everything is on disk. The
checkpoint only shortens the next recovery; the log is the truth.

A file is on disk when its bytes are and its name is. So the folders of files that were made since the last time are synced too,
and the folders above them.

A sync that failed is not tried again: the kernel treats a page that it could not write as written, so the next sync would
succeed and mean nothing. The checkpoint stays where it was, the word in orbitmq/unsynced stays raised, and the next start makes
anew what the checkpoint does not cover. A process that was killed in a sync leaves the word raised too. Its successor writes
the queues' units again, which nobody changes once they are published, and continues; index files change in place, so they are
left to the next start."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from orbitmq.actors.tree import Tree
from orbitmq.native._core import lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import TopicTable
from orbitmq.store import index_headers
from orbitmq.store.checkpoint import Checkpoint
from orbitmq.store.consume_queue import UNIT_SIZE
from orbitmq.store.queue_rewrite import rewrite_units
from orbitmq.store.unsynced import Unsynced
from orbitmq.store.unsynced import load as load_doubt


class SyncError(OSError):
    """The disk did not take what was written. Nothing more is synced, and the checkpoint claims nothing more, until the next
    start."""


class QueueSync:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._layout = tree.settings.layout
        self._topics = TopicTable(tree.topics)
        self._file_size = UNIT_SIZE * tree.settings.files.queue_file_units
        self._synced: dict[int, int] = {}  # max offset of each queue slot when it was synced
        self._buried = self._topics.buried
        self._synced_reput = -1  # as the checkpoint says
        self.position = 0  # physical offset below which all units are on disk
        self._index_names: list[str] = []  # files whose names are on disk
        self._unsynced = Unsynced(self._layout)
        self._predecessor_died = load_doubt(self._layout).queues  # in the middle of a sync
        self._doubt_index = self._predecessor_died
        self._failed = bool(lib.control_queues_error(tree.control))

    def run(self) -> bool:
        """Syncs once. False if reput has not moved since, or a sync has failed before. Nothing is claimed if it raises.

        Raises: SyncError: the sync failed now; OSError: it did not get to the sync, and the next round tries again."""
        if self._failed:
            return False
        try:
            return self._run()
        except SyncError as error:
            self._failed = True
            lib.control_set_queues_error(self._tree.control, error.errno or errno.EIO)
            raise

    def _run(self) -> bool:
        # Two looks: the time from the first one belongs to a position that the second one has certainly passed.
        newest_ms = int(self._tree.positions().reput_ms)
        reput = int(self._tree.positions().reput)
        if reput == self._synced_reput:
            return False
        buried = self._topics.buried
        if buried != self._buried:
            # Whatever is made anew of what was removed has new names.
            self._synced, self._buried = {}, buried
        maxima = dict(self._synced)
        before = Checkpoint.load(self._layout)
        index = index_headers.load(self._layout)
        names = [header.path.name for header in index]
        files, folders = self._changed_queues(maxima)
        if self._topics.buried != buried:
            return False  # some of these files may have been made since the first look
        files += [header.path for header in index if header.end_ms >= before.index_ms]
        if names != self._index_names:
            folders.add(self._layout.index)
        self._unsynced.raise_queues()
        crash_point("queue_sync_raised")
        if self._predecessor_died:
            self._rewrite(before)
            self._predecessor_died = False
        for path in files if len(files) > 1 else ():
            lib.write_back(os.fsencode(path))
        for path in files:
            _sync(path)
            crash_point("queue_sync_file")
        for folder in sorted(folders):
            _sync_folder(folder)
            crash_point("queue_sync_folder")
        # Only now: what a failed sync leaves out is tried again, and nothing claims it meanwhile.
        self._synced, self._index_names = maxima, names
        self.position = reput
        # The newest index file does not count: after a crash RocketMQ removes every file that reaches beyond this time, and
        # indexes again from this time on.
        index_ms = before.index_ms if self._doubt_index else index[-2].end_ms if len(index) > 1 else 0
        on_disk = int(self._tree.positions().flushed) >= reput
        physic_ms = max(before.physic_ms, newest_ms) if on_disk else before.physic_ms
        Checkpoint(physic_ms, max(before.logics_ms, newest_ms), index_ms).store(self._layout)
        crash_point("queue_sync_stored")
        if not self._doubt_index:
            self._unsynced.lower_queues()
        self._synced_reput = reput
        return True

    def run_last(self) -> None:
        """Syncs what is left at a clean stop, and reput's commit too: the next start believes it, and the index as it says.
        While reput works, its commit is not synced, because a power cut then makes it void. Raises: OSError."""
        self.run()
        if self._failed:
            number = lib.control_queues_error(self._tree.control)
            raise SyncError(number, f"{os.strerror(number)}, when they were synced before")
        _sync(self._layout.reput)
        _sync_folder(self._layout.own)
        if not self._doubt_index:
            self._unsynced.lower_queues(durable=True)

    def _rewrite(self, before: Checkpoint) -> None:
        """Writes again units that a predecessor may have failed to sync."""
        for topic in self._topics:
            for queue in range(topic.queues):
                bounds = self._topics.bounds(topic.first_slot + queue)
                if not rewrite_units(self._layout, self._tree.settings.files, (topic.name, queue), bounds, before.threshold_ms):
                    what = f"units of {topic.name}/{queue} could not be written again"
                    raise SyncError(errno.EIO, what, str(self._layout.queue_folder(topic.name, queue)))

    def _changed_queues(self, maxima: dict[int, int]) -> tuple[list[Path], set[Path]]:
        """ConsumeQueue files with units beyond `maxima`, which it brings up to date, and the folders that have new names."""
        changed: list[Path] = []
        folders: set[Path] = set()
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
                if slot not in self._synced:
                    folders |= {folder, folder.parent, self._layout.consumequeue}
                elif before * UNIT_SIZE % self._file_size == 0 or first != last:
                    folders.add(folder)
        return changed, folders


def _sync_folder(folder: Path) -> None:
    # A folder that somebody has removed is treated in the same way.
    with suppress(FileNotFoundError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        _sync_open(descriptor, folder, os.fsync)


def _sync(path: Path) -> None:
    # A file that retention has removed needs no sync.
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        _sync_open(descriptor, path, os.fdatasync)


def _sync_open(descriptor: int, path: Path, sync: Callable[[int], None]) -> None:
    """Raises: SyncError."""
    try:
        sync(descriptor)
    except OSError as error:
        raise SyncError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(descriptor)
