"""Requests and replies for asyncio programs. A thread reads the replies, and tells the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from orbitmq.client.aio.aside import aside, running_loop
from orbitmq.client.aio.producer import AsyncProducer
from orbitmq.client.argument import FOR_EVER_S
from orbitmq.client.client import Client
from orbitmq.client.message import Message
from orbitmq.client.parameters import spelled
from orbitmq.client.producer.body import Body
from orbitmq.client.receipt import Receipt
from orbitmq.client.request.call_producer import CallProducer, message_max_for
from orbitmq.client.request.calls import SOON_S, Calls, calls_of, unanswered
from orbitmq.client.request.request_form import REPLY_TO_CLIENT, reply_properties, request_properties
from orbitmq.client.request.requests import REPLY_WITHIN
from orbitmq.client.work.job import check_seconds
from orbitmq.errors import TimedOut
from orbitmq.native._types import Pending
from orbitmq.shm.durability import Durability
from orbitmq.shm.reply_topic import REPLY_TOPIC


class AsyncCallProducer(AsyncProducer):
    """Its event loop alone uses the producer."""

    def __init__(self, producer: CallProducer) -> None:
        super().__init__(producer)
        self.calls = producer

    async def put(self, topic: str, body: Body, own: dict[str, str], timeout: float | None, more: dict[str, Any]) -> Receipt:
        """See CallProducer.put."""
        return await self.receipt(await self.post(topic, body, own, timeout, more), topic, timeout)

    async def post(self, topic: str, body: Body, own: dict[str, str], timeout: float | None, more: dict[str, Any]) -> Pending:
        """See CallProducer.post."""
        return await self._post(lambda: self.calls.post(topic, body, own, timeout=0, **more), topic, timeout)

    async def receipt(self, pending: Pending, topic: str, timeout: float | None) -> Receipt:
        """The receipt of what was posted."""
        return await self._receipt(pending, topic, timeout)


@spelled
class AsyncRequests:
    """A part of AsyncClient."""

    _client: Client

    def __init__(self) -> None:
        self._calls: Calls | None = None
        self._call_producers: dict[int, AsyncCallProducer] = {}  # by the largest message

    async def request(
        self,
        topic: str,
        body: Body,
        timeout: float = REPLY_WITHIN,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] | None = (),
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        durability: Durability | None = None,
    ) -> Message:
        """Sends a message and waits for the first reply to it; see Client.request. Tasks may call this at the same time. If the
        task is cancelled, the request may have been sent, and its reply is dropped."""
        check_seconds(timeout, "request", "timeout", above=True)
        loop = running_loop(f"send a request to {topic!r}")
        deadline = loop.time() + min(timeout, FOR_EVER_S)
        settings = {"tags": tags, "keys": keys, "queue": queue, "queue_key": queue_key, "properties": properties}
        settings |= {"flag": flag, "durability": durability}
        calls, producer = await self._prepared(body, f"send a request to {topic!r}", reads=True)
        come: asyncio.Future[None] = loop.create_future()

        def told() -> None:
            with suppress(RuntimeError):  # the loop was closed; nobody waits in it any more
                loop.call_soon_threadsafe(_finish, come)

        call = calls.table.expect(told)
        try:
            own = request_properties(call.correlation_id, calls.client_id, timeout)
            pending = None
            try:
                pending = await producer.post(topic, body, own, timeout, settings)
                await asyncio.wait((come,), timeout=min(SOON_S, max(0.0, deadline - loop.time())))
                if (reply := call.taken()) is not None:
                    return reply
                receipt = await producer.receipt(pending, topic, max(0.0, deadline - loop.time()))
            except TimedOut:
                raise unanswered(topic, timeout, call, pending=pending) from None
            await asyncio.wait((come,), timeout=max(0.0, deadline - loop.time()))
            if (reply := call.taken()) is not None:
                return reply
            raise unanswered(topic, timeout, call, receipt=receipt)
        finally:
            calls.table.forget(call)

    async def reply(
        self,
        message: Message,
        body: Body,
        *,
        keys: str | Sequence[str] | None = (),
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        durability: Durability | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Replies to a request over this client, while the event loop goes on; see Message.reply."""
        own = reply_properties(message)
        doing = "reply to a message"
        calls, producer = await self._prepared(body, doing, reads=False)
        to = own[REPLY_TO_CLIENT]
        find = partial(calls.reply_queue, to, producer.calls)
        queue = find() if calls.knows_queues(producer.calls) else await aside(find, doing)
        settings = {"keys": keys, "properties": properties, "flag": flag, "durability": durability}
        return await producer.put(REPLY_TOPIC, body, own, timeout, {"queue": queue, "tags": to, **settings})

    async def _prepared(self, body: Body, doing: str, *, reads: bool) -> tuple[Calls, AsyncCallProducer]:
        """What the call needs; what is not there yet is made in a thread."""
        calls = calls_of(self._client.connection)
        if reads and not calls.ready:
            await aside(calls.start, doing)
        size = message_max_for(body)
        if calls is not self._calls:
            self._calls, self._call_producers = calls, {}  # in a forked child
        if size not in self._call_producers:
            made = await aside(partial(calls.producer, body, for_loop=True), doing)
            if size not in self._call_producers:
                self._call_producers[size] = AsyncCallProducer(made)
        return calls, self._call_producers[size]


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
