"""Requests and replies as RocketMQ writes them: with properties, which only these calls set.

    request   CORRELATION_ID, REPLY_TO_CLIENT (the requester's client id), TTL (milliseconds)
    reply     the same three, MSG_TYPE "reply", and in TAGS the requester's client id: each requester finds its own by it

Source: apache/rocketmq MessageUtil.createReplyMessage, DefaultMQProducerImpl.prepareSendRequest. The tag is OrbitMQ's.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping

from orbitmq.client.message import Message
from orbitmq.errors import UsageError

CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TTL = "TTL"
MSG_TYPE = "MSG_TYPE"
REPLY = "reply"

_numbers = itertools.count(1)


def new_client_id() -> str:
    """In RocketMQ's form: address@process#time. No other client of this machine has the same."""
    return f"127.0.0.1@{os.getpid()}#{time.time_ns():x}.{next(_numbers)}"


def request_properties(correlation_id: str, client_id: str, timeout: float) -> dict[str, str]:
    return {CORRELATION_ID: correlation_id, REPLY_TO_CLIENT: client_id, TTL: str(int(min(timeout * 1000, 1 << 62)))}


def is_request(properties: Mapping[str, str]) -> bool:
    """Whether somebody may wait for a reply to the message that has these."""
    return CORRELATION_ID in properties and REPLY_TO_CLIENT in properties and properties.get(MSG_TYPE) != REPLY


def reply_properties(message: Message) -> dict[str, str]:
    """Those of a reply to this message. Raises: TypeError: it is no message. UsageError: it is no request."""
    if not isinstance(message, Message):
        raise TypeError(f"could not reply to {message!r:.100}: it is not a Message")
    properties = message.properties  # decoded at each use
    if not is_request(properties):
        place = f"{message.topic}/{message.queue}@{message.offset}"
        why = "it is a reply itself" if properties.get(MSG_TYPE) == REPLY else "it is no request, so nobody waits for a reply"
        raise UsageError(f"could not reply to {place}: {why}", hint="send it with request()", id=message.id)
    own = {CORRELATION_ID: properties[CORRELATION_ID], REPLY_TO_CLIENT: properties[REPLY_TO_CLIENT], MSG_TYPE: REPLY}
    if TTL in properties:
        own[TTL] = properties[TTL]
    return own
