"""The message of a transaction at the end of the log, without the operation message that the writer puts right behind it.

The writer appends both in one write group. A death of the whole tree in the middle of it, or a power cut, may leave the first
alone. Nobody was told of it for certain, and its half message still waits: so it is cut off, as all of the group would be if
the death had come a moment before. RocketMQ does not write the two together, so what it has written stays.
"""

from __future__ import annotations

from collections.abc import Callable

from orbitmq.store.commit_log.log_scan import LogScan
from orbitmq.store.commit_log.record import Record
from orbitmq.store.halves import GIVEN_UP_TOPIC, HALF_TOPIC

CRC_PROPERTY = b"__CRC32#"  # of OrbitMQ's records


def without(scan: LogScan, record_at: Callable[[int], Record | None]) -> LogScan:
    """The scan without such a message. record_at: the record at a physical offset, if one begins there."""
    if not scan.records:
        return scan
    last = record_at(scan.last_offset)
    if last is None or last.physical_offset + last.size != scan.end or not _is_message(last, scan, record_at):
        return scan
    queues = dict(scan.next_offsets)
    queues[last.topic, last.queue_id] = last.queue_offset
    return scan._replace(end=last.physical_offset, records=scan.records - 1, next_offsets=queues)


def _is_message(last: Record, scan: LogScan, record_at: Callable[[int], Record | None]) -> bool:
    if CRC_PROPERTY not in bytes(last.raw_properties) or not last.prepared_offset < last.physical_offset:
        return False
    try:
        half = record_at(last.prepared_offset)
    except FileNotFoundError:
        return False
    if half is None or half.topic != HALF_TOPIC:
        return False
    return last.topic in (half.properties.get("REAL_TOPIC"), GIVEN_UP_TOPIC) and bytes(last.body) == bytes(half.body)
