"""Makes ConsumeQueues and IndexFiles out of the log without a broker: reput is stepped in this process.

reput needs what it has in a tree: a control block, a topic table and wake words. Here they are memory of this process alone,
and nobody sleeps on them. It writes the same things in the same order as in a broker, so a kill leaves what a killed broker
leaves.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orbitmq.errors import StoreFailed
from orbitmq.native._core import ffi, lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_name import possible
from orbitmq.store import abort, atomic_file, index_headers
from orbitmq.store.checkpoint import Checkpoint
from orbitmq.store.file_system import disk_error
from orbitmq.store.layout import StoreLayout
from orbitmq.store.positions import Positions
from orbitmq.store.recovery.report import RecoveryReport
from orbitmq.store.settings.settings import StoreSettings

STEP_BYTES = 16 << 20
SPARE_TOPICS = 1024  # for topics that are named only by records without a place in a queue
GENERATION = 1


def reindex(
    layout: StoreLayout, settings: StoreSettings, report: RecoveryReport, progress: Callable[[int, int], None] | None = None
) -> None:
    """Indexes everything that `report` says is not indexed, makes it durable, and leaves the store cleanly stopped. The caller
    holds the store's lock. progress: gets the number of bytes read, and the total.

    Raises: StoreFailed, StoreFull: queues or index cannot be written.
    """
    newest_ms = _Reput(layout, settings, report).run(progress or (lambda done, whole: None))
    crash_point("reindex_done")
    _sync_files(layout)
    index = index_headers.load(layout)
    Checkpoint(newest_ms, newest_ms, index[-2].end_ms if len(index) > 1 else 0).store(layout)
    crash_point("reindex_synced")
    record = Positions(layout)
    record.record_stop(report.end, report.last_store_ms)
    record.close()
    crash_point("reindex_stopped")
    abort.remove(layout)


class _Reput:
    def __init__(self, layout: StoreLayout, settings: StoreSettings, report: RecoveryReport) -> None:
        self._layout = layout
        self._report = report
        queues: dict[str, int] = {}
        for queue in report.queues:
            if possible(queue.topic, queue.queue):
                queues[queue.topic] = max(queues.get(queue.topic, 0), queue.queue + 1)
        topic_capacity = 1 << (2 * (len(queues) + SPARE_TOPICS)).bit_length()
        queue_capacity = sum(queues.values()) + SPARE_TOPICS
        if queue_capacity > lib.QUEUES_MAX:
            raise StoreFailed(
                f"cannot index the log of {layout.root}: it has {queue_capacity - SPARE_TOPICS:,} queues, and "
                f"at most {lib.QUEUES_MAX - SPARE_TOPICS:,} are possible"
            )
        core = ffi.new("struct settings *")
        core.log_file_size, core.queue_file_units = settings.log_file_size, settings.queue_file_units
        core.index_slots, core.index_entries = settings.index_slots, settings.index_entries
        # Nobody sends here, but a control block needs a lane that holds two of the largest records.
        core.lanes, core.lane_capacity, core.message_max = 1, 4 << (settings.message_max - 1).bit_length(), settings.message_max
        core.supervisor_pid = os.getpid()
        core.store = os.fsencode(layout.root)
        sizes = ffi.sizeof("struct control"), lib.topics_size(topic_capacity, queue_capacity), ffi.sizeof("struct wake")
        control, table, wake = self._memory = [ffi.from_buffer(mmap.mmap(-1, size)) for size in sizes]
        self._control = ffi.cast("struct control *", control)
        self._topics = ffi.cast("struct topics *", table)
        self._wake = ffi.cast("struct wake *", wake)
        lib.control_init(self._control, core, GENERATION)
        lib.topics_init(self._topics, topic_capacity, queue_capacity, GENERATION)
        lib.wake_init(self._wake, GENERATION)
        for topic, count in queues.items():
            self._add(topic, count)
        lib.control_recovered(self._control, report.begin, report.end, report.reput, report.end, report.allocated, 0)

    def run(self, progress: Callable[[int, int], None]) -> int:
        """Returns the store timestamp of the newest record that it has read; 0: there was none."""
        tree = lib.attachment_open(self._control, self._topics, self._wake, ffi.NULL, 0, lib.ACTOR_REPUT)
        handle = lib.reput_open(tree)
        if handle == ffi.NULL:
            error = OSError(ffi.errno, os.strerror(ffi.errno))
            lib.attachment_close(tree)
            raise disk_error(error, self._layout.root, settings_room(self._layout), "queues and index")
        try:
            self._step(handle, progress)
            return int(self._positions().reput_ms)
        finally:
            lib.reput_close(handle)
            lib.attachment_close(tree)

    def _step(self, handle: Any, progress: Callable[[int, int], None]) -> None:
        begin, end = self._report.reput, self._report.end
        # At least once: reput also commits that there is nothing to do.
        while True:
            before = lib.reput_position(handle)
            lib.reput_step(handle, STEP_BYTES)
            at = lib.reput_position(handle)
            progress(at - begin, end - begin)
            if at >= end:
                return
            if at == before:
                self._help(handle, at)

    def _help(self, handle: Any, at: int) -> None:
        """The error for a record whose queue the table does not know, or for a full disk."""
        name, queue = ffi.new("uint8_t[]", lib.TOPIC_NAME_MAX), ffi.new("uint32_t *")
        size = lib.reput_missing(handle, name, queue)
        if size:
            topic = bytes(ffi.buffer(name, size)).decode(errors="surrogateescape")
            if not possible(topic, queue[0]) or not self._add(topic, queue[0] + 1):
                lib.reput_pass(handle)
            return
        number = self._positions().reput_error
        what = f"queues and index, at {at:,} of the log"
        raise disk_error(OSError(number, os.strerror(number)), self._layout.root, settings_room(self._layout), what)

    def _positions(self) -> Any:
        seen = ffi.new("struct positions_seen *")
        lib.control_positions(self._control, seen)
        return seen

    def _add(self, topic: str, queues: int) -> bool:
        name = os.fsencode(topic)
        result = lib.topics_add(self._topics, name, len(name), queues, queues, 6, ffi.new("uint32_t *"))
        return bool(result == lib.TOPICS_ADDED)


def settings_room(layout: StoreLayout) -> int:
    """Bytes that one more index file of this store may need."""
    return layout.settings().index_file_size


def _sync_files(layout: StoreLayout) -> None:
    """Syncs queues and index, and the names in their folders."""
    for root in (layout.consumequeue, layout.index):
        for folder, _, files in os.walk(root):
            for name in files:
                _sync(Path(folder) / name)
            atomic_file.sync_folder(Path(folder))
    _sync(layout.reput)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
