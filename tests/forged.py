"""Records that nobody stored: a sender foresees where its body will lie, and writes a whole record with that place into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orbitmq
from orbitmq.store.commit_log.record import Record, check, encode
from tests.waiting import until

BODY_AT = 88  # bytes of a record before its body


def forged_at(place: int, topic: str, queue: int, offset: int, body: bytes = b"forged", **fields: Any) -> bytes:
    """A record for this place in the log, which differs from a true one in nothing but that. fields: of store.record.encode."""
    made = encode(topic, body, queue_id=queue, queue_offset=offset, physical_offset=place, **fields)
    assert isinstance(check(made, 0, physical_offset=place), Record)
    return made


def foreseen(broker: orbitmq.Client, send: Callable[[int], orbitmq.Receipt]) -> tuple[int, orbitmq.Receipt]:
    """send: sends a body that is to lie at this place. Returns the place of one that does, and its receipt. Another message may
    come to that place, or the log's file end before it; then another body is sent."""

    def sent() -> tuple[int, orbitmq.Receipt] | None:
        place = broker.status().positions.wrote + BODY_AT
        receipt = send(place)
        return (place, receipt) if receipt.physical_offset + BODY_AT == place else None

    found: tuple[int, orbitmq.Receipt] = until(sent, "a body at the place that was foreseen")
    return found
