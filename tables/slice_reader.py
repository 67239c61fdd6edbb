"""Reads ranges of queues out of the files of a store, as Arrow batches. It needs only the store's folder."""

from __future__ import annotations

import logging
import select
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from orbitmq.errors import OffsetOutOfRange, StoreError
from orbitmq.errors.remedy import hint
from orbitmq.tables import columns, extents, planning
from orbitmq.tables.extents import AWAY_S
from orbitmq.tables.selection import Selection

if TYPE_CHECKING:
    import pyarrow as pa

    from orbitmq.native._types import Reader

LOOK_MS = 20
_log = logging.getLogger("orbitmq")


def read_slices(
    root: str,
    sizes: tuple[int, int],
    slices: Sequence[planning.Slice],
    options: Selection,
    rows: int = columns.BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """The messages of the slices, with the columns and filters of the options; each queue in order.

    sizes: of the store's log files, bytes, and of its ConsumeQueue files, units. rows: most in a batch.

    Raises: OffsetOutOfRange: retention has removed some since they were planned, and failOnDataLoss is on. CorruptRecord,
        StoreError; if a queue has lost what was planned, after AWAY_S, or once its broker runs.
    """
    from orbitmq.native._types import Reader

    reader = Reader(store=root, log_file_size=sizes[0], queue_file_units=sizes[1])
    try:
        # The CRC covers only the body. A query that does not ask for bodies does not have them fetched from memory either.
        reader.verify = "value" in options.columns
        reader.filter(options.tags)
        reader.sql(options.sql)
        for each in slices:
            reader.add_offline(each.topic, each.queue, each.begin, each.end)
        while True:
            try:
                yield from columns.batches(reader, options.columns, rows)
                return
            except StoreError as error:
                removed = _removed(error, root, sizes)
                if removed is None:
                    if not _comes_back(error, root, sizes):
                        raise
                    continue
                if options.fail_on_data_loss:
                    raise removed from None
                _pass(reader, slices, removed)
    finally:
        reader.close()


def _removed(error: StoreError, root: str, sizes: tuple[int, int]) -> OffsetOutOfRange | None:
    """The error if retention has removed the message since the query was planned."""
    place = _place(error)
    if place is None:
        return None
    topic, queue, offset = place
    minimum, maximum = extents.of_queue(root, topic, queue, *sizes)
    if offset >= minimum:
        return None
    return OffsetOutOfRange(
        f"cannot read topic {topic!r}, queue {queue}, at offset {offset:,}: retention has removed it since the query was "
        f"planned; {minimum:,} to {maximum:,} would do",
        hint=hint("to go on with what is left, use {failOnDataLoss=false of spark}"),
        option="failOnDataLoss",
        topic=topic,
        queue=queue,
        offset=offset,
        minimum=minimum,
        maximum=maximum,
    )


def _comes_back(error: StoreError, root: str, sizes: tuple[int, int]) -> bool:
    """Waits, if the queue ends before a message that it had when the query was planned. So it is while a broker that was killed
    starts again: recovery removes what the queue may have lost in parts, and reput writes it again, from the log."""
    place = _place(error)
    if place is None or _has(place, root, sizes):
        return False
    _log.warning(
        "topic %r, queue %d ends before offset %d, which the query is to read; waiting for up to %.0f s, because a broker that "
        "starts fills it again", *place, AWAY_S,
    )  # fmt: skip
    deadline = time.monotonic() + AWAY_S
    while time.monotonic() < deadline:
        is_filling = extents.is_filling(root)  # looked at first: what is not there afterwards does not come
        if _has(place, root, sizes):
            return True
        if not is_filling:
            return False
        select.poll().poll(LOOK_MS)
    return False


def _has(place: tuple[str, int, int], root: str, sizes: tuple[int, int]) -> bool:
    topic, queue, offset = place
    return offset < extents.of_queue(root, topic, queue, *sizes)[1]


def _place(error: StoreError) -> tuple[str, int, int] | None:
    """Topic, queue and queue offset of the message that could not be read."""
    topic, queue, offset = error.topic, error.queue, error.queue_offset
    return None if topic is None or queue is None or offset is None else (topic, queue, offset)


def _pass(reader: Reader, slices: Sequence[planning.Slice], removed: OffsetOutOfRange) -> None:
    """Makes the reader continue after what was removed."""
    offset, minimum = removed.offset, removed.minimum
    assert offset is not None and minimum is not None
    for cursor, each in enumerate(slices):
        if (each.topic, each.queue) == (removed.topic, removed.queue) and each.begin <= offset < each.end:
            reader.seek(cursor, min(minimum, each.end))
            count = min(minimum, each.end) - offset
            _log.warning("%s; %d messages are left out, as was asked for", removed.message, count)
