"""Reads the CommitLog forward, from Python: how far it is good, and where each queue of that part continues."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from orbitmq.errors import StoreFailed
from orbitmq.native._core import ffi, lib
from orbitmq.store.commit_log.record import Fault
from orbitmq.store.layout import StoreLayout

STEP_BYTES = 64 << 20
_QUEUES_AT_ONCE = 1024


class LogScan(NamedTuple):
    """What a scan found. Offsets are physical, bytes; times milliseconds since 1970.

    first_ms, first_sealed: store timestamp of the first record, and whether it has the CRC property, as OrbitMQ's records have.
    rising_from: no record of the scanned part at or behind it is followed by one with an earlier time.
    `next_offsets`: for every (topic, queue id) with a record in the scanned part, the queue offset after the newest.
    """

    start: int
    end: int
    fault: Fault  # what is at the end; Fault.END: nothing was ever written there
    last_ms: int
    last_offset: int
    records: int
    next_offsets: dict[tuple[str, int], int]
    first_ms: int = 0
    first_sealed: bool = False
    rising_from: int = 0
    fault_at: int = 0  # the place of `fault`: behind `end` if an atomic batch that ends there is not complete
    headless: bool = False  # that batch began before `start`, and is not left out


def scan_log(
    layout: StoreLayout, file_size: int, start: int, progress: Callable[[int], None] | None = None, *, parts: bool = False
) -> LogScan:
    """Reads records from `start`, a record boundary, to the first that is not good. If the last of them are those of an atomic
    batch that is not complete, the log ends before it.

    progress: called between steps with the offset reached. parts: such a batch is kept, as far as it goes.
    Raises: StoreFailed: a file cannot be read; has .errno.
    """
    scan = lib.scan_open(os.fsencode(layout.root), file_size, start, parts)
    if scan == ffi.NULL:
        raise MemoryError
    try:
        state = ffi.new("struct scan_state *")
        result = lib.SCAN_MORE
        while result == lib.SCAN_MORE:
            result = lib.scan_step(scan, STEP_BYTES)
            lib.scan_look(scan, state)
            if progress is not None and result == lib.SCAN_MORE:
                progress(state.offset)
        if result == lib.SCAN_FAILED:
            raise StoreFailed(
                f"cannot read the CommitLog at {state.offset}: {os.strerror(state.error)}",
                errno=state.error,
                offset=state.offset,
            )
        return LogScan(
            start=start,
            end=state.offset,
            fault=Fault(state.fault),
            last_ms=state.last_ms,
            last_offset=state.last_offset,
            records=state.records,
            next_offsets=_queues(scan, state.queue_count),
            first_ms=state.first_ms,
            first_sealed=bool(state.first_sealed),
            rising_from=state.rising_from,
            fault_at=state.fault_at,
            headless=bool(state.headless),
        )
    finally:
        lib.scan_close(scan)


def queue_key(name: ffi.CData) -> tuple[str, int]:
    """(topic, queue id) of a struct queue_name."""
    topic = bytes(ffi.buffer(name.topic)[: name.topic_size]).decode("utf-8", "surrogateescape")
    return topic, name.queue_id


def _queues(scan: ffi.CData, count: int) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    page = ffi.new("struct scan_queue[]", min(count, _QUEUES_AT_ONCE) or 1)
    for first in range(0, count, _QUEUES_AT_ONCE):
        for queue in page[0 : lib.scan_queues(scan, first, _QUEUES_AT_ONCE, page)]:
            if queue.next_offset:  # otherwise its only messages were those of a batch that was left out
                found[queue_key(queue.name)] = queue.next_offset
    return found
