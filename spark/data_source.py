"""The data source `orbitmq` for Spark: topics as tables, which the tasks read themselves from the store's mapped files.

    register(spark)
    spark.read.format("orbitmq").option("path", "./data").option("subscribe", "orders").load()

Spark makes a source twice: where a query is planned, and, pickled, in every task. Only planning talks to the broker; a task
needs nothing but the store's folder. docs/spark.md lists the options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
except ImportError as error:  # an extra: everything else works without it
    raise ImportError(f"{error}; the data source needs PySpark 4: pip install 'orbitmq[spark]'", name=error.name) from error

from orbitmq.spark import schema as source_schema
from orbitmq.spark.source.options import columns_of, parse
from orbitmq.spark.spelling import for_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

FORMAT = "orbitmq"


_knowing: WeakSet[SparkSession] = WeakSet()


def register(spark: SparkSession) -> None:
    """Registers the format with a session, unless Spark has found it by itself. Doing it again changes nothing, while Spark
    itself would warn."""
    from pyspark.errors import AnalysisException

    if spark in _knowing:
        return
    try:
        spark.dataSource.register(OrbitSource)
    except AnalysisException as error:
        # 4.0 refuses to register again what it has found as pyspark_orbitmq, which is this source.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    _knowing.add(spark)


class OrbitSource(DataSource):
    """Describes the source; readers and writers are in modules of their own. Options are checked once it is known what they are
    for. Raises: SettingError, ColumnError."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    @for_spark()
    def schema(self) -> str:
        return source_schema.ddl(columns_of(self.options))

    @for_spark()
    def reader(self, schema: StructType) -> DataSourceReader:
        from orbitmq.spark.source.batch_reader import OrbitReader

        source_schema.check(schema, columns_of(self.options))
        return OrbitReader(parse(self.options))

    @for_spark()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from orbitmq.spark.stream.reader import OrbitStreamReader

        source_schema.check(schema, columns_of(self.options))
        return OrbitStreamReader(parse(self.options, streaming=True))

    @for_spark()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from orbitmq.spark.sink import writer as sink

        return sink.writer(self.options, schema, overwrite)

    @for_spark()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from orbitmq.spark.sink import writer as sink

        return sink.stream_writer(self.options, schema, overwrite)
