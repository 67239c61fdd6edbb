"""What the tests do with kombu again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import kombu

from tests.waiting import WATCHDOG_S, until


class Consuming:
    """What a consumer has got, in order."""

    def __init__(self, connection: kombu.Connection, channel: Any) -> None:
        self.connection = connection
        self.channel = channel
        self.got: list[Any] = []

    def wait(self, count: int) -> list[Any]:
        """Until so many have come."""
        while len(self.got) < count:
            self.connection.drain_events(timeout=WATCHDOG_S)
        return self.got

    @property
    def bodies(self) -> list[Any]:
        return [message.payload for message in self.got]

    def nothing_more(self) -> bool:
        """Looks whether another message is to be had."""
        try:
            self.connection.drain_events(timeout=0.1)
        except TimeoutError:
            return True
        return False


@contextmanager
def consuming(
    connection: kombu.Connection, queues: Sequence[kombu.Queue] | str, *, prefetch: int = 0, no_ack: bool = False
) -> Iterator[Consuming]:
    channel = connection.channel()
    made = Consuming(connection, channel)
    listed = [queue_of(queues)] if isinstance(queues, str) else list(queues)
    with kombu.Consumer(channel, listed, on_message=made.got.append, prefetch_count=prefetch or None, no_ack=no_ack):
        yield made


def queue_of(name: str) -> kombu.Queue:
    """A queue that outlives its consumers, and gets what is sent to it by its name."""
    return kombu.Queue(name, kombu.Exchange(""), routing_key=name)


def publish(connection: kombu.Connection, queue: str, *bodies: Any, **settings: Any) -> None:
    producer = connection.Producer()
    for body in bodies:
        producer.publish(body, routing_key=queue, declare=[queue_of(queue)], **settings)


def size(connection: kombu.Connection, queue: str) -> int:
    return int(queue_of(queue)(connection.default_channel).queue_declare(passive=True).message_count)


def left(connection: kombu.Connection, queue: str, count: int) -> bool:
    """Waits until so many messages of the queue are nobody's."""
    until(lambda: size(connection, queue) == count, f"{count} messages in {queue}")
    return True
