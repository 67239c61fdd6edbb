"""Composes a CommitLog on disk, record by record, with RocketMQ's rule for the ends of files; tests then damage it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from orbitmq.store.commit_log import mapped_file
from orbitmq.store.commit_log.record import BLANK_MAGIC, encode
from orbitmq.store.layout import StoreLayout

FILE_SIZE = 64 << 10
FIRST_MS = 1_700_000_000_000
CRC_PROPERTY = 20  # bytes


@dataclass(frozen=True, slots=True)
class Written:
    """A record that was put into the log."""

    topic: str
    queue: int
    queue_offset: int
    offset: int
    size: int
    store_ms: int


def unsealed(content: bytes, topic: str) -> bytes:
    """A record of store.record.encode without its CRC property, as RocketMQ 4 has it."""
    size_at = 88 + int.from_bytes(content[84:88], "big") + 1 + len(topic.encode())
    properties = int.from_bytes(content[size_at : size_at + 2], "big") - CRC_PROPERTY
    head = (len(content) - CRC_PROPERTY).to_bytes(4, "big") + content[4:size_at] + properties.to_bytes(2, "big")
    return head + content[size_at + 2 : -CRC_PROPERTY]


@dataclass(slots=True)
class LogBuilder:
    """Appends to the log of `layout`; `step_ms` of store time between two records."""

    layout: StoreLayout
    end: int = 0
    file_size: int = FILE_SIZE
    step_ms: int = 1
    next_offsets: Counter[tuple[str, int]] = field(default_factory=Counter)
    written: list[Written] = field(default_factory=list)

    def append(
        self,
        topic: str = "T",
        queue: int = 0,
        body: bytes = b"body",
        sys_flag: int = 0,
        store_ms: int | None = None,
        sealed: bool = True,
        **fields: Any,
    ) -> Written:
        """Appends one record, in the next file if it does not fit into this one. sealed: with the CRC property, which RocketMQ
        does not write. fields: of store.record.encode."""
        store_ms = FIRST_MS + len(self.written) * self.step_ms if store_ms is None else store_ms
        queue_offset = self.next_offsets[topic, queue]
        size = len(encode(topic, body, **fields))
        left = self.file_size - self.end % self.file_size
        if size + 8 > left:
            self._write(self.end, left.to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big"))
            self.end += left
        content = encode(
            topic,
            body,
            queue_id=queue,
            queue_offset=queue_offset,
            physical_offset=self.end,
            store_ms=store_ms,
            sys_flag=sys_flag,
            **fields,
        )
        if not sealed:
            content = unsealed(content, topic)
            size = len(content)
        self._write(self.end, content)
        record = Written(topic, queue, queue_offset, self.end, size, store_ms)
        if sys_flag not in (0x4, 0xC):
            self.next_offsets[topic, queue] += 1
        self.written.append(record)
        self.end += size
        return record

    def fill(self, end: int, queues: int = 3) -> None:
        """Appends bodies of many sizes until the log reaches `end`."""
        while self.end < end:
            number = len(self.written)
            self.append(queue=number % queues, body=bytes([number % 251]) * (number * 37 % 900))

    def spoil(self, offset: int, content: bytes) -> None:
        """Overwrites bytes of the log."""
        self._write(offset, content)

    def read(self, offset: int, size: int) -> bytes:
        path = self.layout.log_file(offset - offset % self.file_size)
        with path.open("rb") as file:
            file.seek(offset % self.file_size)
            return file.read(size)

    def _write(self, offset: int, content: bytes) -> None:
        start = offset - offset % self.file_size
        mapped_file.allocate(self.layout, start, self.file_size)
        with self.layout.log_file(start).open("r+b") as file:
            file.seek(offset - start)
            file.write(content)
