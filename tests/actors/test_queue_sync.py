"""The checkpoint never claims what a sync has not done."""

from __future__ import annotations

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


def test_a_failed_sync_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Method: the disk refuses the first sync. The checkpoint stays; the next run syncs the very same file, then moves it."""
    layout = StoreLayout.at(str(tmp_path))
    layout.make_folders()
    positions = SimpleNamespace(reput_ms=1_700_000_000_000, reput=1000, flushed=1000)
    settings = SimpleNamespace(layout=layout, files=SimpleNamespace(queue_file_units=1000))
    tree: Any = SimpleNamespace(settings=settings, topics=None, positions=lambda: positions)
    monkeypatch.setattr(queue_sync, "TopicTable", lambda *_: OneQueue())
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
    assert Checkpoint.load(layout).logics_ms == positions.reput_ms
    assert not sync.run()
