"""Checks that the files of a run hold every message that it was to export, once."""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Iterable, Sequence

from orbitmq.errors import ExportDamaged
from orbitmq.store.consume_queue import ConsumeQueue
from orbitmq.store.layout import StoreLayout
from orbitmq.store.stand_in import MARK
from orbitmq.tables.export.manifest import ExportFile, Gap
from orbitmq.tables.extents import Snapshot
from orbitmq.tables.planning import Slice

_PREPARED = struct.Struct(">Q")
_PREPARED_AT = 76  # as native/format/record.h
_STEP = 65_536


def unread(snapshot: Snapshot, wanted: Iterable[Slice], files: Sequence[ExportFile], *, allow_gaps: bool) -> tuple[Gap, ...]:
    """What is missing because retention removed it while the tasks ran. Messages that a repair has given up do not count.

    Raises: ExportDamaged: a message is missing that should not be, or is there twice.
    """
    found: Counter[tuple[str, int]] = Counter()
    for file in files:
        for part in file.offsets:
            found[file.topic, part.queue] += part.rows
    gaps = []
    for each in wanted:
        rows = found.pop((each.topic, each.queue), 0)
        missing = each.count - rows
        if missing > 0:
            missing -= _given_up(snapshot, each)
        if missing < 0 or (missing > 0 and not allow_gaps):
            raise _wrong(each, rows)
        if missing:
            gaps.append(Gap(each.topic, each.queue, each.begin, each.end, missing))
    for (topic, queue), rows in found.items():
        raise _wrong(Slice(topic, queue, 0, 0), rows)
    return tuple(gaps)


def _wrong(part: Slice, rows: int) -> ExportDamaged:
    return ExportDamaged(
        f"cannot export topic {part.topic!r}, queue {part.queue}: the files hold {rows:,} of its {part.count:,} messages "
        f"(from offset {part.begin:,})",
        hint="nothing of this run is seen; export again, and look at the store with `orbitmq verify`",
        topic=part.topic,
        queue=part.queue,
    )


def _given_up(snapshot: Snapshot, part: Slice) -> int:
    """How many records of the range stand in for damaged ones (store/stand_in.py). Reads a word of each, which only happens
    with stores that were repaired."""
    layout = StoreLayout.at(snapshot.root)
    queue = ConsumeQueue(layout.root, part.topic, part.queue, snapshot.queue_file_units)
    count, opened, descriptor = 0, -1, -1
    try:
        for begin in range(part.begin, part.end, _STEP):
            for unit in queue.units(begin, min(begin + _STEP, part.end)):
                start = unit.physical_offset - unit.physical_offset % snapshot.log_file_size
                if start != opened:
                    if descriptor >= 0:
                        os.close(descriptor)
                    opened, descriptor = start, _opened(layout, start)
                if descriptor >= 0:
                    word = os.pread(descriptor, _PREPARED.size, unit.physical_offset - start + _PREPARED_AT)
                    count += word == _PREPARED.pack(MARK)
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return count


def _opened(layout: StoreLayout, start: int) -> int:
    try:
        return os.open(layout.log_file(start), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # removed meanwhile
        return -1
