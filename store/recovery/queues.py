"""What recovery does with the ConsumeQueues: it measures all of them, and removes units that point past the end of the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

from orbitmq.shm.topic_table import QueueKey
from orbitmq.store import atomic_file, sparse
from orbitmq.store.consume_queue import UNIT_SIZE, ConsumeQueue, Extent, queues
from orbitmq.store.layout import StoreLayout
from orbitmq.store.recovery.report import QueueState


def measure(layout: StoreLayout, file_units: int, log_begin: int) -> dict[QueueKey, Extent]:
    """What each queue holds of a log that begins at `log_begin`. Raises: StoreSettingsError: a file of another length."""
    return {
        (topic, queue): ConsumeQueue(layout.root, topic, queue, file_units).extent(log_begin)
        for topic, queue in queues(layout.root)
    }


def cut(
    layout: StoreLayout,
    file_units: int,
    measured: dict[QueueKey, Extent],
    log_begin: int,
    log_end: int,
    cutting: Callable[[], None] = lambda: None,
    *,
    holes: bool,
    again: bool = False,
) -> dict[QueueKey, Extent]:
    """Removes, durably, units that reach past `log_end`. Returns the new extents of the queues that were changed.

    holes: queues may have lost units in the middle; then everything after the first missing unit is removed too. It would count
        again as soon as the hole is filled, and might point past the end. again: what was removed before may still be on the
        disk.
    cutting: called before anything is changed.
    """
    changed = {}
    for key, extent in measured.items():
        queue = ConsumeQueue(layout.root, *key, file_units)
        if again or extent.physical_end > log_end or (holes and _has_more(queue, extent)):
            cutting()
            changed[key] = queue.truncate(log_end, log_begin)
    return changed


def as_they_are(
    layout: StoreLayout,
    file_units: int,
    states: tuple[QueueState, ...],
    log_begin: int,
    log_end: int,
    logged: Mapping[QueueKey, int],
) -> tuple[tuple[QueueState, ...], tuple[str, ...]]:
    """The states, and a note for the user, if no byte may be written: what is in the queues can be read, as far as the log
    goes. logged: the next offset of each queue, as the scanned log has it."""
    bounded, missing = [], 0
    for told in states:
        state = told
        if told.physical_end > log_end:
            held = ConsumeQueue(layout.root, told.topic, told.queue, file_units).extent(log_begin, log_end)
            state = told._replace(min_offset=held.min_offset, max_offset=held.max_offset, physical_end=held.physical_end)
        missing += max(0, logged.get((state.topic, state.queue), 0) - state.max_offset)
        bounded.append(state)
    text = f"{missing:,} messages of the log are in no queue yet, and cannot be read while the store is open read-only"
    return tuple(bounded), (f"{text}; a start without read_only indexes them",) if missing else ()


def drop_headless(
    layout: StoreLayout,
    file_units: int,
    measured: dict[QueueKey, Extent],
    logged: Set[QueueKey],
    reput: int,
    cutting: Callable[[], None] = lambda: None,
    *,
    whole: bool = False,
) -> dict[QueueKey, Extent]:
    """Removes, durably, the files of queues that have only units which will be made again anyway. Returns their new extents.

    A power cut may take a queue's first file and leave the next. The queue would seem to begin there, for good. What lies
    before `reput` was synced, so a queue that has anything there does begin where it seems to. logged: the queues that have
    records in the scanned part of the log, which contains everything behind `reput`. whole: that part is all that was ever
    stored. Then a queue without records there has lost them all, and begins anew. Otherwise retention may have removed them,
    and the file says which number comes next.
    """
    changed = {}
    for key, extent in measured.items():
        queue = ConsumeQueue(layout.root, *key, file_units)
        firsts = queue.files()
        if not firsts or firsts[0] == 0 or not (whole or key in logged):
            continue
        if extent.min_offset < extent.max_offset and queue.unit(extent.min_offset).physical_offset < reput:
            continue
        cutting()
        for first in reversed(firsts):
            queue.path(first).unlink()
        atomic_file.sync_folder(queue.folder)
        changed[key] = extent._replace(min_offset=0, max_offset=0, physical_end=0)
    return changed


def _has_more(queue: ConsumeQueue, extent: Extent) -> bool:
    """True if something that is not zero lies behind the queue's end."""
    for first in reversed(queue.files()):
        if first + queue.file_units <= extent.max_offset:
            return False
        with queue.path(first).open("rb", buffering=0) as file:
            at = max(0, extent.max_offset - first) * UNIT_SIZE
            if sparse.last_nonzero(file.fileno(), at) > at:
                return True
    return False
