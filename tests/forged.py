"""Records that nobody stored: a sender foresees where its body will lie, and writes a whole record with that place into it."""

from __future__ import annotations

from typing import Any

from orbitmq.store.record import Record, check, encode

BODY_AT = 88  # bytes of a record before its body


def forged_at(place: int, topic: str, queue: int, offset: int, body: bytes = b"forged", **fields: Any) -> bytes:
    """A record for this place in the log, which differs from a true one in nothing but that. fields: of store.record.encode."""
    made = encode(topic, body, queue_id=queue, queue_offset=offset, physical_offset=place, **fields)
    assert isinstance(check(made, 0, physical_offset=place), Record)
    return made
