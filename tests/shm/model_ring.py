"""A byte ring in plain Python over the same bytes as native/shared/ring.h, one look at a time: the reference for the C ring.

It knows no memory orders, so one thread must use both ends. It was written from the layout in the header, not from the C code.
"""

from __future__ import annotations

import struct

from orbitmq.shm.ring import RingLook, RingRecord

TAIL, HEAD, DATA = 0, 64, 128


def load(memory: memoryview, at: int) -> int:
    return int(struct.unpack_from("<Q", memory, at)[0])


def store(memory: memoryview, at: int, value: int) -> None:
    struct.pack_into("<Q", memory, at, value)


def stride(size: int) -> int:
    return -(-(size + 8) // 8) * 8


class ModelProducer:
    def __init__(self, memory: bytearray, capacity: int) -> None:
        self._memory = memoryview(memory)
        self._capacity = capacity
        self.position = load(self._memory, TAIL)

    def put(self, payload: bytes, kind: int) -> bool:
        need = stride(len(payload))
        assert need <= self._capacity // 2
        index = self.position % self._capacity
        padding = self._capacity - index if index + need > self._capacity else 0
        if self.position + padding + need - load(self._memory, HEAD) > self._capacity:
            return False
        if padding:
            struct.pack_into("<II", self._memory, DATA + index, padding, 0)
            self.position += padding
            index = 0
        struct.pack_into("<II", self._memory, DATA + index, 8 + len(payload), kind)
        self._memory[DATA + index + 8 : DATA + index + 8 + len(payload)] = payload
        self.position += need
        return True

    def publish(self) -> None:
        store(self._memory, TAIL, self.position)


class ModelConsumer:
    def __init__(self, memory: bytearray, capacity: int) -> None:
        self._memory = memoryview(memory)
        self._capacity = capacity
        self._next = 0
        self._tail = -1
        self.position = load(self._memory, HEAD)

    def peek(self) -> RingRecord | RingLook:
        self._tail = max(self._tail, self.position)
        if self._tail == self.position:
            tail = load(self._memory, TAIL)
            if tail % 8 or not self.position <= tail <= self.position + self._capacity:
                return RingLook.BROKEN
            self._tail = tail
        while self.position < self._tail:
            index = self.position % self._capacity
            to_end = self._capacity - index
            length, kind = struct.unpack_from("<II", self._memory, DATA + index)
            if length < 8 or stride(length - 8) > min(to_end, self._tail - self.position):
                return RingLook.BROKEN
            if kind:
                if stride(length - 8) > self._capacity // 2:
                    return RingLook.BROKEN
                self._next = self.position + stride(length - 8)
                return RingRecord(kind, self._memory[DATA + index + 8 : DATA + index + length])
            if length != to_end:
                return RingLook.BROKEN
            self.position += to_end
        return RingLook.EMPTY

    def advance(self) -> None:
        self.position = self._next

    def release(self) -> None:
        store(self._memory, HEAD, self.position)
