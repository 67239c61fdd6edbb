"""The consumer for asyncio: the same names, awaitable.

Messages are taken in the event loop's own thread, which costs microseconds; a thread of the consumer's only waits, or asks the
coordinator. So cancelling a task never loses a message that was taken and not delivered.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from orbitmq.client.aside import aside_or_here
from orbitmq.client.consumer import Consumer
from orbitmq.errors import Closed
from orbitmq.native._fast import Message
from orbitmq.shm.means import means
from orbitmq.shm.topic_table import QueueKey

if TYPE_CHECKING:
    import pyarrow as pa

_Result = TypeVar("_Result")


class AsyncConsumer:
    """Made by `AsyncClient.consumer()`, over a Consumer that nobody else uses. Belongs to one task at a time."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="orbitmq-consumer")
        try:
            with means("make a consumer"):
                # Started now: one that could not be would leave work behind, to be done whenever there is a thread.
                self._thread.submit(int)
        except BaseException:
            consumer.close()
            raise

    async def poll(self, timeout: float | None = None) -> Message | None:
        """See Consumer.poll."""
        return await self._taken(lambda: self._consumer.poll(0), timeout, lambda found: found is not None)

    async def poll_batch(self, max_messages: int = 1000, timeout: float | None = None) -> list[Message]:
        """See Consumer.poll_batch."""
        return await self._taken(lambda: self._consumer.poll_batch(max_messages, 0), timeout, bool)

    async def poll_bodies(self, max_messages: int = 1000, timeout: float | None = None) -> list[bytes]:
        """See Consumer.poll_bodies."""
        return await self._taken(lambda: self._consumer.poll_bodies(max_messages, 0), timeout, bool)

    async def poll_arrow(
        self, max_messages: int = 4096, timeout: float | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.RecordBatch:
        """See Consumer.poll_arrow."""
        take: Callable[[], Any] = lambda: self._consumer.poll_arrow(max_messages, 0, columns=columns)  # noqa: E731
        return await self._taken(take, timeout, lambda found: bool(found.num_rows))

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Messages as they come, for ever; ends when the consumer is closed."""
        while True:
            try:
                message = await self.poll()
            except Closed:
                return
            if message is not None:
                yield message

    @property
    def assignment(self) -> list[QueueKey]:
        return self._consumer.assignment

    @property
    def skipped(self) -> int:
        return self._consumer.skipped

    @property
    def rebalances(self) -> int:
        return self._consumer.rebalances

    @property
    def closed(self) -> bool:
        return self._consumer.closed

    async def wait(self, timeout: float | None = None) -> bool:
        """See Consumer.wait."""
        return await self._aside(lambda: self._consumer.wait(timeout))

    async def position(self) -> dict[QueueKey, int]:
        return await self._aside(self._consumer.position)

    async def committed(self) -> dict[QueueKey, int]:
        return await self._aside(self._consumer.committed)

    async def lag(self) -> dict[QueueKey, int]:
        return await self._aside(self._consumer.lag)

    async def seek(self, topic: str, queue: int, offset: int) -> None:
        await self._aside(lambda: self._consumer.seek(topic, queue, offset))

    async def seek_to_time(self, ms: float) -> None:
        await self._aside(lambda: self._consumer.seek_to_time(ms))

    async def commit(self) -> None:
        """See Consumer.commit."""
        await self._aside(self._consumer.commit)

    async def close(self) -> None:
        """See Consumer.close. A task that waits for messages ends with Closed."""
        self._consumer.interrupt()
        await aside_or_here(self._consumer.close, "close this consumer")
        self._thread.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _taken(
        self, take: Callable[[], _Result], timeout: float | None, good: Callable[[_Result], bool]
    ) -> _Result:
        """What `take`, which only looks, gives as soon as it gives something good, or when the time is over."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            if not self._consumer.prompt:
                await self._aside(self._consumer.settle)
            found = take()
            if good(found):
                return found
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return found
            await self._aside(lambda left=left: self._consumer.wait(left))  # type: ignore[misc]

    async def _aside(self, work: Callable[[], _Result]) -> _Result:
        """Runs in the consumer's thread; a cancelled task waits until the thread has let the consumer go."""
        if self._consumer.closed:
            raise Closed("could not use this consumer: it is closed")
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            self._consumer.interrupt()
            while not future.done():
                await asyncio.wait([future])
            future.exception()  # looked at, so that nobody complains that it was not
            self._consumer.resume()
            raise
