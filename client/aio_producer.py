"""The producer for asyncio: the same names, awaitable. Sending is a copy into shared memory, on the event loop;
receipts are awaited without a thread while the broker is prompt, and through one thread for all of them when it is
not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from orbitmq.client.producer import Producer
from orbitmq.client.receipt import Receipt, Receipts
from orbitmq.errors import TimedOut
from orbitmq.native._fast import Pending, PendingBatch

# The longest wait for room before a full window is looked at again.
SLICE_S = 0.1

_Sent = TypeVar("_Sent")


class AsyncProducer:
    """Made by `AsyncClient.producer()`. Any number of tasks may share it; arguments and errors are those of
    client/producer.py."""

    def __init__(self, producer: Producer, *, timeout: float) -> None:
        self._producer = producer
        self._timeout = timeout

    async def send(self, topic: str, body: bytes, **fields: Any) -> Receipt:
        """Sends and waits for the receipt."""
        pending = await self.send_async(topic, body, **fields)
        return await pending

    async def send_async(self, topic: str, body: bytes, **fields: Any) -> Pending:
        """Sends; await the result for its receipt."""
        limit = self._limit(fields)
        return await self._send(lambda: self._producer.send_async(topic, body, timeout=0, **fields), limit)

    async def send_oneway(self, topic: str, body: bytes, **fields: Any) -> None:
        """Sends, and wants to know nothing."""
        limit = self._limit(fields)
        await self._send(lambda: self._producer.send_oneway(topic, body, timeout=0, **fields), limit)

    async def send_batch(self, topic: str, bodies: Sequence[bytes], **fields: Any) -> Receipts:
        """Sends many, and waits for all receipts. A batch may be larger than the window, so this happens in a thread."""
        return await asyncio.to_thread(lambda: self._producer.send_batch(topic, bodies, **fields))

    async def send_batch_async(self, topic: str, bodies: Sequence[bytes], **fields: Any) -> PendingBatch:
        """Sends many; await the result for the receipts."""
        return await asyncio.to_thread(lambda: self._producer.send_batch_async(topic, bodies, **fields))

    async def flush(self, timeout: float | None = None) -> None:
        """Waits until no message is in flight."""
        await asyncio.to_thread(self._producer.flush, timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Waits for the messages in flight, then gives the session back."""
        await asyncio.to_thread(self._producer.close, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _limit(self, fields: dict[str, Any]) -> float:
        """Takes the timeout out of a send's fields: here the task waits for room, and not the call."""
        timeout = fields.pop("timeout", None)
        return self._timeout if timeout is None else float(timeout)

    async def _send(self, send: Callable[[], _Sent], limit: float) -> _Sent:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit
        while True:
            settled = self._producer._settled
            try:
                return send()
            except TimedOut:
                # No room, where a producer with on_full="error" raises Full. Verdicts make room, and they come in the
                # order of sends: one more than a moment ago is enough.
                left = deadline - loop.time()
                if left <= 0:
                    raise
                await asyncio.to_thread(self._producer._wait, settled, 0, min(left, SLICE_S))
