"""Writes ConsumeQueue units again, as they are, and syncs them: an earlier sync may have failed, and the kernel then treats
their pages as written."""

from __future__ import annotations

import os

from orbitmq.native._core import lib
from orbitmq.shm.topic_table import QueueBounds, QueueKey
from orbitmq.store.commit_log.log_head import stored_ms
from orbitmq.store.consume_queue import UNIT_SIZE, ConsumeQueue, Unit
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings.settings import StoreSettings

PIECE_UNITS = 50_000


def rewrite_units(layout: StoreLayout, settings: StoreSettings, key: QueueKey, bounds: QueueBounds, on_disk_ms: int) -> bool:
    """Rewrites units of messages stored after `on_disk_ms`, up to the published end. Nobody changes these any more; nothing
    after them is touched. False if one of them is missing, because the kernel has dropped its page meanwhile, or if the file
    system does not mark its place as written (native/base/file_extents.h). Raises: OSError."""

    def on_disk(unit: Unit) -> bool:
        found = stored_ms(layout, settings.log_file_size, unit.physical_offset)
        return found is not None and found <= on_disk_ms

    queue = ConsumeQueue(layout.root, *key, settings.queue_file_units)
    at = queue.search(bounds.minimum, bounds.maximum, on_disk)
    while at < bounds.maximum:
        first = at - at % settings.queue_file_units
        end = min(bounds.maximum, first + settings.queue_file_units, at + PIECE_UNITS)
        descriptor = os.open(queue.path(first), os.O_RDWR | os.O_CLOEXEC)
        try:
            place, size = (at - first) * UNIT_SIZE, (end - at) * UNIT_SIZE
            content = os.pread(descriptor, size, place)
            sizes = (content[8 + n : 12 + n] for n in range(0, size, UNIT_SIZE))
            if len(content) < size or not all(map(any, sizes)):
                return False
            try:
                os.pwrite(descriptor, content, place)
                os.fdatasync(descriptor)
            except OSError:  # perhaps an old error, which the kernel reports to a new descriptor
                os.pwrite(descriptor, content, place)
                os.fdatasync(descriptor)
            if lib.file_extents_unwritten(descriptor, place, place + size):
                return False
        finally:
            os.close(descriptor)
        at = end
    return True
