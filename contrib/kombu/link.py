"""A connection's link to the broker: the client, its topics, its one producer, and how much waits in a queue."""

from __future__ import annotations

import threading
from contextlib import suppress

import orbitmq
from orbitmq.client.admin.status import read_positions
from orbitmq.client.client import Client
from orbitmq.client.consumer.consumer import Consumer
from orbitmq.client.delay.delayed import DelayedMessage
from orbitmq.client.producer.producer import Producer
from orbitmq.client.work.session import WorkSession
from orbitmq.contrib.kombu.envelope import Payload, labels, packed, to_be_kept
from orbitmq.contrib.kombu.options import Options
from orbitmq.errors import UnknownGroup, UnknownTopic
from orbitmq.shm.topic_table import TopicTable

IN_HAND = 16_384
WINDOW = 1024
INDEXED_S = 5.0  # a reput that hangs hides what came after it, and nothing else


class Link:
    """Raises, as from every method: BrokerNotRunning."""

    def __init__(self, name: str | None, store: str | None, options: Options) -> None:
        self.options = options
        self._client: Client = orbitmq.connect(name, store=store, timeout=options.timeout)
        self._producer: Producer | None = None
        self._making = threading.Lock()

    # ---- topics

    def has(self, topic: str) -> bool:
        """Asks nobody."""
        return TopicTable(self._client.connection.attachment.topics).find(topic) is not None

    def make(self, topic: str) -> None:
        """For the messages of a queue."""
        if not self.has(topic):
            self._client.create_topic(topic, self.options.queues)

    def make_exchange(self, topic: str) -> None:
        """For the messages of an exchange."""
        if not self.has(topic):
            self._client.create_topic(topic, 1, retention_hours=self.options.broadcast_hours)

    def delete(self, topic: str) -> None:
        """With its group, and what waits in it."""
        self.cancel_delayed(topic)
        with suppress(UnknownTopic):
            self._client.delete_topic(topic)
        with suppress(UnknownGroup):
            self._client.delete_group(topic)

    # ---- messages

    def send(self, topic: str, payload: Payload) -> None:
        """Returns when it is stored. Raises: UnknownTopic, MessageTooLarge, Full, NoPermission, StoreFull, BrokerStopped."""
        due = to_be_kept(payload) if self.options.delay else None
        tags, keys = labels(payload)
        self._sender().send(topic, packed(payload), tags=tags, keys=keys, deliver_at=due, durability=self.options.durability)

    def session(self, topic: str) -> WorkSession:
        """Of the group that shares the topic's messages."""
        options = self.options
        return self._client.work_session(
            topic, [topic], visibility=options.visibility_timeout, in_hand=IN_HAND, max_tries=options.max_tries
        )

    def reader(self, topics: list[str]) -> Consumer:
        """Of what is sent from now on."""
        return self._client.consumer(None, topics, start="latest")

    def free(self, topic: str, timeout: float) -> int:
        """Messages that nobody has, with all that were sent before this call; those whose time has not come do not count.

        timeout: seconds for which reput may be behind. What it has not indexed by then does not count either."""
        if not self.has(topic):
            return 0
        self._client.connection.attach_wake().wait_indexed(self.wrote(), timeout)
        whole = {each.queue: each.max_offset - each.min_offset for each in self._client.topic(topic).queues}
        with suppress(UnknownGroup):
            for each in self._client.group(topic).queues:
                if each.topic == topic:
                    whole[each.queue] = each.lag_messages if each.work is None else each.work.free
        return sum(whole.values())

    def wrote(self) -> int:
        """How far the log has come."""
        return read_positions(self._client.connection.attachment).wrote

    def reached(self, position: int) -> bool:
        """What stands before can be read."""
        return read_positions(self._client.connection.attachment).reput >= position

    def delayed(self, topic: str) -> list[DelayedMessage]:
        return self._client.delayed(topic) if self.has(topic) else []

    def cancel_delayed(self, topic: str) -> int:
        """Removes those whose time has not come. Returns how many."""
        return sum(self._client.cancel_batch(self.delayed(topic)))

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()
        self._client.close()

    def _sender(self) -> Producer:
        with self._making:
            if self._producer is None:
                options = self.options
                self._producer = self._client.producer(window=WINDOW, message_max=options.message_max, timeout=options.timeout)
            return self._producer
