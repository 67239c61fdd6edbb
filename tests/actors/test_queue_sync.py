"""The checkpoint never claims what no sync has done. Of what the flush service does for queues and index (actors/flush.py),
with store/queue_rewrite.py."""

from __future__ import annotations

import errno
import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.actors import queue_sync
from orbitmq.actors.queue_sync import QueueSync
from orbitmq.native._core import ffi, lib
from orbitmq.shm.topic_table import QueueBounds
from orbitmq.store import unsynced
from orbitmq.store.checkpoint import Checkpoint
from orbitmq.store.consume_queue import UNIT_SIZE
from orbitmq.store.layout import StoreLayout


class OneQueue:
    """A registry of one topic with one queue, as full as the test says."""

    maximum = 10
    buried = 0

    def __iter__(self) -> Any:
        return iter([SimpleNamespace(name="T", queues=1, first_slot=0)])

    def bounds(self, slot: int) -> Any:
        return QueueBounds(0, self.maximum)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """As much of a tree as QueueSync looks at: reput has read 1000 bytes of log, and made a queue of them."""
    layout = StoreLayout.at(str(tmp_path))
    layout.make_folders()
    positions = SimpleNamespace(reput_ms=1_700_000_000_000, reput=1000, flushed=1000)
    settings = SimpleNamespace(layout=layout, files=SimpleNamespace(queue_file_units=1000, log_file_size=1 << 20))
    held = ffi.from_buffer(mmap.mmap(-1, ffi.sizeof("struct control")))
    monkeypatch.setattr(queue_sync, "TopicTable", lambda *_: OneQueue())
    control = ffi.cast("struct control *", held)
    return SimpleNamespace(
        settings=settings, topics=None, control=control, held=held, seen=positions, positions=lambda: positions
    )


class Disk:
    """os.fdatasync, controlled by the test: it fails for paths for which `broken` is true."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broken: Callable[[str], bool] = lambda path: False
        self.synced: list[str] = []
        monkeypatch.setattr(os, "fdatasync", self.sync)

    def sync(self, descriptor: int) -> None:
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        if self.broken(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.synced.append(path)


def write_queue(tree: Any, units: int) -> Path:
    """The queue's file, with so many units of ten bytes."""
    path: Path = tree.settings.layout.queue_folder("T", 0) / f"{0:020d}"
    path.parent.mkdir(parents=True)
    content = b"".join(struct.pack(">QIQ", 10 * n, 10, 0) for n in range(units))
    path.write_bytes(content.ljust(1000 * UNIT_SIZE, b"\0"))
    return path


def test_a_failed_sync_is_never_tried_again(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel treats the pages as written, so the next sync would succeed and mean nothing. Method: the disk refuses one
    sync. The checkpoint stays, also with a successor and at a stop, and the next start is told."""
    layout, path, disk = tree.settings.layout, write_queue(tree, 10), Disk(monkeypatch)
    sync = QueueSync(tree)
    disk.broken = lambda synced: synced == str(path)
    with pytest.raises(queue_sync.SyncError, match="Input/output") as caught:
        sync.run()
    assert caught.value.filename == str(path)
    disk.broken = lambda synced: False
    disk.synced.clear()
    for again in (sync, QueueSync(tree)):
        assert not again.run()
        with pytest.raises(queue_sync.SyncError, match="Input/output"):
            again.run_last()
    assert disk.synced == [] and lib.control_queues_error(tree.control) == errno.EIO
    assert Checkpoint.load(layout).logics_ms == 0 and unsynced.load(layout).queues


@pytest.mark.parametrize("lost", [False, True])
def test_a_successor_writes_the_units_again(tree: Any, monkeypatch: pytest.MonkeyPatch, lost: bool) -> None:
    """A flush service that was killed in a sync may have seen it fail. Method: the word is raised; written bytes are counted.
    What memory has lost is a unit of zeros. Index files are not vouched for until they are made anew."""
    layout, path, disk = tree.settings.layout, write_queue(tree, 10), Disk(monkeypatch)
    word = unsynced.Unsynced(layout)
    word.raise_queues()
    for number in (1, 2, 3):
        header = struct.pack(">qqqqii", 0, 100 * number, 0, 0, 5, 6)
        (layout.index / f"{number:017d}").write_bytes(header)
    if lost:
        content = path.read_bytes()
        path.write_bytes(content[: 5 * UNIT_SIZE] + bytes(UNIT_SIZE) + content[6 * UNIT_SIZE :])
    sync, before = QueueSync(tree), path.stat().st_mtime_ns
    if lost:
        with pytest.raises(queue_sync.SyncError, match="could not be written again"):
            sync.run()
        assert Checkpoint.load(layout).logics_ms == 0
    else:
        assert sync.run()
        assert path.stat().st_mtime_ns > before and disk.synced.count(str(path)) == 2
        assert (Checkpoint.load(layout).logics_ms, Checkpoint.load(layout).index_ms) == (tree.seen.reput_ms, 0)
    assert unsynced.load(layout).queues, "the next start makes the index anew"


def test_the_word_stands_while_files_are_synced(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, path, disk = tree.settings.layout, write_queue(tree, 10), Disk(monkeypatch)
    seen = []
    disk.broken = lambda synced: bool(seen.append((Path(synced).name, unsynced.load(layout).queues)))
    sync = QueueSync(tree)
    assert sync.run()
    assert (path.name, True) in seen and not unsynced.load(layout).queues


def test_the_newest_index_file_is_synced_and_not_claimed(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """RocketMQ's checkpoint names the end of the last index file to which nothing is added any more. Everything that was not
    claimed is synced, however many files were filled in the meantime."""
    layout = tree.settings.layout
    synced: list[str] = []
    monkeypatch.setattr(queue_sync, "_sync", lambda path: synced.append(path.name))
    sync = QueueSync(tree)
    claimed = []
    for files in ([], [1], [1, 2, 3], [1, 2, 3], [3, 4]):
        for path in layout.index.iterdir():
            path.unlink()
        for number in files:
            header = struct.pack(">qqqqii", 0, 100 * number, 0, 0, 5, 6)
            (layout.index / f"{number:017d}").write_bytes(header)
        tree.seen.reput += 1
        synced.clear()
        assert sync.run()
        claimed.append(([int(name) for name in synced if len(name) == 17], Checkpoint.load(layout).index_ms))
    assert claimed == [([], 0), ([1], 0), ([1, 2, 3], 200), ([2, 3], 200), ([3, 4], 300)]


def test_names_of_what_was_made_after_a_removal_are_synced(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reput has removed the files of a deleted topic, and makes new ones: their names are new too."""
    write_queue(tree, 10)
    made = QueueSync(tree)
    folders: list[Path] = []
    monkeypatch.setattr(queue_sync, "_sync_folder", folders.append)
    queue = tree.settings.layout.queue_folder("T", 0)
    assert made.run() and {queue, queue.parent, queue.parent.parent} <= set(folders)
    folders.clear()
    tree.seen.reput, OneQueue.maximum = 1100, 11
    try:
        assert made.run() and queue not in folders
        OneQueue.buried = 1
        tree.seen.reput, OneQueue.maximum = 1200, 12
        assert made.run() and {queue, queue.parent, queue.parent.parent} <= set(folders)
    finally:
        OneQueue.buried, OneQueue.maximum = 0, 10
