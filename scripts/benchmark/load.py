"""The load: 1,000 distinct bodies of 100 bytes, a tag on every message, 8 queues, index and record CRCs on."""

from __future__ import annotations

import random
import zlib

BODY_BYTES = 100
DISTINCT = 1000
BATCH = 1000
QUEUES = 8
TAG = "bench"

_random = random.Random(20211201)
BODIES: list[bytes] = [_random.randbytes(BODY_BYTES) for _ in range(DISTINCT)]
CHECKSUMS: list[int] = [zlib.adler32(body) for body in BODIES]


def checksum_of(messages: int) -> int:
    """Sum of the checksums of `messages` bodies sent in turn."""
    whole, rest = divmod(messages, DISTINCT)
    return whole * sum(CHECKSUMS) + sum(CHECKSUMS[:rest])


def keys_of(start: int, count: int) -> list[str]:
    """One distinct key a message."""
    return [f"key-{number}" for number in range(start, start + count)]
