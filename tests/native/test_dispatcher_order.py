"""Goal: a key-ordered group goes on when the dispatcher knows as many of its messages as it may.

Method: a log made by plain Python; the dispatcher may know few messages, and its loop is moved by hand. Its worker is a session
in this process."""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path

import pytest

from orbitmq.native._core import ffi, lib
from orbitmq.shm.memfd import create_memfd
from orbitmq.store import positions
from orbitmq.store.layout import StoreLayout
from orbitmq.store.work import files as work_files
from tests.native.reput_rig import Message, Model, Rig

KNOWN_MAX, MORE = 100, 150
GENERATION, OPENING = 1, 1
WORDS_AT, FREE = 4096, 0


class Worker:
    """Takes what it is handed, and acknowledges it."""

    def __init__(self, rig: Rig, slot: int = 0) -> None:
        shape = ffi.new("struct session_shape *", {"slot": slot, "epoch": 1, "work_capacity": 64, "pid": os.getpid()})
        size = lib.session_size(shape)
        self.descriptor = create_memfd("test", size)
        self.memory = ffi.from_buffer(mmap.mmap(self.descriptor, size))
        session = ffi.cast("struct session *", self.memory)
        lib.session_init(session, shape, GENERATION)
        lib.session_open_entry(rig.control, self.descriptor, os.fstat(self.descriptor).st_ino, shape)
        addresses = (int(ffi.cast("uintptr_t", each)) for each in (session, rig.control, rig.wake))
        self.link = lib.work_link_open(*addresses, -1, shape)
        self._opening = 0  # of the queues, as the last hand-out said
        self._tries: dict[tuple[int, int], int] = {}  # by queue and offset
        lib.work_link_want(self.link, 1000)

    def work(self) -> set[tuple[int, int]]:
        """(queue, offset) of what it got."""
        found = set()
        for queue, first, count in self.take():
            found |= {(queue, first + at) for at in range(count)}
            self.answer(lib.WORK_ACK, queue, first, count)
        return found

    def take(self) -> list[tuple[int, int, int]]:
        """(queue, first, count) of what it got."""
        records = ffi.new("struct work_record[64]")
        found = []
        for record in records[0 : lib.work_link_take(self.link, records, 64)]:
            if record.kind == lib.WORK_HAND_OUT:
                self._opening = record.opening
                for offset in range(record.first, record.first + record.count):
                    self._tries[record.queue, offset] = record.tries
                found.append((record.queue, int(record.first), record.count))
        return found

    def answer(self, kind: int, queue: int, first: int, count: int, time_ms: int = 0) -> None:
        tries = self._tries.get((queue, first), 1)
        assert lib.work_link_answer(self.link, kind, queue, self._opening, first, count, tries, time_ms)
        lib.work_link_publish(self.link)

    def close(self) -> None:
        lib.work_link_close(self.link)
        os.close(self.descriptor)


@pytest.mark.parametrize("before", [0, 1])
def test_more_than_it_may_know(tmp_path: Path, before: int) -> None:
    """Method: fresh messages of one queue; behind them one of another queue, which was handed out before and came back, or was
    not."""
    model = Model(log_file=1 << 20)
    for number in range(MORE):
        model.append(Message("T", 0, keys=(f"k{number}",)))
    model.append(Message("T", 1, keys=("last",)))
    model.save(tmp_path)
    rig = Rig(tmp_path, model, ["T"], queues=2, supervisor_pid=os.getpid())
    reput = rig.open()
    reput.run_until(model.end)
    reput.close()
    lib.control_set_tree_state(rig.control, lib.TREE_RUNNING)
    tree = lib.attachment_open(rig.control, rig.topics, rig.wake, ffi.NULL, 0, lib.ACTOR_DISPATCHER)
    paths = files(tmp_path, before)
    worker = Worker(rig)

    dispatcher = lib.dispatcher_open(tree)
    lib.dispatcher_boot(dispatcher, positions.boot_id())
    lib.dispatcher_know(dispatcher, KNOWN_MAX)
    lib.dispatcher_begin(dispatcher, lib.control_work_version(rig.control))
    group = lib.dispatcher_group(dispatcher, OPENING, b"g", False, 16, True)
    assert lib.dispatcher_worker(dispatcher, group, 0, 1, 1, 10, 100_000) == 0
    for slot, path in enumerate(paths):
        assert lib.dispatcher_queue(dispatcher, group, slot, 0, os.fsencode(path), 7, 0) == 0
    lib.dispatcher_settle(dispatcher)
    came: set[tuple[int, int]] = set()
    while lib.dispatcher_step(dispatcher):
        came |= worker.work()
    assert came == {(0, offset) for offset in range(MORE)} | {(1, 0)}
    lib.dispatcher_close(dispatcher)
    worker.close()
    lib.attachment_close(tree)


def files(store: Path, before: int) -> list[Path]:
    """Of both queues, as a predecessor left them that had handed out so many messages of the second one."""
    layout = StoreLayout.at(store)
    layout.make_folders()
    queues = [("T", 0), ("T", 1)]
    work_files.make(layout, "g", queues)
    paths = [work_files.path_of(layout, "g", queue) for queue in queues]
    head = {"magic": lib.WORK_MAGIC, "opening": OPENING, "generation": GENERATION, "boot": positions.boot_id()}
    for path, frontier in zip(paths, (0, before), strict=True):
        content = ffi.new("struct work_file *", head)
        lib.work_file_set(content, 0, frontier)
        with path.open("r+b") as file:
            file.write(ffi.buffer(content))
            file.seek(WORDS_AT)
            file.write(struct.pack("=Q", FREE | 1 << 3) * frontier)
    return paths
