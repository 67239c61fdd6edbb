"""Goal: a backup is a store that has everything, and only what has changed is copied again.

Method: stores of real brokers, running, stopped and damaged; a backup of a backup.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import CorruptRecord, StoreUnsupported
from orbitmq.store import name_server_values, remake
from orbitmq.store.backup import file_copy
from orbitmq.store.backup.backup import back_up
from orbitmq.store.layout import StoreLayout
from orbitmq.store.remake import Order
from orbitmq.store.verify.verify import verify
from tests.store.stored_by_broker import Stored
from tests.trees import everything, small_broker


def whole(store: Path) -> int:
    layout = StoreLayout.at(store)
    found: list[object] = []
    verdict = verify(layout, layout.settings(), found.append)
    assert verdict.whole and not found, found
    return verdict.records


def test_running_then_stopped_then_as_a_store(tmp_path: Path) -> None:
    store, target = tmp_path / "store", tmp_path / "backup"
    layout = StoreLayout.at(store)
    with small_broker(store) as broker:
        broker.create_topic("T", 2)
        broker.create_topic("quiet", 3)
        with broker.producer() as producer:
            producer.send_batch("T", [bytes(1000)] * 1500, keys=[str(number) for number in range(1500)])
            with broker.consumer("readers", ["T"], start="earliest") as consumer:
                taken = len(consumer.poll_batch(100))
                consumer.commit()
            name_server_values.store(layout, {"space": {"key": "value"}})
            first = back_up(layout, target)
            assert whole(target) == 1500
            assert name_server_values.load(StoreLayout.at(target)) == {"space": {"key": "value"}}
            producer.send_batch("T", [bytes(1000)] * 100)
    assert first.kept == 0 and first.note.store == str(store)
    second = back_up(layout, target)
    assert whole(target) == 1600
    third = back_up(layout, target)
    assert whole(target) == 1600
    assert third.kept == 1 << 20 and third.copied == second.copied + second.kept - third.kept
    with small_broker(target) as broker:
        assert len(everything(broker, "T")) == 1600
        assert {topic.name: len(topic.queues) for topic in broker.status().topics}["quiet"] == 3
        assert len(broker.find("T", "7")) == 1
        with broker.consumer("readers", ["T"]) as consumer:
            assert sum(consumer.lag().values()) == 1600 - taken
        assert broker.producer().send("T", b"more").physical_offset == second.note.end
    with pytest.raises(StoreUnsupported, match="used that backup as its store"):
        back_up(layout, target)
    assert whole(target) == 1601 and whole(store) == 1600


def test_offsets_of_a_purged_queue_are_not_used_again(tmp_path: Path) -> None:
    """Method: all messages are purged before the backup."""
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("T", 1)
        with broker.producer() as producer:
            producer.send_batch("T", [b"old"] * 1200)
        broker.purge_topic("T")
        back_up(StoreLayout.at(tmp_path / "store"), tmp_path / "backup")
    with small_broker(tmp_path / "backup") as broker:
        assert broker.producer().send("T", b"new").offset == 1200
        assert [body for body, *_ in everything(broker, "T")] == [b"new"]


def test_offsets_of_an_emptied_queue_are_not_used_again(tmp_path: Path) -> None:
    """Only the queue's files say how far its offsets were used. Method: its messages were all in a log file that retention has
    removed."""
    store = tmp_path / "store"
    with small_broker(store) as broker:
        broker.create_topic("quiet", 1)
        broker.create_topic("loud", 1)
        with broker.producer() as producer:
            producer.send_batch("quiet", [b"old"] * 1200)
            producer.send_batch("loud", [bytes(1000)] * 1500)
    (store / "commitlog" / f"{0:020d}").unlink()
    back_up(StoreLayout.at(store), tmp_path / "backup")
    whole(tmp_path / "backup")
    with small_broker(tmp_path / "backup") as broker:
        assert broker.producer().send("quiet", b"new").offset == 1200
        assert [body for body, *_ in everything(broker, "quiet")] == [b"new"]


def test_a_backup_of_a_backup(stored: Stored, tmp_path: Path) -> None:
    back_up(stored.layout, tmp_path / "one")
    back_up(StoreLayout.at(tmp_path / "one"), tmp_path / "two")
    assert whole(tmp_path / "two") == whole(tmp_path / "one") == whole(stored.layout.root)


def test_the_store_is_not_changed(stored: Stored, tmp_path: Path) -> None:
    back_up(stored.layout, tmp_path / "backup")
    left = {path: path.read_bytes() for path in stored.layout.root.rglob("*") if path.is_file()}
    assert left == stored.files
    inodes = {path.stat().st_ino for path in stored.layout.root.rglob("*")}
    assert not inodes & {path.stat().st_ino for path in (tmp_path / "backup").rglob("*")}


def test_a_damaged_log_is_no_backup(stored: Stored, tmp_path: Path) -> None:
    """The last backup stays as it was."""
    back_up(stored.layout, tmp_path / "backup")
    newest = stored.of("commitlog")[-1]
    while not any(stored.files[newest]):
        newest = stored.of("commitlog")[stored.of("commitlog").index(newest) - 1]
    stored.spoil(newest, 0, b"\xff" * 40)
    with pytest.raises(CorruptRecord, match="its log is damaged at"):
        back_up(stored.layout, tmp_path / "backup")
    assert whole(tmp_path / "backup") and not (tmp_path / "backup.partial").exists()


def test_what_cannot_be_backed_up(stored: Stored, tmp_path: Path) -> None:
    with pytest.raises(StoreUnsupported, match="there is no store"):
        back_up(StoreLayout.at(tmp_path / "nothing"), tmp_path / "backup")
    remake.give(stored.layout, Order())
    with pytest.raises(StoreUnsupported, match="its repair is not finished"):
        back_up(stored.layout, tmp_path / "backup")
    assert not list(tmp_path.iterdir())


def test_retention_removes_files_meanwhile(stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Method: the oldest log files go when the first file has been copied."""
    copy = file_copy.copy
    gone = stored.of("commitlog")[:2]

    def copy_and_remove(source: Path, target: Path, copied: file_copy.Copied, *, reserve: bool) -> bool:
        filled = copy(source, target, copied, reserve=reserve)
        for path in gone if source.parent.name == "commitlog" else ():
            path.unlink(missing_ok=True)
        return filled

    monkeypatch.setattr(file_copy, "copy", copy_and_remove)
    backed = back_up(stored.layout, tmp_path / "backup")
    assert backed.note.begin == 2 * stored.layout.sizes()["log_file_size"]
    with orbitmq.Broker(tmp_path / "backup") as broker:
        assert broker.status().positions.wrote == backed.note.end


def test_a_kept_file_that_differs_is_copied_again(stored: Stored, tmp_path: Path) -> None:
    """Method: a repair wrote into a closed file; its time shows that."""
    back_up(stored.layout, tmp_path / "backup")
    oldest = stored.of("commitlog")[0]
    os.utime(oldest, ns=(1, 1))
    again = back_up(stored.layout, tmp_path / "backup")
    size = stored.layout.sizes()["log_file_size"]
    third = back_up(stored.layout, tmp_path / "backup")
    assert third.kept == again.kept + size and third.copied == again.copied - size


def test_a_file_that_was_not_closed_is_copied_again(stored: Stored, tmp_path: Path) -> None:
    """What is written through memory need not change a file's time. Method: a kept file that lacks its middle, which was being
    written when the last backup was made."""
    layout = StoreLayout.at(tmp_path / "backup")
    back_up(stored.layout, layout.root)
    kept = sorted(layout.commitlog.iterdir())[1]
    status = kept.stat()
    with kept.open("r+b") as file:
        file.seek(20_000)
        file.write(bytes(20_000))
    os.utime(kept, ns=(status.st_atime_ns, status.st_mtime_ns))
    note = json.loads(layout.backup_json.read_text())
    layout.backup_json.write_text(json.dumps({**note, "closed": int(kept.name) + 20_000}))
    back_up(stored.layout, layout.root)
    assert sorted(layout.commitlog.iterdir())[1].read_bytes() == stored.files[stored.layout.commitlog / kept.name]


def test_a_store_of_rocketmq(stored: Stored, tmp_path: Path) -> None:
    """Method: without the folder orbitmq/ and its signs, as RocketMQ leaves a store."""
    shutil.rmtree(stored.layout.own)
    stored.layout.own.mkdir()
    stored.layout.store_json.write_bytes(stored.files[stored.layout.store_json])
    records = sum(map(len, stored.bodies.values()))
    back_up(stored.layout, tmp_path / "backup")
    with orbitmq.Broker(tmp_path / "backup") as broker:
        assert sum(len(everything(broker, topic)) for topic in {topic for topic, _ in stored.bodies}) == records
