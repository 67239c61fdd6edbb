"""The batch read: planned once where the query is planned, then read by tasks that need only the store's folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from orbitmq.spark.source import remote_slices
from orbitmq.spark.source.filters import narrowing
from orbitmq.spark.source.options import SourceOptions
from orbitmq.spark.source.snapshot import of_options, settled
from orbitmq.spark.spelling import for_spark
from orbitmq.tables import extents, planning
from orbitmq.tables.moments import END
from orbitmq.tables.slice_reader import read_slices

if TYPE_CHECKING:
    import pyarrow as pa


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
        snapshot = of_options(asked)
        self._root = str(snapshot.root)
        self._sizes = (snapshot.log_file_size, snapshot.queue_file_units)
        # Needed by planning only; a task does not get it.
        self._snapshot: extents.Snapshot | None = snapshot
        self._slices = planning.slices(snapshot.topics, settled(snapshot, asked))
        self._options = asked.numbered(snapshot.brokers)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_snapshot": None, "_slices": []}

    @property
    def pushFilters(self) -> _Push:
        """Called with Spark's filters. Takes those that it can use, and returns the others."""
        return _Push(self)

    def narrow(self, filters: Sequence[Any]) -> list[Any]:
        assert self._snapshot is not None
        found = narrowing(filters)
        if self._options.servers is not None:
            found.stored_ms = (0, END)  # a search would ask the brokers many times; Spark compares the rows
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
            if self._options.servers is not None:
                yield from remote_slices.read_slices(partition.slices, self._options)
            else:
                yield from read_slices(self._root, self._sizes, partition.slices, self._options)
