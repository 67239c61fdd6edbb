"""Goal: Parquet holds what the topics hold, as Spark and Arrow read it, and the command reports what it did. Method: exports of
stores made by hand, with Spark, are read back. Of cli/export.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orbitmq.cli.main import main
from orbitmq.errors import CorruptRecord, SettingError, UnknownTopic
from orbitmq.spark import session
from orbitmq.spark.export import export
from orbitmq.tables.columns import COLUMNS
from tests.tables.exporting import export_here, seen
from tests.tables.stored_topics import StoredTopics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.pyspark

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredTopics:
    stored = StoredTopics(tmp_path_factory.mktemp("export") / "store")
    for topic in ("2024", "%RETRY%group", "empty"):
        stored.add(topic, 2)
    for number in range(200):
        topic = ("2024", "%RETRY%group")[number % 2]
        keys = None if number % 7 == 0 else f"k{number} k"
        stored.send(topic, b"%d" % number, keys=keys, tags="t", store_ms=1_700_000_000_000 + number * 3_600_000)
    return stored


def test_a_topic_whose_name_means_null(spark: SparkSession, tmp_path: Path) -> None:
    """Spark and Hive give this name to the folder of rows without a value; a tag may have it too."""
    name = "__HIVE_DEFAULT_PARTITION__"
    stored = StoredTopics(tmp_path / "store")
    stored.add(name, 1)
    for tags in (name, None):
        stored.send(name, b"x", tags=tags)
    export(stored.root, tmp_path / "out", (), spark, by=["topic", "tags"])
    found = spark.read.parquet(str(tmp_path / "out")).select("topic", "tags", "offset").collect()
    assert sorted(map(tuple, found), key=lambda row: row[2]) == [(name, name, 0), (name, None, 1)]


@pytest.mark.oldest_pyspark("export")
def test_an_export_in_another_thread_leaves_the_session(spark: SparkSession, stored: StoredTopics, tmp_path: Path) -> None:
    """Goal: a session that the program has made itself is not stopped. Method: no session is active in a new thread."""
    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(export, stored.root, tmp_path / "out", ["2024"]).result()
    assert done.rows == 100
    assert spark.read.parquet(str(tmp_path / "out")).count() == 100


@pytest.mark.oldest_pyspark("session", "export")
def test_exports_read_back(spark: SparkSession, stored: StoredTopics, tmp_path: Path) -> None:
    """Goal: every column comes back as the data source gives it, in two runs. Method: both are read by Spark and compared."""
    told: list[tuple[int, int, int]] = []
    out = str(tmp_path / "out")
    names = list(COLUMNS)
    first = export(stored.root, out, ["2024"], spark, columns=names, progress=lambda *each: told.append(each))
    assert (first.rows, first.run, first.path) == (100, 1, tmp_path / "out")
    assert export(stored.root, out, (), spark).run is None  # a topic of the groups' own must be named
    second = export(stored.root, out, ["%RETRY%group"], spark)
    assert (second.rows, {file.topic for file in second.files}) == (100, {"%RETRY%group"})
    assert told[-1][:2] == (100, 100) and all(0 <= done <= total and size >= 0 for done, total, size in told)

    frame = spark.read.parquet(out)
    assert {*frame.columns} == {*names, "day"}
    options = {"path": str(stored.root), "subscribe": "2024,%RETRY%group", "columns": ",".join(names), "includeHeaders": "true"}
    # JSON, because maps have no order; bodies separately, because they are not text.
    same = ["to_json(struct(* except (value))) as rest", "cast(value as string) as body"]
    wanted = spark.read.format("orbitmq").options(**options).load().select(*names).selectExpr(*same)
    found = frame.select(*names).selectExpr(*same)
    assert found.count() == wanted.count() == 200
    for one, other in zip(sorted(map(tuple, found.collect())), sorted(map(tuple, wanted.collect())), strict=True):
        assert one == other
    days = (
        spark.read.parquet(out).selectExpr("cast(day as string)", "date_format(timestamp, 'yyyy-MM-dd')").distinct().collect()
    )
    assert len(days) == 10 and all(day == stored_on for day, stored_on in days)
    assert seen(tmp_path / "out") == sorted(row[:4] for row in stored.rows)


def test_begin_again(spark: SparkSession, stored: StoredTopics, tmp_path: Path) -> None:
    told: list[tuple[int, int, int]] = []
    report = export(
        stored.root, tmp_path, ["2024"], spark, columns=["offset", "topic"], progress=lambda *each: told.append(each)
    )
    assert (report.rows, told[-1][:2]) == (100, (100, 100)) and report.size > 0 and report.seconds > 0
    assert export(stored.root, tmp_path, ["2024"], spark).rows == 0
    assert export(stored.root, tmp_path, ["2024"], spark, columns=["value"], full=True).rows == 100
    assert {*spark.read.parquet(str(tmp_path)).columns} == {"value", "topic", "day"}
    assert export(stored.root, tmp_path / "none", ["empty"], spark).rows == 0
    with pytest.raises(UnknownTopic, match="%RETRY%group, 2024, empty"):
        export(stored.root, tmp_path, ["order"], spark)


@pytest.mark.oldest_pyspark("export")
def test_a_task_that_fails_says_why(spark: SparkSession, tmp_path: Path) -> None:
    """The error keeps its type on its way through Spark, and nothing is left."""
    stored = StoredTopics(tmp_path / "store")
    stored.add("t", 1)
    for _ in range(3):
        stored.send("t", b"body")
    stored.spoil(stored.rows[1][8])
    with pytest.raises(CorruptRecord, match=str(stored.rows[1][8])):
        export(stored.root, tmp_path / "out", (), spark)
    assert seen(tmp_path / "out") == [] and not list((tmp_path / "out/_orbitmq/staging").iterdir())


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["orbitmq", "export", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_what_is_there_is_listed(
    stored: StoredTopics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    report = export_here(stored.root, out, "2024", "%RETRY%group", "empty")
    assert command(monkeypatch, "--show", str(out)) == 0
    told = capsys.readouterr().out
    assert "200 messages of 2 topics in 20 files" in told and "topic=2024/day=2023-11-14/part-" in told and "0: 0 to" in told
    assert command(monkeypatch, "--show", str(out), "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["path"] for line in lines] == [file.path for file in report.files]
    assert sum(part["rows"] for line in lines for part in line["offsets"]) == 200
    assert command(monkeypatch, "--show", str(tmp_path / "none")) == 2
    assert "no export has written there" in capsys.readouterr().err
    assert command(monkeypatch, str(stored.root), str(out)) == 0
    assert "nothing new" in capsys.readouterr().out


def test_the_command_tells_a_mistake_in_one_line(
    stored: StoredTopics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, str(tmp_path), str(tmp_path / "out")) == 1
    assert capsys.readouterr().err.startswith("error: cannot read the store")
    assert not (tmp_path / "out").exists()
    assert command(monkeypatch, str(stored.root), str(tmp_path / "out"), "--by", "value") == 2
    assert "not one of the columns by which files can be put into folders" in capsys.readouterr().err
    assert command(monkeypatch, str(stored.root)) == 2


@pytest.mark.parametrize("home", [None, "/nowhere"])
def test_without_java_one_line_says_what_to_install(stored: StoredTopics, tmp_path: Path, home: str | None) -> None:
    """In a process of its own, because this one has a session already."""
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment.update({"PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])})
    if home:
        environment["JAVA_HOME"] = home
    arguments = [sys.executable, "-m", "orbitmq.cli.main", "export", "--spark", str(stored.root), str(tmp_path / "out")]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot start Spark") and "openjdk-17-jre-headless" in done.stderr
    assert done.stderr.count("\n") == 2


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Makes a script the Java that is found."""

    def made(script: str) -> None:
        java = tmp_path / "bin" / "java"
        java.parent.mkdir()
        java.write_text(f"#!/bin/sh\n{script}\n")
        java.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    return made


def test_an_old_java_is_refused(java: Callable[[str], None]) -> None:
    java("echo 'openjdk version \"1.8.0_402\"' >&2")
    with pytest.raises(SettingError, match=r"is Java 8.*17 or newer"):
        session.require_java()


def test_a_java_that_asks_something_is_not_waited_for(java: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for an answer, which nobody gives, nor for ever."""
    java("read answer || exec tail -f /dev/null")
    monkeypatch.setattr(session, "ANSWER_S", 0.5)
    with pytest.raises(SettingError, match=r"-version has not ended in 0.5 s"):
        session.require_java()
