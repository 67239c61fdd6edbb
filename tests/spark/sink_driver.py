"""A program that streams the lines of a folder's text files into topic "t", a file a batch, until it has seen all files. Its
first task fails half-way, and is tried again. Arguments: broker, folder; "again" starts the query once more if it fails."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from orbitmq.spark.data_source import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def failing_once(frame: DataFrame, marker: Path) -> DataFrame:
    """The first task that reaches the line "... 2500" fails."""

    def same(line: str) -> str:
        if line.endswith(" 2500") and not marker.exists():
            marker.touch()
            raise RuntimeError("the first time")
        return line

    return frame.select(udf(same)("value").alias("value"))


def main(broker: str, folder: Path, *, again: bool) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.memory": "512m"}
    builder = SparkSession.builder.master("local[2,3]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", "1").load(str(folder / "in"))
    print("ready", flush=True)
    writer = failing_once(lines, folder / "failed").writeStream.format("orbitmq").options(broker=broker, topic="t")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer = writer.trigger(availableNow=True)
    try:
        writer.start().awaitTermination()
    except StreamingQueryException:
        if not again:
            raise
        writer.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), again="again" in sys.argv[3:])
