"""The producer for asyncio programs: the methods of `Producer` under the same names, awaitable.

A send puts its message into shared memory at once, in the task itself. The task awaits two things: room, if there is none, and
the receipt (see producer/waiter.py). A thread asks the broker's coordinator to open and close sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from orbitmq.client.aio.aside import aside, aside_or_here, running_loop
from orbitmq.client.aio.atomic_batch import AsyncAtomicBatch
from orbitmq.client.aio.loop_check import called_in
from orbitmq.client.aio.transaction import AsyncTransaction
from orbitmq.client.argument import seconds
from orbitmq.client.parameters import Unknown, refuse_unknown, spelled
from orbitmq.client.producer.atomic_batch import Given
from orbitmq.client.producer.body import BatchKeys, BatchProperties, Bodies, Body
from orbitmq.client.producer.producer import LoopSide, NotReadyError, Producer, unsettled
from orbitmq.client.producer.waiter import SLICE_S, awaiting
from orbitmq.client.receipt import Receipt, Receipts
from orbitmq.client.transaction.check_function import Check
from orbitmq.client.transaction.transaction import Half, Transaction
from orbitmq.client.unclosed import Shown, words_of
from orbitmq.errors import OrbitError, TimedOut
from orbitmq.errors.remedy import hint
from orbitmq.native._types import Pending, PendingBatch
from orbitmq.shm.durability import Durability

T = TypeVar("T")


class Room:
    """Awaitable. Done when verdicts have come since it was made, or when there is nothing left to wait for."""

    __slots__ = ("_producer", "_seen", "_side", "_target")

    def __init__(self, side: LoopSide, target: int | None = None) -> None:
        self._side = side
        self._producer = side.producer
        self._seen = self._producer.settled
        self._target = target

    def done(self) -> bool:
        settled = self._producer.settled
        moved = settled != self._seen if self._target is None else not self._seen <= settled < self._target
        return moved or self._producer.in_flight == 0

    @property
    def answered(self) -> bool:
        return self.done()

    @property
    def flush_end(self) -> int:
        return 0

    def __await__(self) -> Generator[Any, None, None]:
        return awaiting(self._side.waiter, self)


@spelled
class AsyncProducer(Shown):
    """See Producer. Tasks and event loops may share one. Made by `AsyncClient.producer()`."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._side = LoopSide(producer)

    async def send(
        self,
        topic: str,
        body: Body,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] | None = (),
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        durability: Durability | None = None,
        delay_level: int | None = None,
        delay: float | timedelta | None = None,
        deliver_at: float | datetime | None = None,
        dedup: str | bytes | None = None,
        timeout: float | None = None,
        **unknown: Unknown,
    ) -> Receipt:
        """Sends a message and waits for its receipt; see Producer.send for arguments and errors. If the call is cancelled while
        it waits, the message has been sent. To ask for the receipt later, use `send_async` and keep its Pending."""
        if unknown:
            refuse_unknown(self.send, unknown)
        pending = await self.send_async(
            topic, body, tags=tags, keys=keys, queue=queue, queue_key=queue_key, properties=properties, flag=flag,
            durability=durability, delay_level=delay_level, delay=delay, deliver_at=deliver_at, dedup=dedup,
            timeout=timeout,
        )  # fmt: skip
        return await self._receipt(pending, topic, timeout)

    async def send_async(
        self,
        topic: str,
        body: Body,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] | None = (),
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        durability: Durability | None = None,
        delay_level: int | None = None,
        delay: float | timedelta | None = None,
        deliver_at: float | datetime | None = None,
        dedup: str | bytes | None = None,
        timeout: float | None = None,
        **unknown: Unknown,
    ) -> Pending:
        """Returns once the message is on its way. Await the Pending for the receipt. See Producer.send_async."""
        if unknown:
            refuse_unknown(self.send_async, unknown)
        return await self._post(
            lambda: self._producer.send_async(
                topic, body, tags=tags, keys=keys, queue=queue, queue_key=queue_key, properties=properties, flag=flag,
                durability=durability, delay_level=delay_level, delay=delay, deliver_at=deliver_at, dedup=dedup,
            timeout=0,
            ),
            topic,
            timeout,
        )  # fmt: skip

    async def send_oneway(
        self,
        topic: str,
        body: Body,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] | None = (),
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        durability: Durability | None = None,
        delay_level: int | None = None,
        delay: float | timedelta | None = None,
        deliver_at: float | datetime | None = None,
        dedup: str | bytes | None = None,
        timeout: float | None = None,
        **unknown: Unknown,
    ) -> None:
        """Sends a message without asking for a receipt. Returns once it is on its way. See Producer.send_oneway."""
        if unknown:
            refuse_unknown(self.send_oneway, unknown)
        await self._post(
            lambda: self._producer.send_oneway(
                topic, body, tags=tags, keys=keys, queue=queue, queue_key=queue_key, properties=properties, flag=flag,
                durability=durability, delay_level=delay_level, delay=delay, deliver_at=deliver_at, dedup=dedup,
            timeout=0,
            ),
            topic,
            timeout,
        )  # fmt: skip

    async def send_batch(
        self,
        topic: str,
        bodies: Bodies,
        *,
        tags: str | Sequence[str | None] | None = None,
        keys: BatchKeys | None = None,
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        durability: Durability | None = None,
        delay_level: int | None = None,
        delay: float | timedelta | None = None,
        deliver_at: float | datetime | None = None,
        properties: BatchProperties | None = None,
        dedup: Sequence[str | bytes] | None = None,
        timeout: float | None = None,
        **unknown: Unknown,
    ) -> Receipts:
        """Sends many messages and waits for their receipts. See Producer.send_batch, also for what its errors carry."""
        if unknown:
            refuse_unknown(self.send_batch, unknown)
        pending = await self.send_batch_async(
            topic, bodies, tags=tags, keys=keys, queue=queue, queue_key=queue_key, durability=durability,
            delay_level=delay_level, delay=delay, deliver_at=deliver_at, properties=properties, dedup=dedup,
            timeout=timeout,
        )  # fmt: skip
        return await self._receipt(pending, topic, timeout)

    async def send_batch_async(
        self,
        topic: str,
        bodies: Bodies,
        *,
        tags: str | Sequence[str | None] | None = None,
        keys: BatchKeys | None = None,
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        durability: Durability | None = None,
        delay_level: int | None = None,
        delay: float | timedelta | None = None,
        deliver_at: float | datetime | None = None,
        properties: BatchProperties | None = None,
        dedup: Sequence[str | bytes] | None = None,
        timeout: float | None = None,
        **unknown: Unknown,
    ) -> PendingBatch:
        """Returns once all messages are on their way. An error before that has `sent` and `pending`; see
        Producer.send_batch_async."""
        if unknown:
            refuse_unknown(self.send_batch_async, unknown)
        most = self._limit(timeout)
        waits = self._producer.waits_when_full
        make = self._producer.make_batch if waits else self._producer.send_batch_async
        bodies = list(bodies) if isinstance(bodies, Iterator) else bodies  # they may be looked at more than once
        while True:
            if not self._side.ready:
                await self._open()
            try:
                batch = make(
                    topic, bodies, tags=tags, keys=keys, queue=queue, queue_key=queue_key, durability=durability,
                    delay_level=delay_level, delay=delay, deliver_at=deliver_at, properties=properties, dedup=dedup,
                )  # fmt: skip
                break
            except NotReadyError:
                continue
        if not waits:
            return batch
        try:
            async with asyncio.timeout(most) as limit:
                while not self._producer.push(batch):
                    await self._room()
                    await self._open(limit)
        except TimeoutError as error:
            sent = batch.cut()
            if isinstance(error, TimedOut):
                raise
            raise self._no_room(topic, timeout, sent=sent, pending=batch) from None
        except BaseException:
            batch.cut()
            raise
        return batch

    def transaction(
        self,
        topic: str,
        body: Body,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] | None = (),
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        check: Check | None = None,
        durability: Durability | None = None,
        timeout: float | None = None,
    ) -> AsyncTransaction:
        """Begins a transaction, once it is awaited or entered with `async with`; see Producer.transaction. The event loop calls
        `check`, which may be a coroutine function."""

        async def begin() -> Transaction:
            half = Half(self._producer.group, properties)
            self._producer.prepare_check(half.id, called_in(running_loop("check a transaction"), check))
            pending = await self._post(
                lambda: self._producer.send_async(
                    topic, body, tags=tags, keys=keys, queue=queue, queue_key=queue_key, properties=half.properties, flag=flag,
                    durability=durability, timeout=0, **half.own,
                ),
                topic,
                timeout,
            )  # fmt: skip
            stored = await self._receipt(pending, topic, timeout)
            return Transaction(self._producer, topic, half.id, stored, self._producer.forget_check)

        return AsyncTransaction(begin)

    def batch(
        self, *, durability: Durability | None = None, dedup: str | bytes | None = None, timeout: float | None = None
    ) -> AsyncAtomicBatch:
        """An atomic batch, with `async with`; see Producer.batch. If the end of the block is cancelled while it waits for the
        receipts, the messages have been sent."""
        return AsyncAtomicBatch(self, durability, dedup, timeout)

    async def _send_atomic(
        self, messages: tuple[Given, ...], durability: Durability | None, dedup: str | bytes | None, timeout: float | None
    ) -> Receipts:
        topic = str(messages[0][0][0])
        pending = await self._post(lambda: self._producer.post_atomic(messages, durability, 0, dedup), topic, timeout)
        return await self._receipt(pending, topic, timeout)

    async def flush(self, timeout: float | None = None) -> None:
        """Waits until everything sent so far has its verdict. Raises: TimedOut."""
        producer = self._producer
        running_loop("flush this producer")
        try:
            async with asyncio.timeout(self._limit(timeout)):
                await Room(self._side, producer.settled + producer.in_flight)
                while producer.name is not None and producer.in_flight:  # the session has ended: what it had is in the next one
                    await aside(partial(producer.wait_settled, producer.settled, 0, SLICE_S), "flush this producer")
                    await Room(self._side, producer.settled + producer.in_flight)
        except TimeoutError:
            left = producer.in_flight
            raise unsettled(left, self._limit(timeout)) from None

    async def close(self, timeout: float | None = None) -> None:
        """Waits for the messages in flight, then gives the session back. Raises: TimedOut, as Producer.close."""
        if self._producer.closed:
            return
        self._limit(timeout)
        try:
            await self.flush(timeout)
        finally:
            await aside_or_here(self._producer.retire, "close this producer")

    @property
    def in_flight(self) -> int:
        """See Producer.in_flight."""
        return self._producer.in_flight

    @property
    def failed(self) -> int:
        """See Producer.failed."""
        return self._producer.failed

    @property
    def closed(self) -> bool:
        """See Producer.closed."""
        return self._producer.closed

    async def __aenter__(self) -> Self:
        return self

    def _words(self) -> str:
        return words_of(self._producer)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        with suppress(OrbitError):  # see Producer.__exit__
            await self.close()

    def _limit(self, timeout: float | None) -> float:
        return self._producer.timeout if timeout is None else seconds(timeout, "wait", or_none=True)

    async def _open(self, limit: asyncio.Timeout | None = None) -> None:
        """Opens a session after a fork, or after the broker's death, without blocking the event loop. If a call waits for room
        at that moment, its limit stands still: the wait for an absent broker does not count."""
        if self._side.ready or self._producer.closed:
            return
        left = None
        loop = running_loop("open a producer's session")
        if limit is not None and (when := limit.when()) is not None:
            left = when - loop.time()
            limit.reschedule(None)
        await aside(self._side.prepare, "open a producer's session")
        if limit is not None and left is not None:
            limit.reschedule(loop.time() + left)

    async def _room(self) -> None:
        await Room(self._side)
        if self._producer.in_flight == 0:
            await asyncio.sleep(0)  # the ring's space is released a little later than the last verdict arrives

    async def _post(self, post: Callable[[], T], topic: str, timeout: float | None) -> T:
        """`post` has timeout=0: without room it raises TimedOut at once, or Full if the producer does not wait."""
        most = self._limit(timeout)  # before anything is sent: who corrects it sends again
        if not self._side.ready:
            await self._open()
        try:
            return post()
        except (TimedOut, NotReadyError):
            pass
        try:
            async with asyncio.timeout(most) as limit:
                while True:
                    await self._room()
                    await self._open(limit)
                    try:
                        return post()
                    except (TimedOut, NotReadyError):
                        continue
        except TimeoutError as error:
            if isinstance(error, TimedOut):
                raise
            raise self._no_room(topic, timeout) from None

    async def _receipt(self, pending: Awaitable[T], topic: str, timeout: float | None) -> T:
        limit = self._limit(timeout)
        try:
            async with asyncio.timeout(limit):
                return await pending
        except TimeoutError as error:
            if isinstance(error, TimedOut):
                raise
            raise TimedOut(
                f"could not get the receipt of what was sent to {topic!r} within {limit} s",
                hint=hint("raise {timeout}"),
                topic=topic,
                timeout=limit,
                pending=pending,
            ) from None

    def _no_room(self, topic: str, timeout: float | None, sent: int | None = None, pending: Any = None) -> TimedOut:
        limit = self._limit(timeout)
        return TimedOut(
            f"could not get room for a message to {topic!r} within {limit} s",
            hint=hint("raise {window of producer} || raise {timeout}"),
            topic=topic,
            timeout=limit,
            sent=sent,
            pending=pending,
        )
