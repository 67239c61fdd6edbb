"""What a client can ask of other clients: requests, and replies to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from orbitmq.client.connection.connection import Connection
from orbitmq.client.message import Message
from orbitmq.client.parameters import spelled
from orbitmq.client.producer.body import Body
from orbitmq.shm.durability import Durability
from orbitmq.shm.means import NEEDY, refuse

if TYPE_CHECKING:
    from orbitmq.client.receipt import Receipt

REPLY_WITHIN = 5.0  # seconds


@spelled
class Requests:
    """A part of Client."""

    _connection: Connection

    def request(
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
        """Sends a message and waits for the first reply to it, which it returns. A consumer or worker of the topic replies with
        `message.reply(body)` (docs/request-reply.md). Threads may call this at the same time; no two wait for each other.

        timeout: seconds, above 0, from the call to the reply. The rest: as in Producer.send.

        Raises: RequestTimeout: no reply came in time; a later one is dropped. It carries the receipt of the request, which may
            still be worked on. Closed: the client was closed meanwhile. What Producer.send raises: no reply can come, unless
            the error is PerhapsStored.
        """
        settings = {
            "tags": tags, "keys": keys, "queue": queue, "queue_key": queue_key, "properties": properties, "flag": flag,
            "durability": durability,
        }  # fmt: skip
        try:
            from orbitmq.client.request.calls import calls_of

            return calls_of(self._connection).request(topic, body, timeout, settings)
        except NEEDY as error:  # as `means` does, which takes 2 us more
            refuse(error, f"send a request to {topic!r}")

    def reply(
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
        """Replies to a request, over this client; for messages that came by no client, such as those of `find`. For all others,
        `message.reply` does it."""
        from orbitmq.client.request.reply import reply_over

        return reply_over(
            self._connection, message, body, keys=keys, properties=properties, flag=flag, durability=durability, timeout=timeout
        )
