"""Goal: an export needs pyarrow alone. Method: the command runs where nothing else can be imported, and where a Java would tell
that it was started; its tasks are threads. That it is the export that Spark makes: tests/spark/test_export_same.py. Kills:
test_export_kills.py and test_export_processes.py."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import CorruptRecord
from orbitmq.tables.export import here, topics
from orbitmq.tables.export.here import tasks_here
from orbitmq.tables.export.manifest import ExportFile
from orbitmq.tables.export.partition import divided
from orbitmq.tables.export.progress import watched
from orbitmq.tables.export.task import Job
from orbitmq.tables.export.topics import export
from orbitmq.tables.planning import Slice
from tests.tables.exporting import add, days_of_messages, export_here, seen
from tests.tables.stored_topics import StoredTopics
from tests.waiting import WATCHDOG_S

ROOT = Path(__file__).resolve().parents[2]
# Runs `orbitmq export` where some modules cannot be imported.
COMMAND = (
    "import sys; sys.modules.update(dict.fromkeys(filter(None, sys.argv.pop(1).split(','))));"
    "from orbitmq.cli.main import main; sys.argv.insert(1, 'export'); main()"
)
# Reads and exports like a program that has PySpark, too. Prints what of PySpark came in.
PROGRAM = """
import sys
import orbitmq
from orbitmq.tables.export.compact import compact
from orbitmq.tables.export.topics import export
store, out = sys.argv[1:]
rows = orbitmq.dataset(store).to_table().num_rows
assert export(store, out).rows == rows and export(store, out).run is None
compact(out)
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"pyspark", "py4j"}))
"""


def run(stored: StoredTopics, out: Path, without: Sequence[str], *options: str) -> subprocess.CompletedProcess[str]:
    where = [str(out)] if "--compact" in options else [str(stored.root), str(out)]
    return started("-c", COMMAND, ",".join(without), *options, *where)


def started(*arguments: str, java: Path = Path("/nowhere")) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter, with this Java alone."""
    environment = {**os.environ, "PATH": str(java / "bin"), "JAVA_HOME": str(java), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=WATCHDOG_S)


def test_pyarrow_is_all_that_the_command_needs(tmp_path: Path) -> None:
    stored = days_of_messages(tmp_path / "store")
    refused = run(stored, tmp_path / "out", ["pyarrow"])
    assert refused.returncode == 1 and "pip install 'orbitmq[arrow]'" in refused.stderr
    assert "Traceback" not in refused.stderr and not (tmp_path / "out").exists()
    for options in ((), (), ("--compact",)):  # as hourly jobs would
        if not options:
            add(stored, 1)
        done = run(stored, tmp_path / "out", ["pyspark", "py4j", "pandas", "numpy"], *options)
        assert done.returncode == 0, done.stderr
        assert seen(tmp_path / "out") == sorted(row[:4] for row in stored.rows)


def test_no_java_is_started(tmp_path: Path) -> None:
    """Where PySpark is installed, too. Method: a Java that tells that it was started; an export with Spark starts it."""
    stored = days_of_messages(tmp_path / "store")
    told, java = tmp_path / "told", tmp_path / "java"
    (java / "bin").mkdir(parents=True)
    (java / "bin" / "java").write_text(f"#!/bin/sh\necho \"$@\" >> {told}\n")
    (java / "bin" / "java").chmod(0o755)
    done = started("-c", PROGRAM, str(stored.root), str(tmp_path / "one"), java=java)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
    done = started("-c", COMMAND, "", str(stored.root), str(tmp_path / "two"), java=java)
    assert done.returncode == 0, done.stderr
    assert seen(tmp_path / "one") == seen(tmp_path / "two") == sorted(row[:4] for row in stored.rows)
    assert not told.exists()
    started("-c", COMMAND, "", "--spark", str(stored.root), str(tmp_path / "three"), java=java)
    assert told.read_text() == "-version\n"


def test_the_progress_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never more than there is, and all of it at the end."""
    monkeypatch.setattr(topics, "TASK_ROWS", 20)
    told: list[tuple[int, int, int]] = []
    stored = days_of_messages(tmp_path / "store")
    report = export(stored.root, tmp_path / "out", progress=lambda *each: told.append(each))
    assert report.rows == 300 and told[-1][:2] == (300, 300)
    assert all(0 <= done <= total and size >= 0 for done, total, size in told)
    with watched(tmp_path / "nowhere", 300, lambda *each: told.append(each)):
        pass
    assert told[-1][:2] == (300, 300), "tasks that have written nothing say nothing"


def test_the_first_failure_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a task's error comes as it is, and nothing begins behind it. Method: a task that fails while another one runs until
    it is told to stop, and more tasks than threads."""
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
    assert ended.is_set() and caught.value.queue == 1 and sorted(started) == [0, 1]


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
    kept += ["DefaultCluster_REPLY_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "OFFSET_MOVED_EVENT", "%LMQ%x", "RMQ_SYS_TRACE_TOPIC"]
    for topic in ("orders", *kept):
        stored.add(topic, 1)
        stored.send(topic, b"x")
    assert {file.topic for file in export_here(stored.root, tmp_path / "out").files} == {"orders"}
    assert export_here(stored.root, tmp_path / "out", "%DLQ%billing").rows == 1
    for topic in ("orders", *kept):
        stored.send(topic, b"x")
    assert {file.topic for file in export_here(stored.root, tmp_path / "out").files} == {"orders", "%DLQ%billing"}
