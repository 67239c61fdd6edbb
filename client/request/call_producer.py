"""The producers of a client's requests and replies."""

from __future__ import annotations

from typing import Any

from orbitmq.client.connection.connection import Connection
from orbitmq.client.producer.body import Body
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.settings import MESSAGE_MAX, MESSAGE_USUAL
from orbitmq.client.receipt import Receipt
from orbitmq.native._types import Pending

WINDOW = 4096  # requests and replies on their way
AROUND_MAX = 64 << 10  # around a body: properties of at most 32 KiB, the topic, the record's fixed part


class CallProducer(Producer):
    """Made when it is first needed, and closed with the client."""

    def __init__(self, connection: Connection, message_max: int) -> None:
        super().__init__(connection, window=WINDOW, message_max=message_max, wait=connection.wait)
        self._made_by = 0  # the user has not made it, and is not warned about it

    @property
    def generation(self) -> int:
        """Of the broker at which it has, or had, its session."""
        return self._generation

    def put(self, topic: str, body: Body, own: dict[str, str], **settings: Any) -> Receipt:
        """send of a request or a reply. own: the properties that make it one."""
        return self.send(topic, body, **settings, **{"_own": own})  # type: ignore[arg-type]

    def post(self, topic: str, body: Body, own: dict[str, str], **settings: Any) -> Pending:
        """The same with send_async."""
        return self.send_async(topic, body, **settings, **{"_own": own})  # type: ignore[arg-type]


def message_max_for(body: Body) -> int:
    """The largest message of a session for this body: the usual one, or for a larger body that of any broker. The size of a
    session's memory follows from it, so most clients never have the second kind."""
    if not hasattr(body, "__len__"):
        return MESSAGE_USUAL  # it is no body; the send says so
    size = body.nbytes if isinstance(body, memoryview) else len(body) * (4 if isinstance(body, str) else 1)
    return MESSAGE_USUAL if size + AROUND_MAX <= MESSAGE_USUAL else MESSAGE_MAX
