"""Goal: an export without Spark is the same export. Method: its folder is compared with that of an export with Spark, of the
same store."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from orbitmq.spark.export import export
from orbitmq.tables.columns import COLUMNS
from orbitmq.tables.export import topics
from orbitmq.tables.export.folder import ExportFolder
from tests.tables.exporting import days_of_messages, export_here, seen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows(out: Path) -> dict[str, list[Any]]:
    """The rows of each folder, in an order of their own, and each file's schema."""
    found: dict[str, list[Any]] = defaultdict(list)
    for path in sorted(out.rglob("part-*.parquet")):
        table = pq.read_table(path, partitioning=None)
        found[str(path.parent.relative_to(out))] += [str(table.schema), *(str(row) for row in table.to_pylist())]
    return {name: sorted(each) for name, each in found.items()}


def manifest(out: Path) -> list[dict[str, Any]]:
    """What the runs say, without names that are new in each attempt."""
    told = []
    for run in ExportFolder(out).runs():
        said = {**asdict(run), "began": None, "staging": None}
        files = [{**asdict(file), "path": str(Path(file.path).parent), "size": None} for file in run.files]
        told.append({**said, "files": sorted(files, key=str)})
    return told


@pytest.mark.parametrize("by", [["topic", "day"], ["tags", "partition", "hour"]])
def test_it_is_the_export_that_spark_makes(
    spark: SparkSession, tmp_path: Path, by: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs, with every column, in several tasks."""
    monkeypatch.setattr(topics, "TASK_ROWS", 60)
    stored = days_of_messages(tmp_path / "store")
    for _ in range(2):
        for number in range(20):
            stored.send("a", b"%d" % number, tags=f"t{number % 3}", keys=f"k{number} l", properties={"color": "red"})
        export(stored.root, tmp_path / "spark", spark=spark, by=by, columns=list(COLUMNS))
        export_here(stored.root, tmp_path / "here", by=by, columns=list(COLUMNS))
    assert rows(tmp_path / "here") == rows(tmp_path / "spark")
    assert manifest(tmp_path / "here") == manifest(tmp_path / "spark") and len(manifest(tmp_path / "here")) == 2
    stored.send("b", b"last")  # each goes on with the other's folder
    for report in (export(stored.root, tmp_path / "here", spark=spark), export_here(stored.root, tmp_path / "spark")):
        assert (report.rows, report.run) == (1, 3)
    assert seen(tmp_path / "here") == seen(tmp_path / "spark") == sorted(row[:4] for row in stored.rows)
