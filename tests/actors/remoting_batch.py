"""Batches as a client of RocketMQ's sends them: the requests' bodies."""

from __future__ import annotations

from typing import NamedTuple

SEND_BATCH = 320


class Entry(NamedTuple):
    """A message of a batch."""

    body: bytes
    properties: bytes = b""
    flag: int = 0

    @property
    def encoded(self) -> bytes:
        size = 22 + len(self.body) + len(self.properties)
        head = b"".join(number.to_bytes(4, "big") for number in (size, 0, 0, self.flag, len(self.body)))
        return head + self.body + len(self.properties).to_bytes(2, "big") + self.properties


def batch_of(entries: list[Entry]) -> bytes:
    return b"".join(entry.encoded for entry in entries)
