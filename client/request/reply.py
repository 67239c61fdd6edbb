"""Message.reply, which the core calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orbitmq.client.connection.connection import Connection
from orbitmq.client.message import Message
from orbitmq.client.parameters import Unknown, refuse_unknown
from orbitmq.client.producer.body import Body
from orbitmq.client.receipt import Receipt
from orbitmq.client.request.calls import calls_of
from orbitmq.client.request.request_form import reply_properties
from orbitmq.errors import UsageError
from orbitmq.shm.durability import Durability
from orbitmq.shm.means import NEEDY, refuse


def reply_over(
    connection: object,
    message: Message,
    body: Body,
    *,
    keys: str | Sequence[str] | None = (),
    properties: Mapping[str, str] | None = None,
    flag: int = 0,
    durability: Durability | None = None,
    timeout: float | None = None,
    **unknown: Unknown,
) -> Receipt:
    """Replies over the connection by which the message came; None if it came by none."""
    if unknown:
        refuse_unknown(message.reply, unknown)
    settings = {"keys": keys, "properties": properties, "flag": flag, "durability": durability, "timeout": timeout}
    if not isinstance(connection, Connection):
        reply_properties(message)
        raise UsageError(
            "could not reply to a message that has no client: a client's consumers and workers deliver those that have one",
            hint="call reply() of a client, with this message",
            id=message.id,
        )
    try:
        return calls_of(connection).reply(message, body, settings)
    except NEEDY as error:  # as `means` does, which takes 2 us more
        refuse(error, "reply to a message")
