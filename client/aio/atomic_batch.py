"""An atomic batch for asyncio programs: see producer/atomic_batch.py."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from orbitmq.client.aio.consumer import AsyncCommitting, AsyncConsumer
from orbitmq.client.parameters import spelled
from orbitmq.client.producer.atomic_batch import Collected, Given
from orbitmq.client.receipt import Receipts
from orbitmq.shm.durability import Durability


class Sender(Protocol):
    async def _send_atomic(
        self, messages: tuple[Given, ...], durability: Durability | None, dedup: str | bytes | None, timeout: float | None
    ) -> Receipts: ...


@spelled
class AsyncAtomicBatch(Collected):
    """Made by `AsyncProducer.batch()`."""

    _with = "async with"

    def __init__(
        self, producer: Sender, durability: Durability | None, dedup: str | bytes | None, timeout: float | None
    ) -> None:
        super().__init__(dedup)
        self._producer = producer
        self._durability = durability
        self._timeout = timeout
        self._reader: AsyncCommitting | None = None

    async def commit(self, consumer: AsyncConsumer) -> None:
        """See AtomicBatch.commit."""
        self._check_commit(consumer, AsyncConsumer)
        self._reader = AsyncCommitting(consumer)
        self._offsets = await self._reader.take()

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._left_here(error):
            return
        messages = self._take()
        if error is not None:
            self._failed(error)
        elif not messages:
            self._receipts = Receipts(None)
        else:
            try:
                receipts = await self._producer._send_atomic(messages, self._durability, self._dedup, self._timeout)
            except BaseException as failed:
                if (told := self._failed(failed)) is failed:
                    raise
                raise told from None
            self._sent(receipts)
            if self._offsets is not None and self._reader is not None:
                await self._reader.let_go(self._offsets)
