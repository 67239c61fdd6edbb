"""Python imports this when it starts with this folder in PYTHONPATH, as the processes do that Spark starts for these tests.

Spark lets them import PySpark from a zip file, which keeps nothing that was compiled: each process would compile PySpark anew.
Here they import the package that the file was made from. And Spark's daemon imports nothing before it forks, so that each
worker would import Arrow, pandas and OrbitMQ anew; here the daemon has imported them. Both take longer than what a process then
does for the few rows of a test.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path

ZIPPED = Path("pyspark", "python", "lib", "pyspark.zip")
MODULES = ("pyarrow.compute", "orbitmq.client.producer.producer", "orbitmq.spark.data_source", "orbitmq.spark.sink.writer")
# Workers that convert columns, for which Arrow imports pandas.
COLUMNS = ("worker", "commit_data_source_write", "python_streaming_sink_runner")
STARTED_ONCE = ("lookup_data_sources",)


def unzipped(path: str) -> str:
    """The folder of the package, if the path is PySpark's zip file."""
    folder = Path(path).parents[len(ZIPPED.parts) - 1] if Path(path).parts[-len(ZIPPED.parts) :] == ZIPPED.parts else None
    return path if folder is None else str(folder)


def import_all(module: str) -> None:
    kind = module.rpartition(".")[2]
    if kind in STARTED_ONCE:
        return
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a fork would not have the others
    for each in (module, *MODULES, *(["pandas"] if kind in COLUMNS else [])):
        importlib.import_module(each)
    gc.collect()
    gc.freeze()


sys.path[:] = map(unzipped, sys.path)
if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    import_all(sys.orig_argv[3])
