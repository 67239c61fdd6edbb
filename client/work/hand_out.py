"""One message in a worker's hands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orbitmq.native._types import Message


class HandOut:
    """message: as consumers get it. delivery: 1 if it was never handed out before, then 2, and so on. deadline:
    time.monotonic() at which another worker may get it.

    The rest is for the session that it came from: the queue's slot and opening, the offset in the queue, and which of the
    session's lives."""

    __slots__ = ("deadline", "delivery", "life", "message", "offset", "opening", "slot")

    def __init__(
        self, message: Message, delivery: int, deadline: float, slot: int, opening: int, offset: int, life: int
    ) -> None:
        self.message = message
        self.delivery = delivery
        self.deadline = deadline
        self.slot = slot
        self.opening = opening
        self.offset = offset
        self.life = life

    def __repr__(self) -> str:
        return f"<HandOut {self.message.topic}/{self.message.queue}/{self.offset}, delivery {self.delivery}>"
