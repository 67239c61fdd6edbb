"""How far delayed messages are delivered: config/delayOffset.json, RocketMQ's, and beside it orbitmq/delayed.

    0   magic "orbitdly"   8  u32 layout version   12  u64 physical offset   20  18 x u64 next offset, by level
    164 4 x u64: known, due time, offset, floor   196 u32 CRC-32 of the 196 bytes before, big-endian

A next offset is that of a queue in SCHEDULE_TOPIC_XXXX: every message below it is in the log again, for its topic. Both files
are written now and then, so they may be old. The physical offset says from where on the log has to be read for messages that
were put there since: those name the message that they were made of (docs/delay.md).

The four numbers of messages with a time (native/actors/scheduler/timer.h) say: a message is done if its offset in
rmq_sys_wheel_timer is below `known` and it was due at or before that time, of messages of the same time those up to `offset`.
All below `floor` are done.

RocketMQ knows the first file only. Whichever says more of a level is right, because offsets never fall and are never used
again.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from orbitmq.errors import StoreFailed
from orbitmq.native._core import lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file, config
from orbitmq.store.layout import StoreLayout

DELAY_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
DELAY_TOPICS = (DELAY_TOPIC, TIMER_TOPIC)
LEVELS: int = lib.DELAY_LEVELS
VERSION = 2
_CONTENT = struct.Struct(f">8sIQ{LEVELS}Q4Q")
_CRC = struct.Struct(">I")
_MAGIC = b"orbitdly"


class Delays(NamedTuple):
    """next: by level - 1. start: the physical offset from which the log has to be read; None: it need not be read, because no
    scheduler has ever put anything there."""

    next: tuple[int, ...] = (0,) * LEVELS
    timer: tuple[int, ...] = (0,) * 4  # known, due time (ms), offset, floor
    start: int | None = None


def load(layout: StoreLayout) -> Delays:
    """Raises: StoreFailed: neither delayOffset.json nor its .bak can be read, and orbitmq/delayed does not help."""
    own = _load_own(layout)
    try:
        offsets = config.load_delay_offsets(layout)
    except StoreFailed:
        if own is None or own.start == 0:
            raise
        offsets = {}
    known = own.next if own is not None else (0,) * LEVELS
    merged = tuple(max(ours, offsets.get(level, 0)) for level, ours in enumerate(known, start=1))
    return Delays(merged) if own is None else Delays(merged, own.timer, own.start)


def within(said: Delays, ends: Mapping[tuple[str, int], int], end: int) -> Delays:
    """The same without what a log does not have that ends at `end`. ends: of its queues; others begin at 0."""
    known, due_ms, offset, floor = said.timer
    timed = ends.get((TIMER_TOPIC, 0), 0)
    levels = tuple(min(upto, ends.get((DELAY_TOPIC, level), 0)) for level, upto in enumerate(said.next))
    timer = min(known, timed), due_ms, offset, min(floor, timed)
    if (levels, timer) == (said.next, said.timer):
        return said
    return Delays(levels, timer, None if said.start is None else min(said.start, end))


def parse(content: bytes) -> Delays | None:
    if len(content) != _CONTENT.size + _CRC.size:
        return None
    magic, version, start, *numbers = _CONTENT.unpack_from(content)
    good = _CRC.unpack_from(content, _CONTENT.size)[0] == zlib.crc32(content[: _CONTENT.size])
    if not good or (magic, version) != (_MAGIC, VERSION):
        return None
    return Delays(tuple(numbers[:LEVELS]), tuple(numbers[LEVELS:]), start)


def store(layout: StoreLayout, delays: Delays) -> None:
    """Durable on return. Each file alone is true, so a death between the two does no harm. Raises: OSError."""
    content = _CONTENT.pack(_MAGIC, VERSION, delays.start or 0, *delays.next, *delays.timer)
    atomic_file.replace(layout.delayed, content + _CRC.pack(zlib.crc32(content)))
    crash_point("delays_stored_own")
    offsets = {level: offset for level, offset in enumerate(delays.next, start=1) if offset}
    config.store_delay_offsets(layout, offsets)
    crash_point("delays_stored")


def _load_own(layout: StoreLayout) -> Delays | None:
    """None: there is no file. A damaged file gives the start 0, so that the whole log is read."""
    try:
        return parse(layout.delayed.read_bytes()) or Delays(start=0)
    except FileNotFoundError:
        return None
