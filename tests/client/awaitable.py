"""What tests of orbitmq.aio share: the awaitable classes, made without a client, and an event loop under a watchdog."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from orbitmq.client.aio.consumer import AsyncConsumer
from orbitmq.client.aio.producer import AsyncProducer
from orbitmq.client.consumer.consumer import Consumer
from orbitmq.client.producer.producer import Producer
from tests.client.composed_broker import ComposedBroker
from tests.client.thread_broker import ThreadBroker
from tests.waiting import WATCHDOG_S

_Result = TypeVar("_Result")


def awaitable_consumer(
    composed: ComposedBroker, group: str | None = None, topics: Sequence[str] = ("t",), **settings: Any
) -> AsyncConsumer:
    return AsyncConsumer(Consumer(composed, group, topics, **settings))


def awaitable_producer(broker: ThreadBroker, **settings: Any) -> AsyncProducer:
    return AsyncProducer(Producer(broker, **settings))


def run_watched(work: Coroutine[Any, Any, _Result]) -> _Result:
    return asyncio.run(asyncio.wait_for(work, WATCHDOG_S))
