"""Goal: messages that nobody wants do not keep the dispatcher from the rest of its work: a step judges a bounded number.

Method: a log made by plain Python; the dispatcher's loop is moved by hand, and the floor is read from its file. Its worker
is a session in this process."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from orbitmq.native._core import ffi, lib
from orbitmq.store import positions
from tests.native.reput_rig import Message, Model, Rig
from tests.native.test_dispatcher_order import OPENING, WORDS_AT, Worker, files

TURN = 4096
COUNT = 3 * TURN


@pytest.mark.parametrize("before", [0, 5, COUNT + 1])
def test_a_step_judges_a_bounded_number(tmp_path: Path, before: int) -> None:
    """before: so many messages are below the frontier, because a predecessor has raised it, and died before it stored what they
    are."""
    model = Model(log_file=1 << 22)
    for _ in range(COUNT):
        model.append(Message("T", 0, tag="BB"))
    model.append(Message("T", 0, tag="Aa"))  # of the same hash
    model.save(tmp_path)
    rig = Rig(tmp_path, model, ["T"], queues=2, supervisor_pid=os.getpid())
    reput = rig.open()
    reput.run_until(model.end)
    reput.close()
    lib.control_set_tree_state(rig.control, lib.TREE_RUNNING)
    tree = lib.attachment_open(rig.control, rig.topics, rig.wake, ffi.NULL, 0, lib.ACTOR_DISPATCHER)
    path = files(tmp_path, 0)[0]
    raise_frontier(path, before)
    worker = Worker(rig)

    dispatcher = lib.dispatcher_open(tree)
    lib.dispatcher_boot(dispatcher, positions.boot_id())
    lib.dispatcher_begin(dispatcher, lib.control_work_version(rig.control))
    group = lib.dispatcher_group(dispatcher, OPENING, b"g", False, 16, False)
    assert lib.dispatcher_worker(dispatcher, group, 0, 1, 1, 10, 100_000) == 0
    tag = ffi.from_buffer(b"Aa")
    none = ffi.new("struct slice *")[0]
    assert lib.dispatcher_filter(dispatcher, group, 5, 1, ffi.new("struct slice[]", [(tag, 2)]), 1, none) == 0
    assert lib.dispatcher_queue(dispatcher, group, 0, 0, os.fsencode(path), 7, 0) == 0
    lib.dispatcher_settle(dispatcher)
    passed, steps = 0, 0
    came: set[tuple[int, int]] = set()
    while not came:
        assert lib.dispatcher_step(dispatcher) > 0
        was, passed = passed, floor_of(path)
        assert passed - was <= TURN
        steps += 1
        came = worker.work()
    assert came == {(0, COUNT)} and steps >= COUNT // TURN
    lib.dispatcher_close(dispatcher)
    worker.close()
    lib.attachment_close(tree)


def raise_frontier(path: Path, to: int) -> None:
    content = head(path)
    lib.work_file_set(content, 0, to)
    with path.open("r+b") as file:
        file.write(ffi.buffer(content))
        file.seek(WORDS_AT)
        file.write(struct.pack("=Q", 0) * to)


def head(path: Path) -> Any:
    content = ffi.new("struct work_file *")
    size = ffi.sizeof("struct work_file")
    ffi.memmove(content, path.read_bytes()[:size], size)
    return content


def floor_of(path: Path) -> int:
    return int(lib.work_file_floor(head(path)))
