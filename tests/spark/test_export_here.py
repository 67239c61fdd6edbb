"""Goal: an export without Spark is the same export. Method: its folder is compared with that of an export with Spark, of the
same store; and the command runs where nothing but pyarrow can be imported. Kills: test_export_kills.py and
test_export_processes.py."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import CorruptRecord
from orbitmq.spark.columns import COLUMNS
from orbitmq.spark.export import here, topics
from orbitmq.spark.export.folder import ExportFolder
from orbitmq.spark.export.here import tasks_here
from orbitmq.spark.export.manifest import ExportFile
from orbitmq.spark.export.partition import divided
from orbitmq.spark.export.task import Job
from orbitmq.spark.export.topics import export
from orbitmq.spark.source.planning import Slice
from tests.spark.exporting import days_of_messages, export_here, seen
from tests.spark.stored_topics import StoredTopics
from tests.waiting import WATCHDOG_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
# Runs `orbitmq export` where some modules cannot be imported.
COMMAND = (
    "import sys; sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(',')));"
    "from orbitmq.cli.main import main; sys.argv.insert(1, 'export'); main()"
)


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


def run(stored: StoredTopics, out: Path, without: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment.update({"PATH": "/nowhere", "PYTHONPATH": str(ROOT)})
    command = [sys.executable, "-c", COMMAND, ",".join(without), str(stored.root), str(out)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=WATCHDOG_S)


def test_pyarrow_is_all_that_the_command_needs(tmp_path: Path) -> None:
    stored = days_of_messages(tmp_path / "store")
    refused = run(stored, tmp_path / "out", ["pyarrow"])
    assert refused.returncode == 1 and "pip install 'orbitmq[arrow]'" in refused.stderr
    assert "Traceback" not in refused.stderr and not (tmp_path / "out").exists()
    done = run(stored, tmp_path / "out", ["pyspark", "py4j", "pandas", "numpy"])
    assert done.returncode == 0, done.stderr
    assert seen(tmp_path / "out") == sorted(row[:4] for row in stored.rows)


def test_the_first_failure_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a task's error comes as it is, and nothing goes on behind it. Method: a task that fails while another one runs
    until it is told to stop, and more tasks than threads."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    begun, ended, started = Event(), Event(), []

    def work(job: Job, number: int, slices: Sequence[Slice], stopped: Callable[[], bool]) -> list[ExportFile]:
        started.append(number)
        if number == 0:
            begun.set()
            while not stopped():
                os.sched_yield()
            ended.set()
        else:
            assert begun.wait(WATCHDOG_S)
            raise CorruptRecord("cannot read", topic="t", queue=number)
        return []

    monkeypatch.setattr(here, "run_task", work)
    job = Job("", (0, 0), "", 1, (), (), True)
    with pytest.raises(CorruptRecord) as caught:
        tasks_here(job, [()] * 50)
    assert ended.is_set() and caught.value.queue in (1, 2, 3) and len(started) < 50


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual way: a damaged record, and tasks that have written files."""
    monkeypatch.setattr(topics, "TASK_ROWS", 20)
    stored = days_of_messages(tmp_path / "store")
    stored.spoil(stored.rows[-1][8])
    with pytest.raises(CorruptRecord, match=str(stored.rows[-1][8])):
        export_here(stored.root, tmp_path / "out")
    assert seen(tmp_path / "out") == [] and not list((tmp_path / "out/_orbitmq/staging").iterdir())


ROW = st.tuples(
    st.sampled_from([None, "x", "y", ""]),
    st.integers(0, 2),
    st.sampled_from([-86_400_000_001, -1, 0, 1, 3_599_999_999, 3_600_000_000, 86_400_000_000, 1_700_000_000_000_000]),
)


@given(st.lists(ROW, max_size=40), st.permutations(["topic", "tags", "partition", "day", "hour"]), st.integers(1, 5))
def test_rows_go_to_the_folders_of_their_values(found: list[tuple[str | None, int, int]], names: list[str], count: int) -> None:
    """Goal: each row is in the folder of its values, in order. Method: compared with a loop over the rows."""
    by = names[:count]
    columns = [pa.array(each) for each in zip(*found, strict=True)] if found else [[], [], []]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(columns[0], pa.string()), pa.array(columns[1], pa.int32()), pa.array(columns[2], pa.timestamp("us", "UTC")),
         pa.array(range(len(found)), pa.int64())],
        ["tags", "partition", "timestamp", "n"],
    )  # fmt: skip
    wanted: dict[tuple[str | None, ...], list[int]] = defaultdict(list)
    for number, (tags, partition, time) in enumerate(found):
        moment = datetime.fromtimestamp(time // 1_000_000, UTC)
        values = {"topic": "a", "tags": tags, "partition": str(partition)}
        values |= {"day": moment.strftime("%Y-%m-%d"), "hour": moment.strftime("%Y-%m-%d-%H")}
        wanted[tuple(values[name] for name in by)].append(number)
    parts = list(divided(batch, "a", by))
    assert len(parts) == len(wanted)
    assert {key: part.column("n").to_pylist() for key, part in parts} == wanted


def test_topics_of_the_brokers_own_are_named_once(tmp_path: Path) -> None:
    """All topics: without those; with them, once a run has exported them."""
    stored = StoredTopics(tmp_path / "store")
    kept = ["%DLQ%billing", "%RETRY%billing", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer"]
    kept += ["DefaultCluster_REPLY_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "OFFSET_MOVED_EVENT", "%LMQ%x"]
    for topic in ("orders", *kept):
        stored.add(topic, 1)
        stored.send(topic, b"x")
    assert {file.topic for file in export_here(stored.root, tmp_path / "out").files} == {"orders"}
    assert export_here(stored.root, tmp_path / "out", "%DLQ%billing").rows == 1
    for topic in ("orders", *kept):
        stored.send(topic, b"x")
    assert {file.topic for file in export_here(stored.root, tmp_path / "out").files} == {"orders", "%DLQ%billing"}
