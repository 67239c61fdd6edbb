"""The consumer for asyncio: the same names, awaitable.

What is there already is taken on the event loop, which costs microseconds. Only waiting happens in a thread, and a
wait takes no
message: a task that is cancelled while it waits loses none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from orbitmq.client.consumer import Consumer
from orbitmq.client.subscription import QueueKey
from orbitmq.errors import Closed

if TYPE_CHECKING:
    import pyarrow as pa

    from orbitmq.client.message import Message

# The thread gives the consumer up this often, so that a commit need not wait for a message.
SLICE_S = 0.1

_Result = TypeVar("_Result")


class AsyncConsumer:
    """Made by `AsyncClient.consumer()`. Belongs to one task at a time; see client/consumer.py for what each method
    raises."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        # One thread of its own: waits of many consumers would fill the loop's shared ones.
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="orbitmq-consumer")
        self._waiting: asyncio.Future[Any] | None = None

    async def poll(self, timeout: float | None = None) -> Message | None:
        """The next message; None when there was none for `timeout` seconds."""
        return await self._gather(lambda: self._consumer.poll(0), timeout, lambda found: found is not None)

    async def poll_batch(self, max_messages: int = 1000, timeout: float | None = None) -> list[Message]:
        """The next messages, at least one unless the time is over."""
        return await self._gather(lambda: self._consumer.poll_batch(max_messages, 0), timeout, bool)

    async def poll_bodies(self, max_messages: int = 1000, timeout: float | None = None) -> list[bytes]:
        """The bodies of the next messages, copied."""
        return await self._gather(lambda: self._consumer.poll_bodies(max_messages, 0), timeout, bool)

    async def poll_arrow(
        self, max_messages: int = 10_000, timeout: float | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.RecordBatch:
        """The next messages as an Arrow record batch."""
        return await self._gather(
            lambda: self._consumer.poll_arrow(max_messages, 0, columns=columns), timeout, lambda found: found.num_rows > 0
        )

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Messages as they come; ends when the consumer is closed."""
        while True:
            try:
                message = await self.poll()
            except Closed:
                return
            if message is not None:
                yield message

    async def commit(self) -> None:
        await self._call(self._consumer.commit)

    async def seek(self, topic: str, queue: int, offset: int) -> None:
        await self._call(lambda: self._consumer.seek(topic, queue, offset))

    async def seek_to_time(self, ms: int) -> None:
        await self._call(lambda: self._consumer.seek_to_time(ms))

    async def position(self) -> dict[QueueKey, int]:
        return await self._call(self._consumer.position)

    async def committed(self) -> dict[QueueKey, int]:
        return await self._call(self._consumer.committed)

    async def lag(self) -> dict[QueueKey, int]:
        return await self._call(self._consumer.lag)

    @property
    def assignment(self) -> list[QueueKey]:
        return self._consumer.assignment

    async def close(self) -> None:
        """Gives the session back; a wait of another task ends in Closed."""
        await asyncio.to_thread(self._consumer.close)
        self._threads.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _gather(self, take: Callable[[], _Result], timeout: float | None, enough: Callable[[_Result], bool]) -> _Result:
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        await self._thread_back()
        while True:
            found = take()
            if enough(found):
                return found
            left = SLICE_S if deadline is None else min(SLICE_S, deadline - loop.time())
            if left <= 0:
                return found
            self._waiting = loop.run_in_executor(self._threads, self._consumer.wait, left)
            await self._thread_back()

    async def _call(self, work: Callable[[], _Result]) -> _Result:
        """Work that may ask the coordinator, in the consumer's thread."""
        await self._thread_back()
        loop = asyncio.get_running_loop()
        self._waiting = future = loop.run_in_executor(self._threads, work)
        await self._thread_back()
        result: _Result = future.result()
        return result

    async def _thread_back(self) -> None:
        """Until the thread has let the consumer go. What a cancelled task began is finished first."""
        while self._waiting is not None:
            waiting = self._waiting
            await asyncio.shield(waiting)
            if self._waiting is waiting:
                self._waiting = None
