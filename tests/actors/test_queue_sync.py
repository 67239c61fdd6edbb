"""The checkpoint never claims what a sync has not done."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.actors import queue_sync
from orbitmq.actors.queue_sync import QueueSync
from orbitmq.store.checkpoint import Checkpoint
from orbitmq.store.layout import StoreLayout


class OneQueue:
    """A registry of one topic with one queue, as full as the test says."""

    maximum = 10

    def __iter__(self) -> Any:
        return iter([SimpleNamespace(name="T", queues=1, first_slot=0)])

    def bounds(self, slot: int) -> Any:
        return SimpleNamespace(maximum=self.maximum)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """As much of a tree as QueueSync looks at: reput has read 1000 bytes of log, and made a queue of them."""
    layout = StoreLayout.at(str(tmp_path))
    layout.make_folders()
    positions = SimpleNamespace(reput_ms=1_700_000_000_000, reput=1000, flushed=1000)
    settings = SimpleNamespace(layout=layout, files=SimpleNamespace(queue_file_units=1000))
    monkeypatch.setattr(queue_sync, "TopicTable", lambda *_: OneQueue())
    return SimpleNamespace(settings=settings, topics=None, seen=positions, positions=lambda: positions)


def test_a_failed_sync_is_tried_again(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Method: the disk refuses the first sync. The checkpoint stays; the next run syncs the very same file, then moves it."""
    layout = tree.settings.layout
    sync, synced, broken = QueueSync(tree), [], True

    def disk(path: Path) -> None:
        if broken:
            raise OSError(5, "input/output error")
        synced.append(path)

    monkeypatch.setattr(queue_sync, "_sync", disk)
    with pytest.raises(OSError, match="input/output"):
        sync.run()
    assert Checkpoint.load(layout).logics_ms == 0
    broken = False
    assert sync.run()
    assert synced == [layout.queue_folder("T", 0) / f"{0:020d}"]
    assert Checkpoint.load(layout).logics_ms == tree.seen.reput_ms
    assert not sync.run()


def test_the_newest_index_file_is_synced_and_not_claimed(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """RocketMQ's checkpoint names the end of the last index file that no more is added to. Whatever was not claimed is synced,
    however many files were filled meanwhile."""
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
