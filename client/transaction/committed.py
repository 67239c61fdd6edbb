"""Where the message of a transaction is that was committed, if the receipt of the commit was lost with the broker."""

from __future__ import annotations

import time
from typing import Protocol

from orbitmq.client.connection.attachment import Attachment
from orbitmq.client.lookup import message_with_unique_key
from orbitmq.client.receipt import Receipt
from orbitmq.native._core import ffi, lib
from orbitmq.shm.durability import Durability


class Attacher(Protocol):
    def attach_wake(self) -> Attachment:
        """See client/connection/connection.py."""


def committed_receipt(
    connection: Attacher, topic: str, id: str, half: int, durability: Durability, timeout: float
) -> Receipt | None:
    """The receipt of the message whose half message has this id and this physical offset. None: it was not found, or is not on
    disk, within so many seconds.

    Raises: BrokerNotRunning, BrokerStopped, CorruptRecord."""
    deadline = time.monotonic() + timeout
    attachment = connection.attach_wake()
    seen = ffi.new("struct positions_seen *")
    lib.control_positions(attachment.control, seen)
    if not attachment.wait_indexed(int(seen.wrote), timeout):
        return None
    message = message_with_unique_key(attachment, topic, id, begin_ms=0)
    if message is None or message.prepared_offset != half:
        return None
    end = message.physical_offset + message.size
    if durability == "flushed" and not attachment.wait_flushed(end, max(0.0, deadline - time.monotonic())):
        return None
    host = bytes.fromhex(message.id)[:8]
    return Receipt(topic, message.queue, message.offset, message.physical_offset, message.size, durability, host)
