"""Where groups are whose offsets are committed with atomic batches (docs/exactly-once.md).

The writer applies their records to a table in shared memory, once they are committed (native/actors/writer/writer_commits.c).
What it had not applied when it died, and what earlier trees have stored, is read here from the queue of these records. The
scheduler writes the table down from time to time, so that a start reads less, and so that retention may remove old
records."""

from __future__ import annotations

import os
from typing import Any

from orbitmq.actors import events
from orbitmq.actors.kept_note import KeptNote
from orbitmq.actors.tree import Tree
from orbitmq.native._core import ffi, lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import QueueBounds, QueueKey, TopicTable
from orbitmq.store import group_commits
from orbitmq.store.consume_queue import UNIT_SIZE, ConsumeQueue
from orbitmq.store.group_commits import COMMITS_TOPIC, ENTRY_WORDS, GroupCommits

PIECE_UNITS = 1 << 12  # read between two beats
NOTHING: int = (1 << 64) - 1  # COMMIT_FROM_NOTHING
KEYS_MAX: int = lib.COMMIT_KEYS_MAX


def restore(tree: Tree, writer: Any) -> None:
    """By each writer, when its queues are known and before its first step. Raises: OSError, StoreError."""
    bounds = _bounds(tree)
    if not lib.control_commits_ready(tree.control):
        known = group_commits.load(tree.settings.layout)
        words = ffi.new("uint64_t[]", known.entries or 1)
        if known.next > bounds.maximum:
            # A repair has cut the log before it. Later records must not make it believed again.
            known = GroupCommits()
            group_commits.store(tree.settings.layout, known)
        if known.next < bounds.minimum:
            events.warn(
                "cannot know which offsets some groups have committed: retention has removed "
                f"{bounds.minimum - known.next:,} of their records, and the note of them, "
                f"{tree.settings.layout.group_commits}, is missing, damaged or old; groups that only these records name begin "
                "as new ones",
            )
        at = max(known.next, bounds.minimum)
        lib.writer_commits_begin(writer, at, words, len(known.entries) // ENTRY_WORDS)
        crash_point("group_commits_begun")
    queue = ConsumeQueue(tree.settings.layout.root, COMMITS_TOPIC, 0, tree.settings.files.queue_file_units)
    while (at := int(lib.control_commits_next(tree.control))) < bounds.maximum:
        units = queue.bytes_of(at, min(bounds.maximum, at + PIECE_UNITS))
        if not units:
            break
        if not lib.writer_read_commits(writer, units, len(units) // UNIT_SIZE):
            raise OSError(ffi.errno, f"could not read where groups are: {os.strerror(ffi.errno)}")
        crash_point("group_commits_read")
    lib.writer_commits_ready(writer)


class CommitTable:
    """What any process sees of the table."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def get(self, group: str, queue: QueueKey) -> int | None:
        """Where the group is in this queue; None: none of its offsets in it was committed with an atomic batch."""
        if not lib.control_commits_count(self._tree.control):
            return None
        name, topic = group.encode(), queue[0].encode()
        offset = int(lib.control_commit_of(self._tree.control, name, len(name), topic, len(topic), queue[1]))
        return None if offset == NOTHING else offset

    @property
    def version(self) -> int:
        """Another one than before if the table says something else."""
        return int(lib.control_commits_next(self._tree.control))


class GroupCommitsNote(KeptNote[GroupCommits]):
    cannot = "cannot write down where groups are"

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._stored: int | None = None

    def ready(self) -> bool:
        return bool(lib.control_commits_ready(self._tree.control))

    def look(self) -> GroupCommits | None:
        following = int(lib.control_commits_next(self._tree.control))  # first: what comes later is read again
        if self._next is not None or following in (self._stored, 0):
            return None
        words = ffi.new("uint64_t[]", KEYS_MAX * ENTRY_WORDS)
        count = lib.control_commits_copy(self._tree.control, words, KEYS_MAX)
        return GroupCommits(following, ffi.unpack(words, count * ENTRY_WORDS) if count else [])

    def store(self, note: GroupCommits) -> None:
        group_commits.store(self._tree.settings.layout, note)
        self._stored = note.next


def _bounds(tree: Tree) -> QueueBounds:
    table = TopicTable(tree.topics)
    topic = table.find(COMMITS_TOPIC)
    return QueueBounds(0, 0) if topic is None else table.bounds(topic.first_slot)
