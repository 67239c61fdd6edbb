"""Goal: the worked example of docs/spark-example.md does what its page says. Method: run it on a part of the flights, so that
it compares its output with a batch; and the choice of a jar for Delta alone, because not every PySpark has one."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from importlib import metadata
from itertools import islice, pairwise
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import msgpack
import pyspark
import pytest
from py4j.protocol import Py4JError
from pyspark import cloudpickle
from pyspark.errors import PySparkException

from orbitmq.cli.quickstart.flights import flights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.pyspark

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
COUNT = 8_000
WATCHDOG_S = 500


@pytest.fixture
def delta_table(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("delta_table")


@pytest.fixture
def flight_delays(delta_table: ModuleType) -> Iterator[ModuleType]:
    """The program as a module. Spark's Python processes get its functions whole, as they get those of a program."""
    module = importlib.import_module("flight_delays")
    cloudpickle.register_pickle_by_value(module)
    yield module
    cloudpickle.unregister_pickle_by_value(module)


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "flight_delays.py"), "--folder", str(folder), *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES.parents[1]), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=WATCHDOG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_the_stream_equals_the_batch(tmp_path: Path, delta_table: ModuleType) -> None:
    """Every table that is possible here; if Delta is not, one line says why, and nothing else is missing."""
    done = run(tmp_path / "run", "--flights", str(COUNT), "--picture", str(tmp_path / "delays.svg"))
    rows = dict(re.findall(r"^(\w+): ([\d,]+) hours of airports, the same as the batch; [1-9]", done.stdout, re.MULTILINE))
    why = re.findall(r"^no Delta table: .*", done.stderr, re.MULTILINE)
    try:
        delta_table.package()
    except delta_table.DeltaError as reason:
        assert why == [f"no Delta table: {reason}"]
        assert list(rows) == ["parquet"]
    else:
        if why:  # no way to Maven Central
            assert list(rows) == ["parquet"] and "spark.log" in why[0]
            pytest.skip(why[0])
        assert list(rows) == ["parquet", "delta"] and rows["parquet"] == rows["delta"]
    assert int(rows["parquet"].replace(",", "")) > 300
    told = re.findall(rf"^parquet +micro-batch +\d+: +([\d,]+) of {COUNT:,} flights", done.stderr, re.MULTILINE)
    assert len(told) >= 4 and told[-1] == f"{COUNT:,}"
    assert (tmp_path / "delays.svg").read_text().count("<svg") == 1


def test_the_columns_of_both_kinds_of_bodies(spark: SparkSession, flight_delays: ModuleType) -> None:
    """Also if a number is missing; and an invalid body ends the query."""
    some = [{name: flight[name] for name in flight_delays.COLUMNS} for flight in islice(flights(), 1000)]
    assert any(flight["dep_delay"] is None for flight in some)
    kinds = (("json", lambda flight: json.dumps(flight).encode(), "FAILFAST"), ("msgpack", msgpack.packb, "ValueError"))
    found = {}
    for name, encode, refusal in kinds:
        bodies = flight_delays.Bodies(name)
        frame = spark.createDataFrame([(bytearray(encode(flight)),) for flight in some], "value binary")
        found[name] = [row.asDict() for row in flight_delays.typed(frame, bodies).collect()]
        spoilt = spark.createDataFrame([(bytearray(b"{"),)], "value binary")
        # Spark raises its errors in two forms, depending on the place: as PySpark's own, or as they come from Java.
        with pytest.raises((PySparkException, Py4JError), match=refusal):
            flight_delays.typed(spoilt, bodies).collect()
    assert found["json"] == found["msgpack"]
    assert [row["dep_delay"] for row in found["json"]] == [flight["dep_delay"] for flight in some]
    # Rows have the clock of this process, so hours are compared with each other.
    for first, later in pairwise(zip(found["json"], some, strict=True)):
        told = datetime.fromisoformat(str(later[1]["time_hour"])) - datetime.fromisoformat(str(first[1]["time_hour"]))
        assert later[0]["time_hour"] - first[0]["time_hour"] == told


@pytest.mark.parametrize(
    ("delta", "requires", "spark", "jar"),
    [
        ("4.0.1", ["pyspark (>=4.0.0)"], "4.0.5", "io.delta:delta-spark_2.13:4.0.1"),
        (
            "4.4.0",
            ["importlib_metadata<=8.7.1,>=1.0.0", "pyspark<=4.2.0,>=4.0.1"],
            "4.2.1",
            "io.delta:delta-spark_4.2_2.13:4.4.0",
        ),
        ("4.0.1", ["pyspark (>=4.0.0)"], "4.3.0", None),
        ("4.4.0", ["pyspark<=4.2.0,>=4.0.1"], "4.3.0", None),
    ],
)
def test_the_jar_is_that_of_this_spark(
    delta_table: ModuleType, monkeypatch: pytest.MonkeyPatch, delta: str, requires: list[str], spark: str, jar: str | None
) -> None:
    monkeypatch.setattr(pyspark, "__version__", spark)
    monkeypatch.setattr(metadata, "version", lambda name: delta)
    monkeypatch.setattr(metadata, "requires", lambda name: requires)
    if jar is not None:
        assert delta_table.package() == jar
    else:
        with pytest.raises(delta_table.DeltaError, match=f"delta-spark {delta} is made for .*, this is {spark}"):
            delta_table.package()
