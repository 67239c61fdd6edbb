"""Pulled records as a store of their own, in a temporary folder: every record where it stands in its broker's log. So the one
reader of stores (native/client/reader.c) filters, checks and decodes them, and no second decoder exists.

The files are as long as the offsets demand and have holes. They take the room of the pages that the records touch."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from orbitmq.native._core import ffi, lib
from orbitmq.store.commit_log import record as stored
from orbitmq.store.consume_queue import UNIT_SIZE

PAGE = 4096
_UNIT = struct.Struct(">QIq")


class Pulled(NamedTuple):
    """One record, and what its broker's queue says of it."""

    offset: int
    physical_offset: int
    data: bytes
    tags_code: int


def cut(body: bytes, *, tags: bool) -> list[Pulled]:
    """The records of an answer. tags: their hash codes are wanted.

    Raises: ValueError: they are not whole records.
    """
    found = []
    at = 0
    for record in parsed(body):
        code = _code(record.properties.get("TAGS", "")) if tags else 0
        found.append(Pulled(record.queue_offset, record.physical_offset, body[at : at + record.size], code))
        at += record.size
    return found


def parsed(body: bytes) -> Iterator[stored.Record]:
    """The records of an answer. Raises: ValueError: they are not whole records."""
    at = 0
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        if size < 4 or at + size > len(body):
            raise ValueError(f"a record of {size:,} bytes at byte {at:,} of {len(body):,}")
        record = stored.parse(body[at : at + size])
        if isinstance(record, stored.Fault):
            raise ValueError(f"the record at byte {at:,} {record.text}")
        if record.size != size:
            raise ValueError(f"a record of {record.size:,} bytes in {size:,}")
        yield record
        at += size


def write(folder: Path, topic: str, queue: int, records: Sequence[Pulled]) -> tuple[int, int]:
    """Makes a store of them, at least one, whose offsets rise one by one. Returns the sizes of its files: log, bytes, and
    ConsumeQueue, units."""
    begin = min(each.physical_offset for each in records)
    end = max(each.physical_offset + len(each.data) for each in records)
    log_size = _span(begin, end)
    units = _span(records[0].offset, records[-1].offset + 1)
    log, line = folder / "commitlog", folder / "consumequeue" / topic / str(queue)
    log.mkdir(parents=True)
    line.mkdir(parents=True)
    start = begin // log_size * log_size
    with _file(log / f"{start:020d}", log_size) as file:
        for each in records:
            os.pwrite(file.fileno(), each.data, each.physical_offset - start)
    start = records[0].offset // units * units
    whole = b"".join(_UNIT.pack(each.physical_offset, len(each.data), each.tags_code) for each in records)
    with _file(line / f"{start * UNIT_SIZE:020d}", units * UNIT_SIZE) as file:
        os.pwrite(file.fileno(), whole, (records[0].offset - start) * UNIT_SIZE)
    return log_size, units


def _file(path: Path, size: int) -> BinaryIO:
    file = path.open("wb")
    os.ftruncate(file.fileno(), size)
    return file


def _span(begin: int, end: int) -> int:
    """A size of files such that one of them holds all of [begin, end)."""
    size = -(-2 * (end - begin) // PAGE) * PAGE
    while begin // size != (end - 1) // size:
        size = -(-size * 5 // 4 // PAGE) * PAGE
    return size


def _code(tags: str) -> int:
    data = tags.encode(errors="surrogateescape")
    return int(lib.java_hash(0, ffi.from_buffer(data), len(data))) if data else 0
