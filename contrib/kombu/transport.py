"""The transport: one link to the broker for a connection of kombu's, and the sources of the queues that it consumes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

from kombu.transport import base, virtual

import orbitmq
from orbitmq.contrib.kombu.channel import Channel as OurChannel
from orbitmq.contrib.kombu.envelope import Payload
from orbitmq.contrib.kombu.hands import Hands
from orbitmq.contrib.kombu.link import Link
from orbitmq.contrib.kombu.log_source import LogSource
from orbitmq.contrib.kombu.names import broker_of, topic_of
from orbitmq.contrib.kombu.options import options_of
from orbitmq.contrib.kombu.source import Arrival, Source
from orbitmq.contrib.kombu.work_source import WorkSource
from orbitmq.errors import (
    BrokerError,
    Closed,
    Full,
    NoPermission,
    OrbitError,
    StoreError,
    StoreFull,
    TimedOut,
    UnknownTopic,
    UsageError,
)

GONE = (BrokerError, TimedOut, Closed)
_states: dict[str, virtual.BrokerState] = {}  # exchanges and bindings that this process knows, by broker
Opened = WeakValueDictionary[int, LogSource]
_opened: dict[tuple[int, str, str], Opened] = {}  # by process, broker and queue, the first one first


class Transport(virtual.Transport):
    Channel = OurChannel
    state: Any
    can_parse_url = True
    driver_type = "orbitmq"
    driver_name = "orbitmq"
    connection_errors = (*virtual.Transport.connection_errors, *GONE)
    recoverable_connection_errors = connection_errors
    channel_errors = (*virtual.Transport.channel_errors, Full, NoPermission, StoreError, UsageError)
    recoverable_channel_errors = (Full, StoreFull)
    implements = base.Transport.implements.extend(
        asynchronous=False, exchange_type=frozenset(["direct", "topic", "fanout"]), heartbeats=False
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        url = client.hostname or ""
        if "://" in url:
            self._broker = broker_of(url)
        else:  # kombu has taken apart one of several URLs
            self._broker = client.hostname, f"/{client.virtual_host}" if client.virtual_host not in (None, "", "/") else None
        self._options = options_of(client.transport_options)
        self.state = _states.setdefault(repr(self._broker), self.state)
        self.temporary: dict[str, LogSource] = {}
        self.lasting: set[str] = set()  # declared here
        self.consumed: dict[str, OurChannel] = {}
        self.hands = Hands(self._options.visibility_timeout)
        self._work: dict[str, WorkSource] = {}
        self._news = threading.Condition()
        self._turn = 0
        self._link: Link | None = None
        self._made_by = os.getpid()

    # ---- the connection

    def establish_connection(self) -> Transport:
        if self._link is None:
            self._link = Link(*self._broker, self._options)
        super().establish_connection()
        return self

    def close_connection(self, connection: Any) -> None:
        super().close_connection(connection)
        link, self._link = self._link, None
        if self._forked:  # the threads are the parent's, and so are locks that they may hold
            self.temporary, self._work = {}, {}
            return
        for source in (*self.temporary.values(), *self._work.values()):
            with suppress(OrbitError):
                source.close()
        self.temporary.clear()
        self._work.clear()
        self.hands.close()
        self.hands = Hands(self._options.visibility_timeout)
        if link is not None:
            with suppress(OrbitError):
                link.close()

    def verify_connection(self, connection: Any) -> bool:
        return self._link is not None

    def driver_version(self) -> str:
        return orbitmq.__version__

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        name, store = self._broker
        return f"orbitmq://{name or ''}{store or ''}"

    @property
    def default_connection_params(self) -> dict[str, Any]:
        return {}

    @property
    def _forked(self) -> bool:
        return self._made_by != os.getpid()

    # ---- what channels use

    @property
    def link(self) -> Link:
        """Raises: Closed."""
        if self._link is None:
            raise Closed("could not reach the broker: this connection is closed", hint="connect again")
        return self._link

    def open_temporary(self, queue: str) -> None:
        if queue in self.temporary:
            return
        opened = _opened.setdefault((os.getpid(), repr(self._broker), queue), Opened())
        like = next((source for source in list(opened.values()) if not source.closed), None)
        self.temporary[queue] = made = LogSource(queue, self._news, self.link, like)
        opened[id(made)] = made

    def source(self, queue: str) -> Source:
        return self.temporary.get(queue) or self.work_source(queue)

    def work_source(self, queue: str) -> WorkSource:
        if queue not in self._work:
            self.link.make(topic_of(queue))
            self._work[queue] = WorkSource(queue, self._news, self.link)
        return self._work[queue]

    def close_source(self, queue: str) -> bool:
        """False: the queue lives on."""
        self.consumed.pop(queue, None)
        temporary, work = self.temporary.pop(queue, None), self._work.pop(queue, None)
        for source in (temporary, work):
            if source is not None:
                source.close()
        return temporary is not None

    def rest(self, queue: str) -> None:
        """Nobody consumes the queue now."""
        if self._forked:
            return
        source = self.temporary.get(queue) or self._work.get(queue)
        if source is not None:
            with self._news:
                source.want(False)

    def broadcast(self, topic: str, payload: Payload) -> bool:
        """To the queues that live no longer than their connections. False: none was ever bound to this exchange."""
        if not self.link.has(topic):
            return False
        with suppress(UnknownTopic):
            self.link.send(topic, payload)
            return True
        return False

    def settled(self) -> None:
        """Something was: `drain_events` may have waited for that, in another thread."""
        if not self._forked:
            with self._news:
                self._news.notify_all()
                for source in self._work.values():
                    source.look_again()

    def deliver(self, payload: Payload, queue: str) -> None:
        self._deliver(payload, queue)

    def forget(self, channel: OurChannel) -> None:
        """It was closed."""
        for queue in [queue for queue, consumer in self.consumed.items() if consumer is channel]:
            del self.consumed[queue]
            self.rest(queue)

    # ---- events

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Gives one message to its consumer. Raises: TimeoutError: none came."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._news:
            while (found := self._fetch()) is None:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError  # which is socket.timeout
                self._news.wait(left)
        source, arrival = found
        self.consumed[source.queue].delivered(source, arrival)

    def _fetch(self) -> tuple[Source, Arrival] | None:
        """The lock is held. What is to hand; broadcasts first, so that a busy worker can be told to stop."""
        for source in self._in_turn():
            wanted = self.consumed[source.queue].qos.can_consume()
            arrival = source.fetch() if wanted else None
            if arrival is not None:
                return source, arrival
            source.want(wanted)
        return None

    def _in_turn(self) -> Iterable[Source]:
        sources = [self.source(queue) for queue in self.consumed]
        self._turn += 1
        at = self._turn % max(len(sources), 1)
        turned = sources[at:] + sources[:at]
        return sorted(turned, key=lambda source: isinstance(source, WorkSource))
