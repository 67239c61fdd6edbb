"""What a connection needs for requests and replies: producers and a reader of replies, each made when it is first needed."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from orbitmq.client.argument import FOR_EVER_S
from orbitmq.client.connection.connection import Connection
from orbitmq.client.message import Message
from orbitmq.client.producer.body import Body
from orbitmq.client.receipt import Receipt
from orbitmq.client.request.call import Call, CallTable
from orbitmq.client.request.call_producer import CallProducer, message_max_for
from orbitmq.client.request.reply_reader import ReplyReader
from orbitmq.client.request.request_form import REPLY_TO_CLIENT, new_client_id, reply_properties, request_properties
from orbitmq.client.work.job import check_seconds
from orbitmq.errors import Closed, RequestTimeout, TimedOut, UsageError
from orbitmq.errors.remedy import hint
from orbitmq.shm.reply_topic import REPLY_TOPIC, reply_queue
from orbitmq.shm.topic_table import TopicTable

# If the reply comes so soon, nobody waits for the receipt of the request: that would be one more wake-up. If it does not, the
# receipt says whether the request was stored at all.
SOON_S = 0.02


class Calls:
    """Any thread may use it, and any signal handler: of two things made, one inside the other, one is thrown away."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.client_id = new_client_id()
        self.table = CallTable()
        self._making = threading.RLock()
        self._producers: dict[tuple[int, bool], CallProducer] = {}  # by the largest message, and whether an event loop uses it
        self._reader: list[ReplyReader] = []  # one, or none yet
        self._queues: tuple[int, int] = (0, 0)  # of the replies' topic, in the broker of this generation
        self._threaded = False
        self._closed = False

    @property
    def ready(self) -> bool:
        """Whether replies are read already, and a thread does it."""
        return self._threaded and not self._closed

    def start(self) -> None:
        """Reads replies in a thread from now on, for an event loop. Raises: as `prepare`; NoMeans."""
        reader = self.prepare()
        with self._making:
            reader.start()
        self._threaded = True

    def prepare(self) -> ReplyReader:
        """Replies that are sent from now on are read. Raises: Closed; as a consumer."""
        self._check_open()
        if self._reader:
            return self._reader[0]
        with self._making:
            if self._reader:
                return self._reader[0]
            made = ReplyReader(self.connection, self.client_id, self.table)
            self._reader.append(made)
        if self._reader[0] is not made or self._closed:
            made.close()
            self._check_open()
        return self._reader[0]

    def request(self, topic: str, body: Body, timeout: float, settings: dict[str, Any]) -> Message:
        """See Requests.request."""
        check_seconds(timeout, "request", "timeout", above=True)
        deadline = time.monotonic() + min(timeout, FOR_EVER_S)
        reader = self.prepare()
        if reader.inside:
            raise UsageError(
                f"could not send a request to {topic!r}: its thread waits for a reply to another one",
                hint="send it in another thread",
            )
        producer = self.producer(body)
        call = self.table.expect()
        try:
            own = request_properties(call.correlation_id, self.client_id, timeout)
            pending = None
            try:
                pending = producer.post(topic, body, own, timeout=timeout, **settings)
                reader.wait(call, min(time.monotonic() + SOON_S, deadline))
                if (reply := call.taken()) is not None:
                    return reply
                receipt = pending.result(max(0.0, deadline - time.monotonic()))
            except TimedOut:
                raise unanswered(topic, timeout, call, pending=pending) from None
            reader.wait(call, deadline)
            if (reply := call.taken()) is not None:
                return reply
            raise unanswered(topic, timeout, call, receipt=receipt)
        finally:
            self.table.forget(call)

    def reply(self, message: Message, body: Body, settings: dict[str, Any]) -> Receipt:
        """See Requests.reply."""
        own = reply_properties(message)
        producer = self.producer(body)
        to = own[REPLY_TO_CLIENT]
        return producer.put(REPLY_TOPIC, body, own, queue=self.reply_queue(to, producer), tags=to, **settings)

    def knows_queues(self, producer: CallProducer) -> bool:
        """Whether `reply_queue` need not ask the broker."""
        return self._queues[0] == producer.generation

    def reply_queue(self, client_id: str, producer: CallProducer) -> int:
        """The queue that the requester reads."""
        generation, queues = self._queues
        if generation != producer.generation:
            attachment = self.connection.attachment
            topic = TopicTable(attachment.topics).find(REPLY_TOPIC)
            if topic is None:  # the request was sent to a former broker, or by a program of another library
                self.connection.ask("prepare_replies")
                topic = TopicTable(attachment.topics).find(REPLY_TOPIC)
            queues = 1 if topic is None else topic.queues
            self._queues = (attachment.generation, queues)
        return reply_queue(client_id, queues)

    def close(self) -> None:
        """Ends the waits of all requests with Closed."""
        self._closed = True
        self.table.end()
        for reader in self._reader:
            reader.close()
        for producer in list(self._producers.values()):
            producer.close()

    def producer(self, body: Body, *, for_loop: bool = False) -> CallProducer:
        """One in whose session this body has room. for_loop: it is one event loop's alone."""
        self._check_open()
        key = (message_max_for(body), for_loop)
        if (kept := self._producers.get(key)) is not None:
            return kept
        with self._making:
            if (kept := self._producers.get(key)) is not None:
                return kept
            made = CallProducer(self.connection, key[0])
            kept = self._producers.setdefault(key, made)
        if kept is not made or self._closed:
            made.close()
            self._check_open()
        return kept

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("could not use this client: it is closed", hint="connect again")


def calls_of(connection: Connection) -> Calls:
    """The connection's, of this process: a forked child has a client id and a reader of its own."""
    kept: Calls | None = connection.calls.get(os.getpid())
    return kept if kept is not None else connection.calls.setdefault(os.getpid(), Calls(connection))


def unanswered(
    topic: str, timeout: float, call: Call, *, receipt: Receipt | None = None, pending: Any = None
) -> RequestTimeout:
    """The error of a request without a reply."""
    known = f"it is stored as {topic}/{receipt.queue}@{receipt.offset}" if receipt else "its receipt has not come either"
    if receipt is None and pending is None:
        known = "there was no room to send it"
    return RequestTimeout(
        f"could not get a reply to a request to {topic!r} within {timeout} s: {known}",
        hint=hint("see that a consumer of the topic replies || raise {timeout}"),
        topic=topic,
        timeout=timeout,
        receipt=receipt,
        correlation_id=call.correlation_id,
        pending=pending,
    )
