"""A real session without the client library around it: the test controls its bytes."""

from __future__ import annotations

import mmap
import os
from typing import Any

import orbitmq
from orbitmq.native._core import ffi, lib
from orbitmq.shm.ring import RingProducer
from orbitmq.shm.topic_table import TopicTable
from tests.native.pipeline import FRAME, SQ_SEND, message

__all__ = ["RawSession", "message"]


class RawSession:
    """One session of this process, mapped. descriptor: its memfd; memory: all of its bytes; ring: the client's end of the
    submission ring, which begins at ring_offset."""

    def __init__(self, client: orbitmq.Client, *, window: int = 64, sq_capacity: int = 65536, queue_capacity: int = 0) -> None:
        self.client = client
        sizes = {"window": window, "sq_capacity": sq_capacity, "message_max": sq_capacity // 4}
        asked = {**sizes, "queue_capacity": queue_capacity}
        (given, (self.descriptor,)), _ = client.connection._question("open_session", asked)
        self.slot, self.epoch = given["slot"], given["epoch"]
        self.attachment = client.connection.attach_wake()
        self.memory = mmap.mmap(self.descriptor, 0)
        self.pointer: Any = ffi.cast("struct session *", ffi.from_buffer(self.memory, require_writable=True))
        self.shape = ffi.new("struct session_shape *", given)
        self.parts = ffi.new("struct session_parts *")
        lib.session_parts(self.pointer, self.shape, self.parts)
        self.ring_offset = self.offset_of(self.parts.sq)
        if sq_capacity:
            self.ring = RingProducer(self.memory, sq_capacity, self.ring_offset)

    @property
    def state(self) -> int:
        """native/shared/control.h, enum session_state."""
        return int(lib.session_get_state(self.attachment.control, self.slot))

    @property
    def completed(self) -> int:
        return int(lib.session_completed(self.pointer))

    def offset_of(self, part: Any) -> int:
        """Where a part of the session is in its memory; the session lacks the part if that is negative."""
        return int(ffi.cast("intptr_t", part)) - int(ffi.cast("intptr_t", self.pointer))

    def put(self, content: bytes, kind: int = SQ_SEND) -> bool:
        """Publishes a raw record, whatever it holds, and tells the handler. False while the ring is full."""
        if not self.ring.put(content, kind):
            return False
        self.ring.publish()
        self.call()
        return True

    def frame(self, topic: str, *messages: bytes, flags: int = 0, count: int | None = None) -> bytes:
        """A frame for a topic that exists; count may be wrong."""
        entry = TopicTable(self.attachment.topics).find(topic)
        assert entry is not None
        name_hash = lib.topic_hash(topic.encode(), len(topic.encode()))
        number = len(messages) if count is None else count
        return FRAME.pack(entry.index, name_hash, number, flags, 1_700_000_000_000) + b"".join(messages)

    def call(self) -> None:
        """Raises the session's news bit and rings its handler."""
        lib.session_call_handler(self.attachment.control, self.attachment.wake, self.slot)

    def call_notifier(self) -> None:
        lib.session_call_notifier(self.attachment.wake, self.slot)

    def ask_close(self) -> None:
        """Tells the coordinator; the memory stays mapped."""
        self.client.connection.ask("close_session", slot=self.slot, epoch=self.epoch)

    def close(self) -> None:
        try:
            self.ask_close()
        finally:
            os.close(self.descriptor)
