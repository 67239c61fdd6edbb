"""The scheduler: puts delayed messages into the log again when they are due (native/actors/scheduler/scheduler.h), and writes
down from time to time how far it is."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right

from orbitmq.actors.actor import CoreActor
from orbitmq.actors.groups.group_commits import GroupCommitsNote
from orbitmq.actors.halves import HalvesNote
from orbitmq.actors.pages import PAGE_SCHEDULER
from orbitmq.actors.tree import Tree
from orbitmq.actors.trouble import Trouble
from orbitmq.errors import OffsetOutOfRange
from orbitmq.native._core import ffi, lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import TopicTable
from orbitmq.store import delays
from orbitmq.store.consume_queue import ConsumeQueue
from orbitmq.store.delays import DELAY_TOPIC, TIMER_TOPIC, Delays

# Without a delivery, the files are written again when the log has grown by so much: the next start reads it from there.
UNREAD_MAX = 256 << 20
DRAIN_MS = 1000  # how long to wait at a stop for what is in the lane; the next start finds it in the log otherwise
NAP_NS = 100_000_000


class Scheduler(CoreActor):
    kind = "scheduler"

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree, PAGE_SCHEDULER)
        self._interval_s = tree.settings.offsets_interval_s
        self._keep_at = time.monotonic()  # at once: a scheduler that dies often must not put it off each time
        self._trouble = Trouble()
        self._files = Delays()  # what they say
        self._writing: threading.Thread | None = None  # what is due does not wait for the disk
        self._outcome: Delays | OSError = self._files
        self._halves = HalvesNote(tree)
        self._commits = GroupCommitsNote(tree)
        if not tree.settings.read_only:
            self._files = delays.load(tree.settings.layout)
            self._begin()

    def _begin(self) -> None:
        if not lib.scheduler_knows(self.handle):
            start = int(self.tree.positions().wrote) if self._files.start is None else self._files.start
            lib.scheduler_begin(self.handle, list(self._files.next), list(self._files.timer), start)
        if self._files.start is not None:
            lib.scheduler_kept(self.handle)

    def run(self, limit_ms: int) -> None:
        super().run(min(limit_ms, max(1, round(1000 * self._interval_s))))
        if time.monotonic() >= self._keep_at and self._files.start is not None:
            self._keep_at = time.monotonic() + self._interval_s
            self._keep()
        self._halves.tick()
        self._commits.tick()

    def need(self) -> None:
        """Something is due for the first time in this store: the files come before it."""
        self._keep()
        self._settle(wait=True)
        if self._files.start is not None:
            lib.scheduler_kept(self.handle)
        elif isinstance(self._outcome, OSError):
            lib.scheduler_not_kept(self.handle)
        else:
            lib.control_await_flushed(self.tree.control, self.tree.wake, int(self.tree.positions().wrote), NAP_NS)

    def drain(self) -> None:
        """What is due from now on is delivered after the next start. The supervisor writes the files once more."""
        if not self.tree.settings.read_only:
            lib.scheduler_drain(self.handle, DRAIN_MS)
        self._settle(wait=True)

    def _keep(self) -> None:
        """Begins to write the files, unless they say nearly the same, or cannot say it now: the disk may lack part of it."""
        self._settle(wait=False)
        found = now(self.tree) if self._writing is None else None
        before = self._files
        if found is None:
            return
        alike = (found.next, found.timer[1:]) == (before.next, before.timer[1:])
        if before.start is not None and alike and (found.start or 0) - before.start < UNREAD_MAX:
            return
        self._writing = threading.Thread(target=self._write, args=(found,), name="files", daemon=True)
        self._writing.start()

    def _write(self, found: Delays) -> None:
        try:
            delays.store(self.tree.settings.layout, found)
            crash_point("scheduler_kept")
            self._outcome = found
        except OSError as error:
            self._outcome = error

    def _settle(self, *, wait: bool) -> None:
        """What became of the writing."""
        if self._writing is None or (self._writing.is_alive() and not wait):
            return
        self._writing.join()
        self._writing = None
        if isinstance(self._outcome, Delays):
            self._files = self._outcome
            self._trouble.over()
        else:
            self._trouble.say(f"cannot write down which delayed messages are delivered: {self._outcome}")


def now(tree: Tree) -> Delays | None:
    """What the files may say now. None: part of it is not on disk, or not certain."""
    flushed = int(tree.positions().flushed)  # first: what is counted afterwards has everything below it
    seen = ffi.new("struct delay_seen *")
    lane = tree.lanes[tree.settings.lanes + lib.OWN_LANE_SCHEDULER]
    if not lib.scheduler_seen(tree.control, lane, seen) or seen.end > flushed:
        return None
    levels = tuple(_on_disk(tree, DELAY_TOPIC, level, upto, flushed) for level, upto in enumerate(seen.next))
    known, due_ms, offset, floor = seen.timer
    known = _on_disk(tree, TIMER_TOPIC, 0, known, flushed)
    return Delays(levels, (known, due_ms, offset, min(floor, known)), flushed)


def _on_disk(tree: Tree, topic: str, number: int, upto: int, flushed: int) -> int:
    """So many of the first `upto` messages of a queue lie below the flushed position. What waits beyond it, and was looked at,
    a power cut may take back, and others get its numbers."""
    table = TopicTable(tree.topics)
    found = table.find(topic)
    if not upto or found is None or number >= found.slot_capacity:
        return upto
    least = table.bounds(found.first_slot + number).minimum
    queue = ConsumeQueue(tree.settings.layout.root, topic, number, tree.settings.files.queue_file_units)

    def end(place: int) -> int:
        try:
            unit = queue.unit(place)
        except OffsetOutOfRange:
            return 0  # retention has removed it meanwhile
        return unit.physical_offset + unit.size

    if least >= upto or end(upto - 1) <= flushed:
        return upto
    return least + bisect_right(range(least, upto), flushed, key=end)
