"""The honest load: distinct bodies, a tag on every message, 8 queues, index and record CRCs on."""

from __future__ import annotations

import random
import zlib
from functools import cached_property

QUEUES = 8
TAG = "bench"
LOG_BYTES = 700 << 20  # the most that one run stores, so that its pages are warm ones
RECORD_OVERHEAD = 120  # bytes that a record of ours takes beside its body


class Load:
    """Bodies of one size.

    Attributes:
        size: of a body, in bytes.
        suffix: of the names of measures with this load; none for the usual one.
        batch: messages a call of send_batch, with about 1 MiB of bodies at most.
        message_max: the setting of a producer that sends them.
    """

    def __init__(self, size: int, suffix: str) -> None:
        self.size, self.suffix = size, suffix
        self.batch = min(1000, (1 << 20) // size)
        self.message_max = max(256 << 10, 2 * size)
        self._sums: list[int] = []

    @cached_property
    def bodies(self) -> list[bytes]:
        """1,000 of them, or as many as 16 MiB hold, random and distinct."""
        source = random.Random(20211201)
        return [source.randbytes(self.size) for _ in range(min(1000, (16 << 20) // self.size))]

    @cached_property
    def batches(self) -> list[list[bytes]]:
        """The bodies in turn, in the pieces in which they are sent."""
        return [self.bodies[at : at + self.batch] for at in range(0, len(self.bodies), self.batch)]

    def messages(self, most: int) -> int:
        """Whole rounds of the bodies: at most `most` messages, and no more than fit into LOG_BYTES."""
        fitting = min(most, LOG_BYTES // (self.size + RECORD_OVERHEAD))
        return max(1, fitting // len(self.bodies)) * len(self.bodies)

    def checksum(self, messages: int) -> int:
        """Sum of the checksums of `messages` bodies sent in turn."""
        self._sums = self._sums or [zlib.adler32(body) for body in self.bodies]
        whole, rest = divmod(messages, len(self.bodies))
        return whole * sum(self._sums) + sum(self._sums[:rest])


SMALL = Load(100, "")
SIZES = (SMALL, Load(1 << 10, "_1k"), Load(16 << 10, "_16k"), Load(256 << 10, "_256k"))


def keys_of(start: int, count: int) -> list[str]:
    """One distinct key a message."""
    return [f"key-{number}" for number in range(start, start + count)]
