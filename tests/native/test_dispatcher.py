"""Goal: what one worker answers, however much it is, does not keep the dispatcher from the others: a step is bounded.

Method: the dispatcher's loop is moved by hand (native/actors/dispatcher/dispatcher.h); workers fill their rings with the
largest answers that are possible."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.native._core import ffi, lib
from orbitmq.shm.memfd import create_memfd
from orbitmq.store import positions
from orbitmq.store.work import files as work_files
from tests.native import pipeline as p

TURN = 16_384  # messages: what answers of one worker may be about, in one step
OPENING = 7
READY, CLOSING, DRAINED = 1, 2, 3
HEAD, RECORDS = 8, 16  # where they lie in a ring, in words of 8 bytes


class Worker:
    """A session whose rings the test fills itself."""

    def __init__(self, tree: p.Pipeline, slot: int) -> None:
        self.capacity = lib.WORK_RING_MAX
        self.tree, self.slot = tree, slot
        fields = {"slot": slot, "epoch": 1, "work_capacity": self.capacity, "pid": os.getpid()}
        shape = ffi.new("struct session_shape *", fields)
        size = lib.session_size(shape)
        self.descriptor = create_memfd("test", size)
        self.memory = ffi.from_buffer(mmap.mmap(self.descriptor, size))
        session = ffi.cast("struct session *", self.memory)
        lib.session_init(session, shape, p.GENERATION)
        lib.session_open_entry(tree.control, self.descriptor, os.fstat(self.descriptor).st_ino, shape)
        parts = ffi.new("struct session_parts *")
        lib.session_parts(session, shape, parts)
        self.answers = ffi.cast("uint64_t *", parts.answers)

    def answer(self, count: int) -> None:
        """So many answers, each about as many messages as one may be about."""
        records = ffi.cast("struct work_record *", self.answers + RECORDS)
        for at in range(count):
            records[at] = {"count": self.capacity // 4, "kind": lib.WORK_EXTEND, "opening": OPENING >> 1, "time_ms": 1000}
        self.answers[0] = count

    @property
    def taken(self) -> int:
        """Messages that the answers taken so far are about."""
        return int(self.answers[HEAD]) * (self.capacity // 4)

    @property
    def state(self) -> int:
        return int(lib.session_get_state(self.tree.control, self.slot))

    def close(self) -> None:
        lib.session_set_state(self.tree.control, self.slot, CLOSING)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[p.Pipeline]:
    with p.pipeline(tmp_path) as made:
        yield made


def begin(tree: p.Pipeline, *workers: Worker) -> Any:
    """A dispatcher of these workers, in one group with one queue."""
    dispatcher = lib.dispatcher_open(tree.tree(9))
    lib.dispatcher_boot(dispatcher, positions.boot_id())
    lib.dispatcher_begin(dispatcher, lib.control_work_version(tree.control))
    group = lib.dispatcher_group(dispatcher, 1, b"g", False, 16, False)
    for worker in workers:
        assert lib.dispatcher_worker(dispatcher, group, worker.slot, 1, 1, 100, 1000) == 0
    work_files.make(tree.layout, "g", [("T", 0)])
    path = os.fsencode(work_files.path_of(tree.layout, "g", ("T", 0)))
    assert lib.dispatcher_queue(dispatcher, group, 0, 0, path, OPENING, 0) == 0
    lib.dispatcher_settle(dispatcher)
    return dispatcher


def test_a_turn_of_one_worker_is_bounded(tree: p.Pipeline) -> None:
    hostile, other = Worker(tree, 0), Worker(tree, 1)
    dispatcher = begin(tree, hostile, other)
    hostile.answer(hostile.capacity // 4)
    other.answer(1)
    assert lib.dispatcher_step(dispatcher) > 0
    assert 0 < hostile.taken <= TURN
    assert other.taken
    lib.dispatcher_close(dispatcher)


def test_an_end_takes_several_steps(tree: p.Pipeline) -> None:
    """Goal: all answers count that a worker gave before its end, and those of others are not held up by them."""
    hostile, other = Worker(tree, 0), Worker(tree, 1)
    dispatcher = begin(tree, hostile, other)
    hostile.answer(hostile.capacity)
    other.answer(1)
    hostile.close()
    assert lib.dispatcher_step(dispatcher) > 0
    assert 0 < hostile.taken <= TURN
    assert hostile.state == CLOSING
    assert other.taken
    while hostile.state == CLOSING:
        before = hostile.taken
        assert lib.dispatcher_step(dispatcher) > 0
        assert before < hostile.taken <= before + TURN
    assert hostile.state == DRAINED and hostile.taken == hostile.capacity * (hostile.capacity // 4)
    lib.dispatcher_close(dispatcher)


def test_an_end_ends(tree: p.Pipeline) -> None:
    """Goal: a client that goes on to answer after its end does not keep its session."""
    hostile = Worker(tree, 0)
    dispatcher = begin(tree, hostile)
    hostile.answer(hostile.capacity)
    hostile.close()
    for _ in range(10 * hostile.capacity):
        if hostile.state != CLOSING:
            break
        lib.dispatcher_step(dispatcher)
        hostile.answers[0] = hostile.answers[HEAD] + hostile.capacity
    assert hostile.state == DRAINED
    lib.dispatcher_close(dispatcher)
