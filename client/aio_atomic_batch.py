"""An atomic batch for asyncio programs: see atomic_batch.py."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from orbitmq.client.atomic_batch import Collected, Given
from orbitmq.client.receipt import Receipts
from orbitmq.shm.durability import Durability


class Sender(Protocol):
    async def _send_atomic(
        self, messages: tuple[Given, ...], durability: Durability | None, timeout: float | None
    ) -> Receipts: ...


class AsyncAtomicBatch(Collected):
    """Made by `AsyncProducer.batch()`."""

    def __init__(self, producer: Sender, durability: Durability | None, timeout: float | None) -> None:
        super().__init__()
        self._producer = producer
        self._durability = durability
        self._timeout = timeout

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        messages = self._take()
        if error is None and messages:
            self._receipts = await self._producer._send_atomic(messages, self._durability, self._timeout)
