"""Makes Spark find the format by itself: Spark looks into every importable module whose name begins with pyspark_, and
registers its DefaultSource. Where this package is installed, spark.read.format("orbitmq") works without anything else."""

from orbitmq.spark.data_source import OrbitSource as DefaultSource

__all__ = ["DefaultSource"]
