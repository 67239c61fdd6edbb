"""The Spark session of the benchmarks: one JVM for all of them, with Spark's Kafka source if that can be had."""

from __future__ import annotations

import atexit
import os
import sys
from functools import cache
from typing import TYPE_CHECKING

from scripts import maven
from scripts.benchmark.spark import kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
MEMORY = "2g"


@cache
def jars() -> tuple[str, ...] | str:
    """Jars of Spark's Kafka source; text: why there are none."""
    try:
        kafka.broker_jars()
        return tuple(map(str, kafka.source_jars()))
    except maven.MavenError as why:
        print(f"spark: not compared with Kafka: {why}", file=sys.stderr)
        return str(why)


@cache
def session() -> SparkSession:
    """Raises: SettingError: no Java. ImportError: no PySpark."""
    from orbitmq.spark.session import local_session
    from scripts.benchmark.spark.ready_made import ReadyMade

    found = jars()
    if not isinstance(found, str):
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(found)} pyspark-shell"
    spark = local_session("orbitmq benchmark", cores=CORES, memory=MEMORY)
    spark.dataSource.register(ReadyMade)
    atexit.register(spark.stop)
    return spark
