"""A real session without the client library around it: its bytes as a test likes them."""

from __future__ import annotations

from typing import Any

import orbitmq
from orbitmq.client.session import SessionHandle
from orbitmq.native._core import ffi, lib
from orbitmq.shm.ring import RingProducer
from orbitmq.shm.topic_table import TopicTable
from tests.native.pipeline import FRAME, SQ_SEND, message

__all__ = ["RawSession", "message"]


class RawSession:
    """One session of this process, mapped. memory: all of its bytes; ring: the client's end of the submission ring, which
    begins at ring_offset."""

    def __init__(self, client: orbitmq.Client, *, window: int = 64, sq_capacity: int = 65536, queue_capacity: int = 0) -> None:
        self.client = client
        sizes = {"window": window, "sq_capacity": sq_capacity, "message_max": sq_capacity // 4}
        self.handle: SessionHandle = client.connection.open_session(queue_capacity=queue_capacity, **sizes)
        self._attachment = client.connection.attachment
        self.pointer: Any = ffi.cast("struct session *", self.handle.address)
        self.memory: Any = ffi.buffer(ffi.cast("uint8_t *", self.handle.address), self.handle.size)
        fields = {name: getattr(self.handle, name) for name in ("slot", "epoch", "window", "queue_capacity", "sq_capacity")}
        shape = ffi.new("struct session_shape *", {**fields, "message_max": self.handle.message_max, "pid": self.handle.pid})
        self.parts = ffi.new("struct session_parts *")
        lib.session_parts(self.pointer, shape, self.parts)
        self.ring_offset = int(ffi.cast("uintptr_t", self.parts.sq)) - self.handle.address if sq_capacity else 0
        if sq_capacity:
            self.ring = RingProducer(self.memory, sq_capacity, self.ring_offset)

    @property
    def state(self) -> int:
        """native/control.h, enum session_state."""
        return int(lib.session_get_state(self._attachment.control, self.handle.slot))

    @property
    def completed(self) -> int:
        return int(lib.session_completed(self.pointer))

    def put(self, content: bytes, kind: int = SQ_SEND) -> bool:
        """Publishes a raw record, whatever it holds, and tells the handler; False while the ring is full."""
        if not self.ring.put(content, kind):
            return False
        self.ring.publish()
        self.call()
        return True

    def frame(self, topic: str, *messages: bytes, flags: int = 0, count: int | None = None) -> bytes:
        """A frame for a topic that exists; count may lie."""
        index = next(entry.index for entry in TopicTable(self._attachment.topics) if entry.name == topic)
        name_hash = lib.topic_hash(topic.encode(), len(topic.encode()))
        number = len(messages) if count is None else count
        return FRAME.pack(index, name_hash, number, flags, 1_700_000_000_000) + b"".join(messages)

    def call(self) -> None:
        """Raises the session's news bit and rings its handler."""
        lib.session_call_handler(self._attachment.control, self._attachment.wake, self.handle.slot)

    def call_notifier(self) -> None:
        lib.session_call_notifier(self._attachment.wake, self.handle.slot)

    def ask_close(self) -> None:
        """Tells the coordinator; the memory stays mapped."""
        self.client.connection.ask("close_session", slot=self.handle.slot, epoch=self.handle.epoch)
