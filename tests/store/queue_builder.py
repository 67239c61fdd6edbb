"""Writes ConsumeQueue files and IndexFile headers for composed logs, as reput would, without using its code."""

from __future__ import annotations

import struct
from collections import defaultdict
from pathlib import Path

from orbitmq.store.layout import StoreLayout
from tests.store.log_builder import LogBuilder, Written

UNITS = 16


def write_units(folder: Path, units: dict[int, tuple[int, int, int]], file_units: int = UNITS) -> None:
    """Puts units (physical offset, size, tags code) at their queue offsets."""
    folder.mkdir(parents=True, exist_ok=True)
    for offset, unit in units.items():
        start = offset - offset % file_units
        path = folder / f"{start * 20:020d}"
        path.touch()
        with path.open("r+b") as file:
            file.truncate(file_units * 20)
            file.seek((offset - start) * 20)
            file.write(struct.pack(">qiq", *unit))


def index_queues(log: LogBuilder, records: list[Written] | None = None, file_units: int = UNITS) -> None:
    """Writes the ConsumeQueues of these records, by default of the whole log."""
    units: defaultdict[tuple[str, int], dict[int, tuple[int, int, int]]] = defaultdict(dict)
    for record in log.written if records is None else records:
        units[record.topic, record.queue][record.queue_offset] = (record.offset, record.size, 0)
    for (topic, queue), of_queue in units.items():
        write_units(log.layout.queue_folder(topic, queue), of_queue, file_units)


def write_index(layout: StoreLayout, name: str, first: Written, last: Written, entries: int = 5) -> Path:
    """An IndexFile of which only the header is filled."""
    path = layout.index / name
    header = struct.pack(">qqqqii", first.store_ms, last.store_ms, first.offset, last.offset, entries, entries + 1)
    path.write_bytes(header.ljust(1000, b"\0"))
    return path
