"""A queue that lives no longer than its connection (exclusive or auto-delete): a reader of the topics of the exchanges to which
it is bound. What was published before it was bound it does not get, nor what is published while its program is away."""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from orbitmq.contrib.kombu.envelope import Payload, unpacked
from orbitmq.contrib.kombu.link import INDEXED_S, Link
from orbitmq.contrib.kombu.names import exchange_topic
from orbitmq.contrib.kombu.source import Arrival, Source
from orbitmq.errors import CorruptRecord, Interrupted
from orbitmq.shm.topic_table import QueueKey

AT_ONCE = 100
TURN_S = 0.05  # after which whoever wants the reader asks the thread for it again
LOOK_S = 0.02  # between two looks whether all is read that was sent
_logger = logging.getLogger("orbitmq")


class Read:
    """A message in its consumer's hands. It stays there."""

    deadline = math.inf

    def __init__(self, payload: Payload) -> None:
        self.payload = payload


class LogSource(Source):
    """Bound to the exchange without a name, from which it gets what is sent to it by name.

    like: what another connection of this process has opened for the queue; this one gets what that has not read. So Celery
    awaits results: one connection declares the queue before it sends the task, and another consumes it.
    """

    def __init__(self, queue: str, news: threading.Condition, link: Link, like: LogSource | None = None) -> None:
        super().__init__(queue, news)
        self._link = link
        self._ready: deque[Read] = deque()
        self._using = threading.Lock()
        unnamed = exchange_topic("")
        self._bound = {unnamed: [re.compile(re.escape(queue))]}
        self._topics = [unnamed]
        link.make_exchange(unnamed)
        self._reader = link.reader(self._topics)
        if like is not None:
            self._follow(like)

    def bind(self, exchange: str, pattern: str) -> None:
        """pattern: of all of the routing key, a regular expression."""
        topic = exchange_topic(exchange)
        with self._using_reader():
            self._bound.setdefault(topic, []).append(re.compile(pattern))
            if topic in self._topics:
                return
            self._link.make_exchange(topic)
            self._topics.append(topic)
            self._read_on(self._reader.position())

    # ---- a Giver

    def ack(self, hand_out: Read) -> None:
        """There is nothing to be told."""

    def requeue(self, hand_out: Read) -> None:
        hand_out.payload["properties"]["delivery_info"]["redelivered"] = True
        self.give_back(hand_out)

    def give_back(self, hand_out: Read) -> None:
        self._ready.appendleft(hand_out)
        self._interrupt()

    def extend(self, hand_out: Read, seconds: float) -> None:
        """It has no time."""

    def too_late(self) -> list[str]:
        return []

    # ---- more

    @property
    def size(self) -> int:
        """Messages that wait."""
        self._read_all()
        return len(self._ready) + (self._arrived is not None)

    def purge(self) -> int:
        """Drops what waits. Returns how many."""
        self._read_all()
        with self._news:
            count = len(self._ready) + (self.fetch() is not None)
        self._ready.clear()
        return count

    def close(self) -> None:
        super().close()
        self._reader.close()

    # ---- a Source

    def _take(self) -> Arrival | None:
        if not self._ready:
            with self._using:
                self._read(None)
        return self._next()

    def _get(self) -> Arrival | None:
        if not self._ready:
            self._read_all()
        return self._next()

    def _interrupt(self) -> None:
        self._reader.interrupt()

    def _rest(self, arrival: Arrival | None) -> None:
        if arrival is not None:
            self._ready.appendleft(arrival.hand_out)

    def _next(self) -> Arrival | None:
        try:
            found = self._ready.popleft()
        except IndexError:
            return None
        return Arrival(found.payload, found)

    def _follow(self, other: LogSource) -> None:
        with other._using_reader():
            self._bound = {topic: list(patterns) for topic, patterns in other._bound.items()}
            self._topics = list(other._topics)
            self._read_on(other._reader.position())

    def _read_on(self, positions: Mapping[QueueKey, int]) -> None:
        """From there, and what comes from now on in the other topics."""
        old, self._reader = self._reader, self._link.reader(self._topics)
        for (topic, number), position in positions.items():
            self._reader.seek(topic, number, position)
        old.close()

    def _read(self, timeout: float | None) -> bool:
        """False: there was nothing to read within so many seconds, or before somebody interrupted."""
        try:
            messages = self._reader.poll_batch(AT_ONCE, timeout)
        except Interrupted:
            return False
        except CorruptRecord as error:
            _logger.error("could not read a message for the queue %r, and left it out: %s", self.queue, error)
            assert error.topic is not None and error.queue is not None and error.queue_offset is not None
            self._reader.seek(error.topic, error.queue, error.queue_offset + 1)
            return True
        for message in messages:
            payload = unpacked(bytes(message))
            key = payload["properties"]["delivery_info"].get("routing_key") or ""
            if any(pattern.fullmatch(key) for pattern in self._bound[message.topic]):
                self._ready.append(Read(payload))
        return bool(messages)

    def _read_all(self) -> None:
        """That was sent before this call, or what reput, which hangs, had indexed."""
        sent = self._link.wrote()
        with self._using_reader():
            late = time.monotonic() + INDEXED_S
            while True:
                all_there = self._link.reached(sent) or time.monotonic() >= late
                if not self._read(0.0 if all_there else LOOK_S) and all_there:
                    return

    @contextmanager
    def _using_reader(self) -> Iterator[None]:
        """The thread waits with the reader, and lets go of it when it is interrupted."""
        while not self._using.acquire(timeout=TURN_S if self._thread is not None else -1):
            self._interrupt()
        try:
            self._reader.resume()  # an interrupt that found nobody waiting
            yield
        finally:
            self._using.release()
