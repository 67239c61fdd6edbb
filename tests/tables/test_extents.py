"""Goal: planning sees what a store holds, no more and no less. Method: stores made by hand, also such as crashes leave."""

from __future__ import annotations

import os
import struct
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orbitmq.client import client
from orbitmq.errors import BrokerNotRunning, SettingError
from orbitmq.shm import runtime
from orbitmq.shm.file_id import FileId
from orbitmq.shm.runtime import Description
from orbitmq.store import broker_file, positions
from orbitmq.store.layout import StoreLayout
from orbitmq.tables import extents
from tests.tables.stored_topics import StoredTopics


@pytest.fixture
def stored(tmp_path: Path) -> StoredTopics:
    stored = StoredTopics(tmp_path / "store")
    stored.add("orders", 2)
    stored.add("empty", 3)
    for number in range(301):
        stored.send("orders", b"%d" % number + bytes(500))
    return stored


def test_topics_of_a_stopped_store(stored: StoredTopics) -> None:
    snapshot = extents.of(stored.root)
    assert snapshot.broker is None and snapshot.root == stored.root
    assert (snapshot.log_file_size, snapshot.queue_file_units) == (1 << 16, 50)
    assert snapshot.topics == {"orders": {0: (0, 151), 1: (0, 150)}, "empty": {0: (0, 0), 1: (0, 0), 2: (0, 0)}}


def test_what_retention_took_is_gone(stored: StoredTopics) -> None:
    logs = sorted((stored.root / "commitlog").iterdir())
    assert len(logs) > 2
    logs[0].unlink()
    left = [row for row in stored.rows if row[8] >= 1 << 16]
    bounds = extents.of(stored.root).topics["orders"]
    assert bounds == {queue: (min(row[2] for row in left if row[1] == queue), 151 - queue) for queue in (0, 1)}


def test_after_a_crash_of_the_machine_what_was_flushed_counts(stored: StoredTopics) -> None:
    layout = StoreLayout.at(stored.root)
    layout.own.mkdir(exist_ok=True)
    flushed = stored.rows[100][8]
    recorded = positions.Positions(layout)
    recorded.record(flushed, 0)
    recorded.close()
    assert extents.of(stored.root).topics["orders"] == {0: (0, 151), 1: (0, 150)}, "the machine has not crashed"
    appended = extents.of(stored.root, read="appended", wait=False).topics["orders"]
    assert appended == {0: (0, 151), 1: (0, 150)}, "a stream that takes what was appended"
    assert extents.of(stored.root, wait=False).topics["orders"] == {0: (0, 50), 1: (0, 50)}, "a stream waits for nothing"
    recorded = positions.Positions(layout)
    recorded._boot = bytes(16)
    recorded.record(flushed, 0)
    recorded.close()
    assert extents.of(stored.root).topics["orders"] == {0: (0, 50), 1: (0, 50)}


def test_a_dead_broker_is_not_asked(stored: StoredTopics) -> None:
    layout = StoreLayout.at(stored.root)
    layout.own.mkdir(exist_ok=True)
    layout.lock.write_text("lock")
    gone = Description("gone", os.getpid(), 1, str(layout.root), 7, "0", "another boot", "/nowhere")
    broker_file.write(layout, gone, FileId.of(layout.lock))
    assert broker_file.read(layout) == gone
    assert extents.of(stored.root).broker is None


def test_a_starting_broker_may_lack_something(stored: StoredTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its recovery takes out of the queues what it writes again, so the files are no answer; not even if it began to start
    while they were read."""
    layout = StoreLayout.at(stored.root)
    layout.own.mkdir(exist_ok=True)
    layout.lock.write_text("lock")
    mine = os.getpid()
    ticks = runtime.start_ticks(mine)
    assert ticks is not None
    begun = Description("begun", mine, ticks, str(layout.root), 0, "0", runtime.boot_id(), str(stored.root))
    on_disk = extents._on_disk

    def starts_meanwhile(*given: Any) -> extents.Extents:
        broker_file.write(layout, begun, FileId.of(layout.lock))
        return on_disk(*given)

    monkeypatch.setattr(extents, "_on_disk", starts_meanwhile)
    monkeypatch.setattr(client, "connect", partial(client.connect, timeout=0.05))
    for _ in range(2):
        with pytest.raises(BrokerNotRunning, match="still starting") as caught:
            extents.of(stored.root)
        assert caught.value.starting


def test_a_folder_without_a_store_does_not_hide_a_broker(
    stored: StoredTopics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "no-such-broker").mkdir()
    with pytest.raises(BrokerNotRunning):
        extents.of("no-such-broker")
    assert extents.of("store").root == stored.root


def test_no_store_and_no_broker(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="commitlog"):
        extents.of(tmp_path)
    with pytest.raises(SettingError, match="not a folder"):
        extents.of(tmp_path / "nowhere")
    with pytest.raises(BrokerNotRunning, match="path of its folder"):
        extents.of("no-such-broker")


def test_a_unit_half_written_ends_the_queue(stored: StoredTopics) -> None:
    """The broker of a stopped store died between the words of a unit: its size is still 0."""
    path = stored.root / "consumequeue" / "orders" / "1" / f"{150 * 20:020d}"
    path.write_bytes(struct.pack(">qiq", 1 << 40, 0, 0).ljust(50 * 20, b"\0"))
    assert extents.of(stored.root).topics["orders"][1] == (0, 150)


def test_what_only_the_page_cache_has_is_flushed_for_a_batch(stored: StoredTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash of the broker alone."""
    layout = StoreLayout.at(stored.root)
    layout.own.mkdir(exist_ok=True)
    recorded = positions.Positions(layout)
    recorded.record(1 << 16, 0)
    recorded.close()
    synced = []
    sync = os.fdatasync

    def told(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", told)
    assert extents.of(stored.root).topics["orders"][0] == (0, 151)
    logs = sorted(path.name for path in layout.commitlog.iterdir())
    assert synced == logs[1:] and len(logs) > 2


def test_the_flushed_part_of_what_is_published(stored: StoredTopics) -> None:
    snapshot = extents.of(stored.root)
    for place in (0, 1, 57, 299, 300):
        found = extents.flushed_part(StoreLayout.at(stored.root), 50, snapshot.topics, stored.rows[place][8])
        held = [sum(row[1] == queue for row in stored.rows[:place]) for queue in (0, 1)]
        assert found["orders"] == {queue: (0, held[queue]) for queue in (0, 1)}
        assert found["empty"] == snapshot.topics["empty"]
