"""Whether Delta tables can be had with this PySpark: a jar of Delta's runs in the version of Spark it was built for only."""

from __future__ import annotations

import re
from importlib import metadata

import pyspark

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",  # 50 unless it is set, for tables of millions of files
}


class DeltaError(Exception):
    """Why there is no Delta table."""


def package() -> str:
    """The jar that belongs to the installed package delta-spark, as Spark fetches it from Maven Central. Raises: DeltaError."""
    spark = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    try:
        delta = metadata.version("delta-spark")
    except metadata.PackageNotFoundError:
        raise DeltaError(f"no package delta-spark is installed beside PySpark {pyspark.__version__}") from None
    newest = newest_spark(delta, metadata.requires("delta-spark") or [])
    if not (4, 0) <= spark <= newest:
        fitting = f"4.0 to {newest[0]}.{newest[1]}"
        raise DeltaError(f"delta-spark {delta} is made for PySpark {fitting}, this is {pyspark.__version__}")
    built_for = "" if delta.startswith("4.0.") else f"_{spark[0]}.{spark[1]}"
    return f"io.delta:delta-spark{built_for}_2.13:{delta}"


def newest_spark(delta: str, requirements: list[str]) -> tuple[int, int]:
    """The newest Spark that a release of delta-spark takes. The first ones name no end, and take only what was there."""
    for requirement in requirements:
        if found := re.match(r"pyspark\b.*<=\s*(\d+)\.(\d+)", requirement):
            return int(found[1]), int(found[2])
    return (4, 0) if delta.startswith("4.0.") else (4, 1)
