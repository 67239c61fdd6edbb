"""Goal: a start touches nothing that a living tree holds, whatever files it finds, and still removes what dead trees have left.
Method: real trees, and copies of their stores made while they run. Of actors/supervisor/ground.py."""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import pytest

import orbitmq
from orbitmq.native._core import lib
from orbitmq.shm import runtime
from orbitmq.shm.file_id import FileId
from orbitmq.shm.segment import SegmentKind, create_segment, segment_name
from orbitmq.shm.segment_owner import SegmentOwner
from orbitmq.store import broker_file
from orbitmq.store.layout import StoreLayout
from tests.trees import actors, indexed, segments, small_broker
from tests.waiting import dead, until


def bodies(broker: orbitmq.Client) -> list[bytes]:
    indexed(broker)
    with broker.consumer(topics=["orders"]) as consumer:
        return [bytes(message) for message in consumer.poll_batch(timeout=240)]


def copied(store: Path, name: str) -> Path:
    """As cp -a does it; files that come and go in the meantime are left out."""
    target = store.with_name(name)

    def copy(source: str, to: str) -> None:
        with suppress(FileNotFoundError):
            shutil.copy2(source, to)

    shutil.copytree(store, target, copy_function=copy, symlinks=True)
    return target


def test_a_copy_of_a_running_store(tmp_path: Path) -> None:
    """Two copies beside the original, all running: each has its own clients, and each stops by itself."""
    with small_broker(tmp_path / "store") as original:
        original.create_topic("orders", 1)
        original.producer().send("orders", b"before", durability="flushed")
        generation = original.connection.attachment.generation
        mine = segments(generation)
        first, second = copied(tmp_path / "store", "first"), copied(tmp_path / "store", "second")
        assert broker_file.read(StoreLayout.at(first)) is None, "what it says is about the original's broker"
        with small_broker(first) as one, small_broker(second) as two:
            assert segments(generation) == mine
            one.producer().send("orders", b"one", durability="flushed")
            two.producer().send("orders", b"two", durability="flushed")
            assert bodies(one) == [b"before", b"one"] and bodies(two) == [b"before", b"two"]
        assert segments(generation) == mine
        with orbitmq.connect(original.name) as fresh:
            fresh.producer().send("orders", b"after")
            assert bodies(fresh) == [b"before", b"after"]
    assert not segments(generation)


def test_a_copy_of_a_store_whose_tree_is_dead(tmp_path: Path) -> None:
    """Whichever of them is started first, or any other broker, removes what the tree has left."""
    with small_broker(tmp_path / "store") as broker:
        generation = broker.connection.attachment.generation
        pids = [actor.pid for actor in actors(broker).values()]
        os.kill(broker.pid, signal.SIGKILL)
        until(lambda: all(dead(pid) for pid in pids), "the death of all actors")
    with small_broker(copied(tmp_path / "store", "copy")):
        assert not segments(generation)


@pytest.mark.parametrize("kind", ["stranger's", "own, dead", "own, unsigned"])
def test_whose_segments_are_removed(tmp_path: Path, kind: str) -> None:
    """Method: tree.json names a generation with one segment; the owner of that segment decides (tests/shm/test_segment_owner.py
    has all owners)."""
    with small_broker(tmp_path / "store"):
        pass
    layout = StoreLayout.at(tmp_path / "store")
    generation = os.getpid() << 8 & 0xFFFFFFFF | 0x3C
    lock, elsewhere = FileId.of(layout.lock), FileId.of(tmp_path)
    me = SegmentOwner.here(elsewhere)
    owner = {
        "stranger's": me,
        "own, dead": SegmentOwner(1 << 22, me.namespace, 1, lock),
    }.get(kind)
    name = segment_name(generation, "ctl")
    made = create_segment(name, 4096, sign=owner.sign if owner is not None else None)
    lib.segment_init(made.pointer, SegmentKind.CONTROL, 4096, generation)
    named = lock if kind.startswith("own") else elsewhere
    layout.tree_json.write_text(json.dumps({"generation": generation, "lock": [named.device, named.inode]}))
    with small_broker(tmp_path / "store"):
        assert bool(segments(generation)) != kind.startswith("own")
    made.unlink()


def test_the_store_says_which_broker_runs_on_it(tmp_path: Path) -> None:
    layout = StoreLayout.at(tmp_path / "store")
    with small_broker(tmp_path / "store") as broker:
        found = broker_file.read(layout)
        assert found == runtime.read_description(broker.name)
        assert found is not None and runtime.lives(found) and found.generation == broker.connection.attachment.generation
        assert found.socket == runtime.socket_path(broker.name) and found.socket.is_socket()
        assert layout.broker_json.stat().st_mode == layout.store_json.stat().st_mode
        about = json.loads(layout.broker_json.read_text())
        layout.broker_json.write_text(json.dumps({**about, "boot": "another", "of a later version": 1}))
        later = broker_file.read(layout)
        assert later is not None and not runtime.lives(later), "its number belongs to whoever has it now"
    assert broker_file.read(layout) is None
    layout.broker_json.write_text("{")
    assert broker_file.read(layout) is None
