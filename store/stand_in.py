"""What a repair writes in the place of damaged bytes: whole records, so that every reader of the log gets past them.

A queue cannot have a hole: RocketMQ, which makes its queues anew from the log, would give later messages other offsets. So each
lost message gets a stand-in, a record with its topic, queue and queue offset, marked by its prepared transaction offset
(native/format/record.h). OrbitMQ delivers it to nobody. RocketMQ does not know the mark: a consumer of all tags gets its body,
which says what it is.

Bytes in which no message is known are filled with rolled-back records, which are in no queue and no index of either broker. At
the end of a file its blank marker is enough.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from orbitmq.store.commit_log.record import BLANK_MAGIC, CRC_PROPERTY, MAGIC, encode

BLANK = struct.Struct(">II")
FIXED = 91  # bytes of a record beside body, topic and properties
CRC_SIZE = 20
FILLER_TOPIC = "_"
FILLER_MAX = 1 << 20  # RocketMQ reads records of up to 4 MiB
STRETCH = 4096  # a stand-in takes up to this many bytes that would otherwise need a filler
ROLLED_BACK = 0xC
MARK = 0x4F524249544C4F53  # RECORD_STANDS_IN
QUEUE_OFFSET_AT = 20
_CRC_MASK = 0x7FFFFFFF
_TEXT = b"orbitmq: the record of this message was damaged, and a repair gave it up. "
_BARE = struct.Struct(">IIIIIQQIQ8sQ8sIQI")
_HOST = bytes((127, 0, 0, 1)) + bytes(4)


class LostMessage(NamedTuple):
    """A message whose place in its queue has to be kept."""

    topic: str
    queue: int
    queue_offset: int

    @property
    def least(self) -> int:
        """Size of the smallest record that can stand in for it; no record of the message itself was smaller."""
        return FIXED + len(self.topic.encode("utf-8", "surrogateescape"))


LEAST_FILLER = FIXED + len(FILLER_TOPIC)


def room_for(messages: Sequence[LostMessage], *, to_file_end: bool) -> int:
    """Least number of bytes that stand-ins for these need."""
    return sum(message.least for message in messages) + (BLANK.size if to_file_end else 0)


def fill(messages: Sequence[LostMessage], size: int, offset: int, store_ms: int, *, to_file_end: bool) -> Iterator[bytes]:
    """Records for exactly `size` bytes of the log from `offset` on: a stand-in for each message, then fillers for the rest.

    to_file_end: the bytes reach to the end of their file; then its blank marker ends them, and what would follow it is left
        out. Raises: ValueError: there is not room for all of them, or too little for anything.
    """
    spare = size - room_for(messages, to_file_end=to_file_end)
    if spare < 0 or (not messages and not to_file_end and size < LEAST_FILLER):
        raise ValueError(f"{size:,} bytes at {offset:,} are too few for what must stand there")
    # How to use the space beyond the minimum: first a CRC for each, then a body that says what it is.
    share = spare // len(messages) if messages else 0
    more = min(share, CRC_SIZE + len(_TEXT)) if share >= CRC_SIZE else 0
    end = offset + size
    for number, message in enumerate(messages):
        length = message.least + more
        rest = end - offset - length
        if number == len(messages) - 1 and not to_file_end and rest <= max(STRETCH, LEAST_FILLER):
            length += rest
        yield _record(message.topic, message.queue, message.queue_offset, length, offset, store_ms, sys_flag=0)
        offset += length
    if to_file_end:
        yield BLANK.pack(end - offset, BLANK_MAGIC)
        return
    while offset < end:
        rest = end - offset
        # Never so much that too little is left.
        length = rest if rest <= FILLER_MAX else min(FILLER_MAX, rest - LEAST_FILLER)
        yield _record(FILLER_TOPIC, 0, 0, length, offset, store_ms, sys_flag=ROLLED_BACK)
        offset += length


def renumber(record: bytes, queue_offset: int) -> bytes:
    """The same record with another queue offset, and with a matching CRC if it has one."""
    changed = record[:QUEUE_OFFSET_AT] + queue_offset.to_bytes(8, "big") + record[QUEUE_OFFSET_AT + 8 :]
    if changed[-CRC_SIZE:].startswith(CRC_PROPERTY.encode() + b"\1"):
        digits = f"{zlib.crc32(changed[:-CRC_SIZE]) & _CRC_MASK:010d}"[::-1]
        changed = changed[:-CRC_SIZE] + CRC_PROPERTY.encode() + b"\1" + digits.encode() + b"\2"
    return changed


def _record(topic: str, queue: int, queue_offset: int, size: int, offset: int, store_ms: int, *, sys_flag: int) -> bytes:
    name = topic.encode("utf-8", "surrogateescape")
    body_size = size - FIXED - len(name)
    if body_size >= CRC_SIZE and topic.isascii():
        return encode(
            topic,
            _body(body_size - CRC_SIZE),
            queue_id=queue,
            queue_offset=queue_offset,
            physical_offset=offset,
            sys_flag=sys_flag,
            prepared_offset=MARK,
            born_ms=store_ms,
            store_ms=store_ms,
        )
    body = _body(body_size)
    crc = zlib.crc32(body) & _CRC_MASK
    fixed = _BARE.pack(
        *(size, MAGIC, crc, queue, 0, queue_offset, offset, sys_flag, store_ms, _HOST, store_ms, _HOST, 0, MARK, body_size)
    )
    return fixed + body + bytes([len(name)]) + name + bytes(2)


def _body(size: int) -> bytes:
    return (_TEXT * (size // len(_TEXT) + 1))[:size]
