"""A client's producer of the records that cancel delayed messages. It never waits for another broker, where an offset could be
that of another message."""

from __future__ import annotations

from typing import Any

from orbitmq.client.connection.session import SessionOpener
from orbitmq.client.producer.producer import Producer
from orbitmq.native._types import Pending
from orbitmq.shm.durability import Durability

AT_ONCE = 1024  # records on their way; the broker remembers what became of the last 32,768
RECORD_MAX = 1024  # such a record has no body, and names a topic


class CancelProducer(Producer):
    """Made by the client when it is first needed, and closed with it."""

    def __init__(self, opener: SessionOpener) -> None:
        super().__init__(opener, window=AT_ONCE, message_max=RECORD_MAX, wait=0.0)
        self._made_by = 0  # the user has not made it, and is not warned about it

    @property
    def generation(self) -> int:
        """Of the broker at which it has, or had, its session."""
        return self._generation

    def send_cancel(self, topic: str, queue: int, offset: int, durability: Durability | None, timeout: float) -> Pending:
        """Cancels the message at this offset of rmq_sys_wheel_timer. topic, queue: for which it is. Raises: as send_async."""
        own: dict[str, Any] = {"_cancels": offset}
        return self.send_async(topic, b"", queue=queue, durability=durability, timeout=timeout, **own)
