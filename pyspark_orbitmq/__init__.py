"""What Spark finds by itself: it looks into every importable module whose name begins so, and registers its DefaultSource.
Where this package is installed, spark.read.format("orbitmq") works without another word."""

from orbitmq.spark.data_source import OrbitSource as DefaultSource

__all__ = ["DefaultSource"]
