"""Reads the replies to a client's requests, and hands them to the calls that wait."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from contextlib import suppress

from orbitmq.client.connection.connection import Connection
from orbitmq.client.consumer.consumer import Consumer
from orbitmq.client.consumer.patience import Patience
from orbitmq.client.message import Message
from orbitmq.client.request.call import Call, CallTable
from orbitmq.client.request.request_form import CORRELATION_ID, REPLY_TO_CLIENT
from orbitmq.errors import Closed, CorruptRecord, OrbitError
from orbitmq.native._types import Taken, Turns
from orbitmq.shm.means import means
from orbitmq.shm.reply_topic import REPLY_TOPIC, reply_queue

AT_ONCE = 1024  # replies
AGAIN_S = 0.2  # until the next attempt

_logger = logging.getLogger("orbitmq")


class ReplyConsumer(Consumer):
    """Reads its client's queue of the replies, from the end; the broker does not wake it for the other queues. Replies to other
    clients in the same queue are passed over by the tag code in their queue's index, so their records are not read."""

    def __init__(self, connection: Connection, client_id: str) -> None:
        self._client_id = client_id
        super().__init__(connection, None, [REPLY_TOPIC], tags=client_id, start="latest", wait=connection.wait)
        self._patience = Patience(connection, math.inf)  # from now on: whoever makes it must not wait for ever
        self._made_by = 0  # the user has not made it, and is not warned about it

    @property
    def _home(self) -> object:
        return None  # nobody replies to a reply; and the connection, which has us, must not be kept alive by us

    def _refresh(self, begin: bool = False) -> None:
        super()._refresh(begin)
        places = self._assignment.places
        own = reply_queue(self._client_id, len(places))
        others = [place.key for place in places if place.key[1] != own and not place.paused]
        if others:
            self._assignment.pause(others, True)


class ReplyReader:
    """Of the threads that wait for replies, one reads them and wakes the others, until its own has come; then another one does.
    So a reply wakes nobody but the thread that waits for it. For event loops, which must not wait, a thread of its own reads,
    from their first request on (`start`).

    A thread that leaves, for whatever reason, wakes another one if nobody reads then. A thread is marked (`waits`) before it
    looks whether another one reads. So either it reads itself, or the former reader finds the mark."""

    def __init__(self, connection: Connection, client_id: str, table: CallTable) -> None:
        """Raises: as a consumer."""
        self._connection = connection
        self._client_id = client_id
        self._table = table
        self._closing = threading.Event()
        self._turns = Turns()
        self._reading = 0  # the thread that has the turn
        # Read and not handed yet. Ctrl-C may end the turn of the thread that reads; the next one hands on the rest.
        self._read_ahead: deque[Message] = deque()
        self._thread: threading.Thread | None = None
        connection.ask("prepare_replies")
        self._consumer = ReplyConsumer(connection, client_id)

    def start(self) -> None:
        """Reads in a thread from now on; one thread at a time may call this. Raises: NoMeans: there is no thread."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="orbitmq-replies", daemon=True)
            with means("read replies"):
                thread.start()
            self._thread = thread

    @property
    def inside(self) -> bool:
        """Whether this thread is reading: a signal handler asks."""
        return self._reading == threading.get_ident()

    def wait(self, call: Call, deadline: float) -> None:
        """Returns when the call is over, or at the deadline (by time.monotonic)."""
        call.waits = True
        try:
            while not call.over and (left := deadline - time.monotonic()) > 0:
                try:
                    with self._turns:
                        self._reading = threading.get_ident()
                        try:
                            self._read(call, deadline)
                        finally:
                            self._reading = 0
                except Taken:
                    call.sleep(left)
        finally:
            call.waits = False
            if not self._turns.locked() and (other := self._table.waiting()) is not None:
                other.nudge()

    def close(self) -> None:
        """Ends the session, and the thread if there is one. Any thread may call it."""
        self._closing.set()
        self._consumer.close()

    def _run(self) -> None:
        while not self._closing.is_set():
            with suppress(Taken), self._turns.within(AGAIN_S):
                self._read(None, math.inf)

    def _read(self, call: Call | None, deadline: float) -> None:
        """Reads until this call is over, or until the deadline; None: for ever."""
        while call is None or not call.over:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            try:
                if not self._read_ahead:
                    self._read_ahead.extend(self._consumer.poll_batch(AT_ONCE, None if left == math.inf else left))
                while self._read_ahead:
                    self._hand(self._read_ahead[0])
                    self._read_ahead.popleft()
            except Closed:
                self._closing.set()
                self._table.end()
                return
            except CorruptRecord as error:
                # Its requester times out. The replies behind it can be read.
                self._read_ahead.clear()
                assert error.topic is not None and error.queue is not None and error.queue_offset is not None
                self._consumer.seek(error.topic, error.queue, error.queue_offset + 1)
            except OrbitError as error:
                _logger.warning("could not read replies, and goes on trying: %s", error)
                self._closing.wait(min(AGAIN_S, left))
                self._prepare()

    def _hand(self, reply: Message) -> None:
        properties = reply.properties
        if properties.get(REPLY_TO_CLIENT) == self._client_id:  # tags are only hashed in a queue's index
            self._table.hand(properties.get(CORRELATION_ID, ""), reply)

    def _prepare(self) -> None:
        """Another store may run under the broker's name, which has no topic of replies yet."""
        with suppress(OrbitError):
            self._connection.ask("prepare_replies")
