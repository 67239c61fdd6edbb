"""Goal: many failures that cannot be put into retries or dead letters do not keep the dispatcher from the rest of its work:
what one step reads of the log is bounded, and all of them come again in place.

Method: a log made by plain Python, with records that are larger than the broker's messages may be; the dispatcher's loop is
moved by hand, and the words are read from its file."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from orbitmq.native._core import ffi, lib
from orbitmq.store import positions
from orbitmq.store.layout import StoreLayout
from orbitmq.store.work import files as work_files
from tests.native.reput_rig import Message, Model, Rig

READ_MAX = 9 << 20  # bytes of the log in one step, and one record more
BODY, COUNT, TRIES = 30_000, 1000, 16
WORDS_AT, WAITING, PARTING = 4096, 2, 4


def test_what_cannot_be_put_is_read_in_parts(tmp_path: Path) -> None:
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    model = Model(log_file=1 << 20)
    for _ in range(COUNT):
        model.append(Message("T", 0, body=bytes(BODY)))
    model.save(tmp_path)
    rig = Rig(tmp_path, model, ["T", "%DLQ%g"], queues=1, message_max=20_000, lanes=3, own_lanes=2, queue_file_units=4096)
    reput = rig.open()
    reput.run_until(model.end)
    reput.close()
    memory = [rig.segment(lib.lane_size_of(1 << 20)) for _ in range(3)]
    for each in memory:
        lib.lane_init(ffi.cast("struct lane *", each), 1 << 20, 1)
    lanes = ffi.new("void *[3]", memory)
    tree = lib.attachment_open(rig.control, rig.topics, rig.wake, lanes, 3, lib.ACTOR_DISPATCHER)
    path = parting(layout)

    dispatcher = lib.dispatcher_open(tree)
    lib.dispatcher_boot(dispatcher, positions.boot_id())
    work_files.make_retries(layout)
    assert lib.dispatcher_partings(dispatcher, os.fsencode(layout.retries)) == 0
    while not lib.dispatcher_load(dispatcher):
        pass
    lib.dispatcher_begin(dispatcher, lib.control_work_version(rig.control))
    group = lib.dispatcher_group(dispatcher, 1, b"g", False, TRIES, False)
    assert lib.dispatcher_queue(dispatcher, group, 0, 0, os.fsencode(path), 7, 0) == 0
    lib.dispatcher_settle(dispatcher)
    left = COUNT
    while left:
        lib.dispatcher_step(dispatcher)
        states = [word & 7 for word in words(path)]
        assert states.count(PARTING) + states.count(WAITING) == COUNT
        before, left = left, states.count(PARTING)
        assert 0 < (before - left) * BODY <= READ_MAX
    lib.dispatcher_close(dispatcher)
    lib.attachment_close(tree)


def parting(layout: StoreLayout) -> Path:
    """A queue's file of which all messages are to be put elsewhere, after their last try."""
    work_files.make(layout, "g", [("T", 0)])
    path = work_files.path_of(layout, "g", ("T", 0))
    head = ffi.new("struct work_file *", {"magic": lib.WORK_MAGIC, "opening": 1, "generation": 1, "boot": positions.boot_id()})
    lib.work_file_set(head, 0, COUNT)
    with path.open("r+b") as file:
        file.write(ffi.buffer(head))
        file.seek(WORDS_AT)
        file.write(struct.pack("=Q", PARTING | TRIES << 3) * COUNT)
    return path


def words(path: Path) -> list[int]:
    content = path.read_bytes()[WORDS_AT:]
    return list(struct.unpack(f"={COUNT}Q", content[: 8 * COUNT]))
