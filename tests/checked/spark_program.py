"""What users of Spark call. It is checked like program.py, and not run: the tests of spark/ run such calls."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from orbitmq.spark.data_source import register
from orbitmq.spark.export import export
from orbitmq.spark.session import local_session
from orbitmq.tables.export.compact import CompactReport, compact
from orbitmq.tables.export.topics import ExportReport
from orbitmq.tables.export.topics import export as export_here


def use(store: Path, out: Path) -> DataFrame:
    """Reads and exports a topic."""
    spark = local_session("orders", cores=2, memory="1g", settings={"spark.ui.enabled": "false"})
    register(spark)
    report: ExportReport = export(store, out, ["orders"], spark, by=("topic", "day"), columns=["value"], full=True)
    report = export_here(store, out, ["orders"], full=False)
    merged: CompactReport = compact(out, ["orders"])
    assert merged.runs is not None
    assert report.rows and report.size and report.seconds
    return spark.read.format("orbitmq").option("path", str(store)).option("subscribe", "orders").load()
