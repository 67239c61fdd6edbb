"""Goal: Spark's workers do not compile PySpark, nor import anew what the tests need (ready/sitecustomize.py). Method: ask a
worker, because nothing else fails if they do; all tests only take longer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyspark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def test_workers_are_ready(spark: SparkSession) -> None:
    def looked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc

        import pyarrow
        import pyspark

        for _ in batches:
            yield pyarrow.record_batch({"where": [pyspark.__file__], "frozen": [gc.get_freeze_count()]})

    [found] = spark.range(1, numPartitions=1).mapInArrow(looked, "where string, frozen long").collect()
    assert found["where"] == pyspark.__file__
    assert found["frozen"] > 0, "the daemon has imported nothing"
