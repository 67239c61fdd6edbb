"""Reads the replies to a client's requests, in a thread, and hands them to the calls that wait."""

from __future__ import annotations

import logging
import math
import threading
from contextlib import suppress

from orbitmq.client.call import CallTable
from orbitmq.client.connection import Connection
from orbitmq.client.consumer import Consumer
from orbitmq.client.message import Message
from orbitmq.client.request_form import CORRELATION_ID, REPLY_TO_CLIENT
from orbitmq.errors import Closed, CorruptRecord, OrbitError
from orbitmq.shm.means import means
from orbitmq.shm.reply_topic import REPLY_TOPIC, reply_queue

AT_ONCE = 1024  # replies
AGAIN_S = 0.2  # pause after an error, before the next attempt

_logger = logging.getLogger("orbitmq")


class ReplyConsumer(Consumer):
    """Reads its client's queue of the replies, from the end; the broker does not wake it for the other queues. Replies to other
    clients in the same queue are passed over by the tag code in their queue's index, so their records are not read."""

    def __init__(self, connection: Connection, client_id: str) -> None:
        self._client_id = client_id
        super().__init__(connection, None, [REPLY_TOPIC], tags=client_id, start="latest", wait=math.inf)
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
    """The thread. It lives until `close`, through deaths of the broker. Raises: NoMeans: there is no thread; as a consumer."""

    def __init__(self, connection: Connection, client_id: str, table: CallTable) -> None:
        self._connection = connection
        self._client_id = client_id
        self._table = table
        self._closing = threading.Event()
        connection.ask("prepare_replies")
        self._consumer = ReplyConsumer(connection, client_id)
        self._thread = threading.Thread(target=self._run, name="orbitmq-replies", daemon=True)
        try:
            with means("read replies"):
                self._thread.start()
        except BaseException:
            self._consumer.close()
            raise

    def close(self) -> None:
        """Ends the thread and its session. Any thread may call it."""
        self._closing.set()
        self._consumer.close()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                for reply in self._consumer.poll_batch(AT_ONCE):
                    self._hand(reply)
            except Closed:
                break
            except CorruptRecord as error:
                # Its requester times out. The replies behind it can be read.
                assert error.topic is not None and error.queue is not None and error.queue_offset is not None
                self._consumer.seek(error.topic, error.queue, error.queue_offset + 1)
            except OrbitError as error:
                _logger.warning("could not read replies, and goes on trying: %s", error)
                self._closing.wait(AGAIN_S)
                self._prepare()

    def _hand(self, reply: Message) -> None:
        properties = reply.properties
        if properties.get(REPLY_TO_CLIENT) == self._client_id:  # tags are only hashed in a queue's index
            self._table.hand(properties.get(CORRELATION_ID, ""), reply)

    def _prepare(self) -> None:
        """Another store may run under the broker's name, which has no topic of replies yet."""
        with suppress(OrbitError):
            self._connection.ask("prepare_replies")
