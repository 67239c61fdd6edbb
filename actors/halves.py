"""What the broker knows of half messages across starts.

The writer finds out at the start of a tree which of them are settled (native/actors/writer/writer_settle.c). The scheduler
writes down from time to time how far they are, so that the next start reads less."""

from __future__ import annotations

import os
from typing import Any

from orbitmq.actors.kept_note import KeptNote
from orbitmq.actors.tree import Tree
from orbitmq.native._core import ffi, lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import QueueBounds, TopicTable
from orbitmq.store import halves
from orbitmq.store.consume_queue import UNIT_SIZE, ConsumeQueue
from orbitmq.store.halves import HALF_TOPIC, OP_TOPIC, Halves

PIECE_UNITS = 1 << 12  # read between two beats


def restore(tree: Tree, writer: Any) -> None:
    """By the writer, when its queues are known and before its first step, unless a predecessor in this tree has done it. Reads
    the operation messages that are not known to be old. Raises: OSError, StoreError."""
    if lib.control_halves_ready(tree.control):
        return
    known = halves.load(tree.settings.layout)
    open_halves, operations = _bounds(tree, HALF_TOPIC), _bounds(tree, OP_TOPIC)
    if known.floor > open_halves.maximum or known.operations > operations.maximum:
        # A repair has cut the log before it. Later messages must not make it believed again.
        halves.store(tree.settings.layout, Halves())
        known = halves.load(tree.settings.layout)
    floor = min(max(known.floor, open_halves.minimum), open_halves.maximum)
    lib.writer_halves_begin(writer, floor, open_halves.maximum)
    crash_point("halves_begun")
    queue = ConsumeQueue(tree.settings.layout.root, OP_TOPIC, 0, tree.settings.files.queue_file_units)
    at = max(known.operations, operations.minimum)
    while at < operations.maximum:
        units = queue.bytes_of(at, min(operations.maximum, at + PIECE_UNITS))
        if not units:
            break
        if not lib.writer_read_ops(writer, units, len(units) // UNIT_SIZE):
            raise OSError(ffi.errno, f"could not read which half messages are settled: {os.strerror(ffi.errno)}")
        at += len(units) // UNIT_SIZE
    lib.writer_halves_ready(writer)


class HalvesNote(KeptNote[Halves]):
    cannot = "cannot write down which half messages are settled"

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._loaded = False

    def ready(self) -> bool:
        if not lib.control_halves_ready(self._tree.control):
            return False
        if not self._loaded:  # not before: restore() replaces a file that says too much
            self._stored = halves.load(self._tree.settings.layout)
            # Operation messages below the second are about halves below the first.
            self._mark = (self._stored.floor, self._stored.operations)
            self._proven = self._stored.operations
            self._loaded = True
        return True

    def look(self) -> Halves | None:
        floor = int(lib.control_halves_floor(self._tree.control))
        if floor >= self._mark[0]:
            self._proven = max(self._proven, self._mark[1])
            operations = _bounds(self._tree, OP_TOPIC).maximum  # first: `known` covers the halves of all that are in the log
            self._mark = (int(lib.control_halves_known(self._tree.control)), operations)
        return Halves(floor, self._proven) if floor > self._stored.floor else None

    def store(self, note: Halves) -> None:
        halves.store(self._tree.settings.layout, note)
        self._stored = note


def _bounds(tree: Tree, name: str) -> QueueBounds:
    table = TopicTable(tree.topics)
    topic = table.find(name)
    return QueueBounds(0, 0) if topic is None else table.bounds(topic.first_slot)
