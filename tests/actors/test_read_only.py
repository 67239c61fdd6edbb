"""Goal: a broker with read_only changes nothing in a store: log, queues, index, checkpoint, topics, settings. Method: killed
trees leave as much unfinished work as possible, also as a power cut would; a broker with read_only works on what they left, and
every file below the store is compared with what it was, by length, time and content."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import SettingError
from orbitmq.store import config, positions
from orbitmq.store.layout import StoreLayout
from tests.trees import SMALL, actors, indexed
from tests.waiting import dead, until

# The positions of groups, and who runs the broker; docs/operations.md says so.
MAY_CHANGE = {
    "config/consumerOffset.json", "config/consumerOffset.json.bak", "orbitmq/broker.json", "orbitmq/holder",
    "orbitmq/tree.json",
}  # fmt: skip
TEMPORARY = {f"{name}.tmp" for name in MAY_CHANGE}  # these are written so, and renamed
COMMITS = "orbitmq/commits/"
SENT = 1000


def content(root: Path) -> dict[str, tuple[int, int, str]]:
    """For each file: length, time of its last change, digest. For folders only the names, because files come and go in some."""
    found = {}
    for path in root.rglob("*"):
        with suppress(FileNotFoundError):  # a running broker's temporary file
            status = path.lstat()
            name = str(path.relative_to(root))
            if path.is_dir():
                found[name] = (0, 0, "")
            else:
                found[name] = (status.st_size, status.st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
    return found


def changed(before: dict[str, tuple[int, int, str]], root: Path, *, running: bool = False) -> set[str]:
    """running: the broker's temporary files may come and go. Otherwise only those may go that a killed tree has left."""
    after = content(root)
    names = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    passing = TEMPORARY if running else TEMPORARY & before.keys()
    return {name for name in names - MAY_CHANGE - passing if not name.startswith(COMMITS)}


def killed(root: Path, reput: int) -> None:
    """Leaves a store whose tree was killed, with a member at work; reput: a signal for the process that fills the queues."""
    with orbitmq.Broker(root, **SMALL) as broker:
        broker.create_topic("t", 2)
        with broker.producer() as producer:
            for queue in (0, 1):
                producer.send_batch("t", [b"x" * 300] * (SENT // 2), queue=queue, keys=["k"] * (SENT // 2))
        indexed(broker)  # a batch is what is in the queues
        with broker.consumer("g", ["t"], start="earliest", batch=100) as consumer:
            assert consumer.poll_batch(100, 30)
            consumer.commit()
            if reput:
                os.kill(actors(broker)["reput"].pid, reput)
                broker.producer().send_batch("t", [b"late"] * 10, queue=0, durability="flushed")
            pids = [actor.pid for actor in actors(broker).values() if actor.pid > 0]
            os.kill(broker.pid, signal.SIGKILL)
            until(lambda: all(dead(pid) for pid in pids), "the tree's end")


def another_boot(layout: StoreLayout) -> None:
    """As if the machine had lost power since."""
    recorded = positions.load(layout)
    assert recorded is not None
    page = positions.Positions(layout)
    page._boot = bytes(16)
    for _ in range(2):
        page.record(recorded.flushed, recorded.store_ms)
    page.close()


@pytest.mark.parametrize("how", ["stopped", "killed", "behind", "power cut", "without queues", "damaged"])
def test_every_byte_stays(tmp_path: Path, how: str) -> None:
    root = tmp_path / "store"
    layout = StoreLayout.at(root)
    killed(root, signal.SIGSTOP if how == "behind" else 0)
    if how == "stopped":
        with orbitmq.Broker(root, **SMALL):
            pass
    elif how == "power cut":
        another_boot(layout)
        (layout.allocating).mkdir(exist_ok=True)
        (layout.allocating / f"{1 << 30:020d}").write_bytes(b"left over")
    elif how == "without queues":
        shutil.rmtree(root / "consumequeue" / "t" / "1")
    elif how == "damaged":
        with layout.log_file(0).open("r+b") as file:
            file.seek(100_000)
            file.write(b"\xff" * 8)
        layout.checkpoint.unlink(missing_ok=True)
        layout.reput.unlink()
    before = content(root)
    with orbitmq.Broker(root, **SMALL, read_only=True) as broker:
        assert changed(before, root, running=True) == set()
        with broker.consumer("g", ["t"], start="earliest") as consumer:
            seen = 0
            while messages := consumer.poll_batch(SENT, 3):
                seen += len(messages)
                consumer.commit()
                if how == "damaged":
                    break
        committed = {group.name: sum(queue.committed for queue in group.queues) for group in broker.status().groups}
        notes = broker.status().notes
        if how == "without queues":
            assert 0 < seen <= SENT // 2
        elif how != "damaged":
            assert seen == SENT - 100, "behind what the group had committed to the tree that died"
            assert committed == {"g": SENT}
        assert any("in no queue yet" in note for note in notes) == (how in ("behind", "without queues")), notes
        if how == "behind":
            assert any(note.startswith("10 messages of the log are in no queue yet") for note in notes), notes
        assert changed(before, root, running=True) == set()
    assert changed(before, root) == set()
    if how == "damaged":
        return
    assert sum(config.load_offsets(layout)["t", "g"].values()) == 100 + seen, "where the group is has been kept"
    with orbitmq.Broker(root, **SMALL) as broker, broker.consumer(None, ["t"], start="earliest") as consumer:
        total = SENT + (10 if how == "behind" else 0)
        assert len([message for _ in range(3) for message in consumer.poll_batch(2 * SENT, 1)]) == total


def test_no_store_is_made_to_be_read(tmp_path: Path) -> None:
    """A mistyped path is an error, and leaves no folder."""
    with pytest.raises(SettingError, match="for reading: it has no folder commitlog") as caught:
        orbitmq.Broker(tmp_path / "mistyped", read_only=True)
    assert caught.value.values["name"] == "read_only"
    assert list(tmp_path.iterdir()) == []
