"""The consumer for asyncio: the same names, awaitable.

The event loop's own thread takes the messages, which costs microseconds, and hands them to the task before the task can be
cancelled. The consumer has a thread of its own, which only waits, or asks the coordinator. So a cancelled poll has taken no
message. It leaves the consumer to that thread and ends the thread's wait; the next call first waits until the thread has
released the consumer.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from orbitmq.client import argument
from orbitmq.client.aio.aside import Worker, aside_or_here, running_loop
from orbitmq.client.consumer.consumer import ARROW_BYTES, BODIES_BYTES, Consumer
from orbitmq.client.consumer.group_offsets import GroupOffsets
from orbitmq.client.consumer.listener import QueuesEvent
from orbitmq.client.consumer.session import Events
from orbitmq.client.parameters import Unknown, refuse_unknown, spelled
from orbitmq.client.unclosed import Shown, words_of
from orbitmq.errors import Closed, OrbitError, UsageError
from orbitmq.native._types import Message
from orbitmq.shm.topic_table import QueueKey

if TYPE_CHECKING:
    import pyarrow as pa

    from orbitmq.client.several import Several

# longest wait of the thread: if its event loop is gone, nobody ends the wait, and the process could not exit before
SLICE_S = 1.0

_Result = TypeVar("_Result")
_consumers: weakref.WeakSet[AsyncConsumer] = weakref.WeakSet()


@spelled
class AsyncConsumer(Shown):
    """Made by `AsyncClient.consumer()`, over a Consumer that nobody else uses. One task at a time may use it."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._informing = False  # a callback runs
        self._taking = False  # a task waits for messages
        self._events = Events(consumer)
        try:
            self._worker = Worker("orbitmq-consumer", "make a consumer")
        except BaseException:
            consumer.close()
            raise
        _consumers.add(self)

    async def poll(self, timeout: float | None = None, **unknown: Unknown) -> Message | None:
        """See Consumer.poll."""
        if unknown:
            refuse_unknown(self.poll, unknown)
        return await self._taken(lambda: self._consumer.poll(0), timeout, _is_message)

    async def poll_batch(self, max_messages: int = 1000, timeout: float | None = None, **unknown: Unknown) -> list[Message]:
        """See Consumer.poll_batch."""
        if unknown:
            refuse_unknown(self.poll_batch, unknown)
        return await self._taken(lambda: self._consumer.poll_batch(max_messages, 0), timeout, bool)

    async def poll_bodies(
        self, max_messages: int = 1000, timeout: float | None = None, *, max_bytes: int = BODIES_BYTES, **unknown: Unknown
    ) -> list[bytes]:
        """See Consumer.poll_bodies."""
        if unknown:
            refuse_unknown(self.poll_bodies, unknown)
        return await self._taken(lambda: self._consumer.poll_bodies(max_messages, 0, max_bytes=max_bytes), timeout, bool)

    async def poll_arrow(
        self,
        max_messages: int = 4096,
        timeout: float | None = None,
        *,
        columns: Several[str] | None = None,
        max_bytes: int = ARROW_BYTES,
        views: bool = False,
        **unknown: Unknown,
    ) -> pa.RecordBatch:
        """See Consumer.poll_arrow."""
        if unknown:
            refuse_unknown(self.poll_arrow, unknown)
        poll = self._consumer.poll_arrow
        take: Callable[[], Any] = lambda: poll(  # noqa: E731
            max_messages, 0, columns=columns, max_bytes=max_bytes, views=views
        )
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
        """See Consumer.assignment."""
        return self._consumer.assignment

    @property
    def skipped(self) -> int:
        """See Consumer.skipped."""
        return self._consumer.skipped

    @property
    def rebalances(self) -> int:
        """See Consumer.rebalances."""
        return self._consumer.rebalances

    @property
    def closed(self) -> bool:
        """See Consumer.closed."""
        return self._consumer.closed

    async def wait(self, timeout: float | None = None, **unknown: Unknown) -> bool:
        """See Consumer.wait."""
        if unknown:
            refuse_unknown(self.wait, unknown)
        self._check_callback()
        self._taking = True
        try:
            deadline = argument.deadline(timeout, "wait for messages")
            while not await self._wait(deadline):
                if deadline is not None and time.monotonic() >= deadline:
                    return False
            return True
        finally:
            self._taking = False

    async def position(self) -> dict[QueueKey, int]:
        """See Consumer.position."""
        return await self._aside(self._consumer.position)

    async def committed(self) -> dict[QueueKey, int]:
        """See Consumer.committed."""
        return await self._aside(self._consumer.committed)

    async def lag(self) -> dict[QueueKey, int]:
        """See Consumer.lag."""
        return await self._aside(self._consumer.lag)

    async def seek(self, topic: str, queue: int, offset: int) -> None:
        """See Consumer.seek."""
        await self._aside(lambda: self._consumer.seek(topic, queue, offset))

    async def seek_to_time(self, ms: float | datetime, *, nearest: bool = False) -> None:
        """See Consumer.seek_to_time."""
        await self._aside(lambda: self._consumer.seek_to_time(ms, nearest=nearest))

    @property
    def paused(self) -> list[QueueKey]:
        """See Consumer.paused."""
        return self._consumer.paused

    async def pause(self, queues: Iterable[QueueKey] | None = None) -> None:
        """See Consumer.pause."""
        await self._aside(lambda: self._consumer.pause(queues))

    async def unpause(self, queues: Iterable[QueueKey] | None = None) -> None:
        """See Consumer.unpause."""
        await self._aside(lambda: self._consumer.unpause(queues))

    async def commit(self, offsets: Mapping[QueueKey, int] | None = None, **unknown: Unknown) -> None:
        """See Consumer.commit. A commit that was cancelled may or may not have counted."""
        if unknown:
            refuse_unknown(self.commit, unknown)
        await self._aside(lambda: self._consumer.commit(offsets))

    async def settle(self, deadline: float | None = None) -> None:
        """See Consumer.settle. The event loop calls the callbacks, and awaits what they return if it can be awaited."""
        self._check_callback()
        await self._aside(lambda: self._consumer.settle(deadline))
        await self._inform()

    async def close(self) -> None:
        """See Consumer.close. A task that waits for messages ends with Closed. If `close` itself is cancelled, the consumer is
        closed all the same."""
        try:
            if not (self._taking or self._informing or self._consumer.closed) and await self._aside(self._events.part):
                await self._inform()
        finally:
            await self._end()

    async def _end(self) -> None:
        running_loop("close this consumer")
        try:
            await aside_or_here(self._consumer.close, "close this consumer")
        finally:
            self._worker.close()

    async def __aenter__(self) -> Self:
        return self

    def _words(self) -> str:
        return words_of(self._consumer)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # See Consumer.__exit__.
        await (self.close() if error is None else self._end())

    async def _inform(self) -> None:
        """Calls the program's callbacks, as Consumer._inform does."""
        while (event := self._events.next()) is not None:
            self._informing = True
            try:
                if callback := self._events.callback(event):
                    result = callback(self, event.queues)
                    if inspect.isawaitable(result):
                        await result
            except asyncio.CancelledError:
                raise  # its queues go when their time is over
            except BaseException:
                self._informing = False
                await self._done(event)
                raise
            finally:
                self._informing = False
            await self._done(event)

    async def _done(self, event: QueuesEvent) -> None:
        await self._aside(lambda: self._events.done(event))

    def _check_callback(self) -> None:
        if self._informing:
            raise UsageError("could not read or wait in a callback of this consumer", hint="return, and poll then")

    async def _taken(self, take: Callable[[], _Result], timeout: float | None, good: Callable[[_Result], bool]) -> _Result:
        """Returns what `take`, which does not wait, gives: as soon as that is good, or when the time is over."""
        self._check_callback()
        deadline = argument.deadline(timeout, "wait for messages")
        self._taking = True
        try:
            while True:
                if self._worker.left is not None:
                    await self._own()
                if not self._consumer.prompt:
                    await self.settle(deadline)
                found = take()
                if good(found):
                    return found
                if deadline is not None and time.monotonic() >= deadline and (timeout or not self._events.unread()):
                    return found
                await self._wait(deadline)
        finally:
            self._taking = False

    async def _wait(self, deadline: float | None) -> bool:
        """Waits for news for a bounded time. False: there was none."""
        left = SLICE_S if deadline is None else min(SLICE_S, max(0.0, deadline - time.monotonic()))
        return await self._aside(lambda: self._consumer.wait(left))

    async def _aside(self, work: Callable[[], _Result]) -> _Result:
        """Runs in the consumer's thread."""
        await self._own()
        return await self._worker.do(work, leave=self._consumer.interrupt, doing="use this consumer")

    async def _own(self) -> None:
        """Called before every use of the consumer: takes it back from the thread to which a cancelled task has left it."""
        if self._worker.left is not None:
            await self._worker.settled()
            self._consumer.resume()
        if self._consumer.closed:
            raise Closed("could not use this consumer: it is closed", hint="make another one")

    def _forked(self) -> None:
        """In a forked child: the work of the parent's tasks and thread stays with the parent."""
        self._informing = self._taking = False
        self._worker.forked()
        self._consumer.resume()


class AsyncCommitting:
    """What an atomic batch of asyncio uses of a consumer."""

    def __init__(self, reader: AsyncConsumer) -> None:
        self._source = reader

    async def take(self) -> GroupOffsets:
        """Raises: as GroupOffsets."""
        return await self._source._aside(lambda: GroupOffsets(self._source._consumer))

    async def let_go(self, offsets: GroupOffsets) -> None:
        """See GroupOffsets.let_go; the consumer may be closed by now."""
        with suppress(OrbitError):
            await self._source._aside(offsets.let_go)


def _is_message(found: Message | None) -> bool:
    return found is not None


def _forked() -> None:
    for each in list(_consumers):
        each._forked()


os.register_at_fork(after_in_child=_forked)
