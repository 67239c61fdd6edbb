"""The two ends of a byte ring (native/shared/ring.h) from Python, for control paths and tests. Hot paths stay in C.

A ring lies in any writable buffer: two cache lines of positions, then `capacity` bytes of records. One process holds the
producer, one the consumer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from orbitmq.native._core import ffi, lib
from orbitmq.shm.memory import Buffer, line_pointer

HEADER: int = lib.RING_HEADER
MIN_CAPACITY: int = lib.RING_MIN_CAPACITY
POSITIONS = 128  # bytes before the records: tail line, head line


class RingLook(IntEnum):
    """The result of a look that finds no record."""

    EMPTY = lib.RING_EMPTY
    BROKEN = lib.RING_BROKEN


@dataclass(frozen=True, slots=True)
class RingRecord:
    """A record in the ring. payload is a view that is valid until the record is released."""

    type: int
    payload: memoryview


def ring_size(capacity: int) -> int:
    """Size of a ring in bytes.

    Raises: ValueError: capacity is not a power of two from 4096 to 2 GiB.
    """
    if not 0 <= capacity < 1 << 64 or not lib.ring_capacity_good(capacity):
        raise ValueError(
            f"cannot make a ring of {capacity} bytes, a power of two from {MIN_CAPACITY} to {1 << 31} is wanted"
        )
    return POSITIONS + capacity


class RingProducer:
    """The writing end. It begins at the shared tail, so a record that a predecessor claimed and did not publish never existed.

    Args:
        memory: writable buffer that holds the ring at byte `offset`, zeroed before its first use.
        capacity: bytes of records. The ring does not store it; both ends know it.
    """

    def __init__(self, memory: Buffer, capacity: int, offset: int = 0) -> None:
        self._ring = line_pointer("struct ring *", memory, offset, ring_size(capacity))
        self._end = ffi.new("struct ring_producer *")
        self._capacity = capacity
        self._claimed = -1
        lib.ring_producer_attach(self._end, self._ring, capacity)

    @property
    def position(self) -> int:
        """Bytes committed so far, published or not."""
        return int(self._end.position)

    def claim(self, size: int) -> memoryview | None:
        """Room for a payload of `size` bytes, or None while the ring is full. Replaces a claim that was not committed.

        Raises: ValueError: the record would be larger than half the ring.
        """
        if not 0 <= size <= self._capacity // 2 - HEADER:
            raise ValueError(
                f"cannot claim {size} bytes, a ring of {self._capacity} takes {self._capacity // 2 - HEADER}"
            )
        at = lib.ring_claim(self._end, size)
        if at == ffi.NULL:
            return None
        self._claimed = size
        return memoryview(ffi.buffer(at, size))

    def commit(self, size: int, kind: int) -> None:
        """Ends the claimed record with its type, 1 or larger. `size` may be smaller than what was claimed.

        Raises: ValueError: nothing, or less, was claimed, or the type is that of padding.
        """
        if not 0 <= size <= self._claimed:
            raise ValueError(f"cannot commit {size} bytes, {self._claimed} are claimed")
        if not 0 < kind < 1 << 32:
            raise ValueError(f"cannot commit a record of type {kind}, 1 to {(1 << 32) - 1} are the user's")
        lib.ring_commit(self._end, size, kind)
        self._claimed = -1

    def publish(self) -> None:
        """Publishes everything committed so far to the consumer."""
        lib.ring_publish(self._end)

    def put(self, payload: bytes, kind: int) -> bool:
        """Claims, copies and commits. False while the ring is full. The caller publishes."""
        room = self.claim(len(payload))
        if room is None:
            return False
        room[:] = payload
        self.commit(len(payload), kind)
        return True


class RingConsumer:
    """The reading end.

    Args:
        position: where to begin. None: at the shared head, so that what a predecessor did not release is read again.
    """

    def __init__(self, memory: Buffer, capacity: int, offset: int = 0, position: int | None = None) -> None:
        self._ring = line_pointer("struct ring *", memory, offset, ring_size(capacity))
        self._end = ffi.new("struct ring_consumer *")
        self._header = ffi.new("struct ring_record *")
        self._payload = ffi.new("uint8_t **")
        self._shown = False
        begin = int(lib.ring_head_position(self._ring)) if position is None else position
        lib.ring_consumer_attach(self._end, self._ring, capacity, begin)

    @property
    def position(self) -> int:
        """Bytes passed so far, released or not."""
        return int(self._end.position)

    def peek(self) -> RingRecord | RingLook:
        """The record at this position. BROKEN: nothing from here on can be trusted, and the user of the ring must give it
        up."""
        look = lib.ring_peek(self._end, self._header, self._payload)
        self._shown = look == lib.RING_RECORD
        if not self._shown:
            return RingLook(look)
        size = self._header.length - HEADER
        return RingRecord(int(self._header.type), memoryview(ffi.buffer(self._payload[0], size)))

    def advance(self) -> None:
        """Passes the record that the last peek showed. Its memory stays valid until release.

        Raises: ValueError: the last peek showed none.
        """
        if not self._shown:
            raise ValueError("cannot pass a record, the last look showed none")
        lib.ring_pass(self._end, self._header)
        self._shown = False

    def release(self) -> None:
        """Gives the memory of all passed records back to the producer."""
        lib.ring_release(self._end, self._end.position)
