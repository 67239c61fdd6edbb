"""The data source `orbitmq` for Spark: topics as tables, read by the tasks themselves out of the store's mapped files.

    register(spark)
    spark.read.format("orbitmq").option("path", "./data").option("subscribe", "orders").load()

Spark makes a source twice: where a query is planned, and, pickled, in every task. Planning alone speaks to the broker; a task
needs the store's folder only. docs/spark.md lists the options.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
except ImportError as error:  # an extra: everything else works without
    raise ImportError(f"{error}; the data source needs PySpark 4: pip install 'orbitmq[spark]'", name=error.name) from error

from orbitmq.errors import OffsetOutOfRange, StoreError
from orbitmq.spark import columns, extents, planning
from orbitmq.spark.options import SourceOptions, parse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FORMAT = "orbitmq"


_knowing: WeakSet[SparkSession] = WeakSet()


def register(spark: SparkSession) -> None:
    """Makes the format known to a session. Doing it again changes nothing; Spark itself would warn."""
    if spark not in _knowing:
        spark.dataSource.register(OrbitSource)
        _knowing.add(spark)


class OrbitSource(DataSource):
    """Options are checked when it is made. Raises: SettingError."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = parse(options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return columns.ddl(self._options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        return OrbitReader(self._options)


class OrbitPartition(InputPartition):
    """What one task reads."""

    def __init__(self, slices: tuple[planning.Slice, ...]) -> None:
        super().__init__(slices)
        self.slices = slices


class OrbitReader(DataSourceReader):
    """A batch read. The store is looked at when Spark plans: 4.0 at each action, 4.3 once a DataFrame.

    Raises: UnknownTopic, UnknownQueue, OffsetOutOfRange, SettingError, BrokerNotRunning, StoreError.
    """

    def __init__(self, asked: SourceOptions) -> None:
        self._options = asked
        snapshot = extents.of_store(asked.path) if asked.path is not None else extents.of_broker(asked.broker or "")
        self._root = str(snapshot.root)
        self._log_file_size = snapshot.log_file_size
        self._queue_file_units = snapshot.queue_file_units
        self._slices = planning.slices(snapshot.topics, asked)

    def partitions(self) -> Sequence[InputPartition]:
        asked = self._options
        cut = planning.partitions(self._slices, least=asked.min_partitions, most_records=asked.max_records)
        # Spark makes an empty list one partition without a value, which is not ours.
        return [OrbitPartition(each) for each in cut or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OrbitPartition)
        from orbitmq.native._fast import Reader

        reader = Reader(store=self._root, log_file_size=self._log_file_size, queue_file_units=self._queue_file_units)
        try:
            for each in partition.slices:
                reader.add_offline(each.topic, each.queue, each.begin, each.end)
            yield from columns.batches(reader, self._options.columns)
        except StoreError as error:
            raise self._removed(error) or error from None
        finally:
            reader.close()

    def _removed(self, error: StoreError) -> OffsetOutOfRange | None:
        """What the error is when retention has removed the message since the query was planned."""
        topic, queue, offset = (error.values.get(name) for name in ("topic", "queue", "queue_offset"))
        if topic is None or queue is None or offset is None:
            return None
        minimum, maximum = extents.of_queue(self._root, topic, queue, self._log_file_size, self._queue_file_units)
        if offset >= minimum:
            return None
        return OffsetOutOfRange(
            f"cannot read topic {topic!r}, queue {queue}, at offset {offset:,}: retention has removed it since the query was "
            f"planned; {minimum:,} to {maximum:,} would do",
            topic=topic,
            queue=queue,
            offset=offset,
            minimum=minimum,
            maximum=maximum,
        )
