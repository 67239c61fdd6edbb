"""The batch read: planned once where the query is planned, then read by tasks that need only the store's folder."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from orbitmq.errors import OffsetOutOfRange, StoreError
from orbitmq.errors.remedy import hint
from orbitmq.spark import columns
from orbitmq.spark.source import extents, moments, planning
from orbitmq.spark.source.filters import narrowing
from orbitmq.spark.source.options import SourceOptions
from orbitmq.spark.spelling import for_spark

if TYPE_CHECKING:
    import pyarrow as pa

    from orbitmq.native._types import Reader

_log = logging.getLogger("orbitmq")


class OrbitPartition(InputPartition):
    """What one task reads."""

    def __init__(self, slices: tuple[planning.Slice, ...]) -> None:
        super().__init__(slices)
        self.slices = slices


class _Push:
    """Spark refuses a reader with a pushFilters of its own if the session does not push filters, and no reader can know that
    beforehand. So this looks like the default that takes nothing, until it is called; and Spark calls it only if it pushes
    filters."""

    def __init__(self, reader: OrbitReader) -> None:
        self._reader = reader
        self.__func__ = getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: Sequence[Any]) -> list[Any]:
        return self._reader.narrow(filters)


class OrbitReader(DataSourceReader):
    """A batch read. The store is looked at when Spark plans: 4.0 at each action, 4.3 once a DataFrame.

    Raises: UnknownTopic, UnknownQueue, OffsetOutOfRange, SettingError, BrokerNotRunning, StoreError, TimedOut.
    """

    def __init__(self, asked: SourceOptions) -> None:
        self._options = asked
        snapshot = extents.of_options(asked)
        self._root = str(snapshot.root)
        self._sizes = (snapshot.log_file_size, snapshot.queue_file_units)
        # Needed by planning only; a task does not get it.
        self._snapshot: extents.Snapshot | None = snapshot
        self._slices = planning.slices(snapshot.topics, moments.settled(snapshot, asked))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_snapshot": None, "_slices": []}

    @property
    def pushFilters(self) -> _Push:
        """Called with Spark's filters. Takes those that it can use, and returns the others."""
        return _Push(self)

    def narrow(self, filters: Sequence[Any]) -> list[Any]:
        assert self._snapshot is not None
        found = narrowing(filters)
        tags = found.filtered(self._options.tags)
        if tags is None:
            self._slices = []
        else:
            self._slices = found.of(self._slices, self._snapshot)
            self._options = replace(self._options, tags=tags)
        return found.rest

    @for_spark()
    def partitions(self) -> Sequence[InputPartition]:
        asked = self._options
        cut = planning.partitions(self._slices, least=asked.min_partitions, most_records=asked.max_records)
        # Spark would turn an empty list into one partition without a value, which this reader does not know.
        return [OrbitPartition(each) for each in cut or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OrbitPartition)
        with for_spark():
            yield from read_slices(self._root, self._sizes, partition.slices, self._options)


def read_slices(
    root: str, sizes: tuple[int, int], slices: Sequence[planning.Slice], options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """The messages of the slices, with the columns and filters of the options; each queue in order.

    sizes: of the store's log files, bytes, and of its ConsumeQueue files, units.

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
                yield from columns.batches(reader, options.columns)
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
            _log.warning("%s; failOnDataLoss is off: %d messages are left out", removed.message, count)
