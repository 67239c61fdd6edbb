"""Reads ranges of queues out of the files of a store, as Arrow batches. It needs only the store's folder."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from orbitmq.errors import OffsetOutOfRange, StoreError
from orbitmq.errors.remedy import hint
from orbitmq.tables import columns, extents, planning
from orbitmq.tables.selection import Selection

if TYPE_CHECKING:
    import pyarrow as pa

    from orbitmq.native._types import Reader

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
        StoreError.
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
                    raise
                if options.fail_on_data_loss:
                    raise removed from None
                _pass(reader, slices, removed)
    finally:
        reader.close()


def _removed(error: StoreError, root: str, sizes: tuple[int, int]) -> OffsetOutOfRange | None:
    """The error if retention has removed the message since the query was planned."""
    topic, queue, offset = error.topic, error.queue, error.queue_offset
    if topic is None or queue is None or offset is None:
        return None
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


def _pass(reader: Reader, slices: Sequence[planning.Slice], removed: OffsetOutOfRange) -> None:
    """Makes the reader continue after what was removed."""
    offset, minimum = removed.offset, removed.minimum
    assert offset is not None and minimum is not None
    for cursor, each in enumerate(slices):
        if (each.topic, each.queue) == (removed.topic, removed.queue) and each.begin <= offset < each.end:
            reader.seek(cursor, min(minimum, each.end))
            count = min(minimum, each.end) - offset
            _log.warning("%s; %d messages are left out, as was asked for", removed.message, count)
