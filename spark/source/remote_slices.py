"""Reads ranges of queues through RocketMQ's protocol, as Arrow batches. It needs neither the store's folder nor shared memory,
and commits nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from orbitmq.errors import OffsetOutOfRange, ProtocolError, UnknownTopic
from orbitmq.errors.remedy import hint
from orbitmq.spark.servers import pulled_store
from orbitmq.spark.servers.cluster import AT_ONCE, SUCCESS, Cluster, Place
from orbitmq.spark.source.options import SourceOptions
from orbitmq.tables import columns, slice_reader
from orbitmq.tables.planning import Slice

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("orbitmq")


def read_slices(slices: Sequence[Slice], options: SourceOptions, rows: int = columns.BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """The messages of the slices, with the columns and filters of the options; each queue in order. rows: most in a batch.

    Raises: OffsetOutOfRange: some are gone since they were planned, and failOnDataLoss is on. UnknownTopic, CorruptRecord,
        TimedOut, ProtocolError.
    """
    assert options.servers is not None
    with Cluster(options.servers) as cluster:
        for each in slices:
            place = cluster.place(each.topic, each.queue, options.servers.brokers)
            if place is None:
                why = "it is gone since it was planned"
                text = f"cannot read topic {each.topic!r} from {options.servers} of option servers: {why}"
                raise UnknownTopic(text, option="servers", topic=each.topic)
            for run in _runs(cluster, place, each, options, rows):
                yield from _decoded(each, place, run, options, rows)


def _decoded(
    of: Slice, place: Place, run: list[pulled_store.Pulled], options: SourceOptions, rows: int
) -> Iterator[pa.RecordBatch]:
    with TemporaryDirectory(prefix="orbitmq-") as folder:
        sizes = pulled_store.write(Path(folder), of.topic, place.queue, run)
        part = Slice(of.topic, place.queue, run[0].offset, run[-1].offset + 1)
        for batch in slice_reader.read_slices(folder, sizes, [part], options, rows):
            yield batch if place.queue == of.queue else _numbered(batch, of.queue)


def _numbered(batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
    """With the partition's number in place of the queue's."""
    at = batch.schema.get_field_index("partition")
    if at < 0:
        return batch
    import pyarrow as pa

    column = pa.repeat(pa.scalar(partition, batch.schema.field(at).type), batch.num_rows)
    return batch.set_column(at, batch.schema.field(at), column)


def _runs(cluster: Cluster, place: Place, of: Slice, options: SourceOptions, rows: int) -> Iterator[list[pulled_store.Pulled]]:
    """The records of a slice, in runs without a gap, each about a batch of them."""
    run: list[pulled_store.Pulled] = []
    size = 0
    at = of.begin
    patience = cluster.patience()
    while at < of.end:
        came = cluster.pull(place, at, min(AT_ONCE, of.end - at))
        found = []
        if came.code == SUCCESS:
            try:
                found = [each for each in pulled_store.cut(came.records, tags=bool(options.tags)) if at <= each.offset < of.end]
            except ValueError as error:
                raise _damaged(place, of, at, str(error)) from None
            if [each.offset for each in found] != list(range(found[0].offset, found[-1].offset + 1) if found else ()):
                raise _damaged(place, of, at, "its offsets do not rise one by one")
        after = found[0].offset if found else max(came.next, came.minimum) if came.maximum > at else at
        if after == at and not found:
            # A broker that is starting may not have all of its queues yet.
            if patience.over():
                _lost(options, of, at, of.end, came.minimum, came.maximum)
                at = of.end
            continue
        patience = cluster.patience()
        if after > at:
            if run:
                yield run
                run, size = [], 0
            after = min(after, of.end)
            _lost(options, of, at, after, came.minimum, came.maximum)
        at = found[-1].offset + 1 if found else after
        run += found
        size += sum(len(each.data) for each in found)
        if size >= columns.BATCH_BYTES or len(run) >= rows:
            yield run
            run, size = [], 0
    if run:
        yield run


def _damaged(place: Place, of: Slice, at: int, why: str) -> ProtocolError:
    return ProtocolError(
        f"cannot read topic {of.topic!r}, queue {of.queue}, at offset {at:,} from {place.address}: the answer is damaged: "
        f"{why}",
        operation="a pull",
        topic=of.topic,
    )


def _lost(options: SourceOptions, of: Slice, begin: int, end: int, minimum: int, maximum: int) -> None:
    """Messages [begin, end) are no longer there. Raises: OffsetOutOfRange: failOnDataLoss is on."""
    error = OffsetOutOfRange(
        f"cannot read topic {of.topic!r}, queue {of.queue}, at offset {begin:,}: its broker does not have it any more; "
        f"{minimum:,} to {maximum:,} would do",
        hint=hint("to go on with what is left, use {failOnDataLoss=false of spark}"),
        option="failOnDataLoss",
        topic=of.topic,
        queue=of.queue,
        offset=begin,
        minimum=minimum,
        maximum=maximum,
    )
    if options.fail_on_data_loss:
        raise error
    _log.warning("%s; %d messages are left out, as was asked for", error.message, end - begin)
