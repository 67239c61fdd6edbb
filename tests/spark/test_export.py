"""Goal: Parquet holds what the topic holds, and says where it came from. Method: exports of a store made by hand are read
back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orbitmq.errors import SettingError, UnknownTopic
from orbitmq.spark import export_command, session
from orbitmq.spark.export import export_topic, topics_with_messages
from tests.spark.stored_topics import StoredTopics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredTopics:
    stored = StoredTopics(tmp_path_factory.mktemp("export") / "store")
    for topic in ("2024", "%RETRY%group", "empty"):
        stored.add(topic, 2)
    for number in range(200):
        stored.send(("2024", "%RETRY%group")[number % 2], b"%d" % number, keys=f"k{number}")
    return stored


def test_exports_read_back(spark: SparkSession, stored: StoredTopics, tmp_path: Path) -> None:
    assert topics_with_messages(stored.root) == ["%RETRY%group", "2024"]
    told: list[tuple[int, int]] = []

    def progress(done: int, tasks: int) -> None:
        told.append((done, tasks))

    for topic in topics_with_messages(stored.root):
        report = export_topic(stored.root, topic, tmp_path / "out", spark, progress=progress)
        assert (report.topic, report.rows, report.path.parent) == (topic, 100, tmp_path / "out")
        assert report.size > 0 and report.seconds > 0
    frame = spark.read.parquet(str(tmp_path / "out"))
    found = sorted((row.topic, row.partition, row.offset, bytes(row.value), row["keys"][0]) for row in frame.collect())
    assert found == sorted((row[0], row[1], row[2], row[3], (row[5] or [""])[0]) for row in stored.rows)
    assert all(0 <= done <= tasks for done, tasks in told)


def test_an_export_is_replaced_only_when_asked(spark: SparkSession, stored: StoredTopics, tmp_path: Path) -> None:
    assert export_topic(stored.root, "2024", tmp_path, spark, columns=["offset", "topic"]).rows == 100
    with pytest.raises(SettingError, match="exists"):
        export_topic(stored.root, "2024", tmp_path, spark)
    assert export_topic(stored.root, "2024", tmp_path, spark, overwrite=True).rows == 100
    assert "value" in spark.read.parquet(str(tmp_path / "topic=2024")).columns


def test_a_topic_without_messages(spark: SparkSession, stored: StoredTopics, tmp_path: Path) -> None:
    assert export_topic(stored.root, "empty", tmp_path, spark).rows == 0
    with pytest.raises(UnknownTopic, match="%RETRY%group, 2024, empty"):
        export_topic(stored.root, "order", tmp_path, spark)


def test_the_command_tells_a_mistake_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export_command.main([str(tmp_path), str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("spark_export: cannot read the store") and told.count("\n") == 1


@pytest.mark.parametrize("home", [None, "/nowhere"])
def test_without_java_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], home: str | None
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home:
        monkeypatch.setenv("JAVA_HOME", home)
    assert export_command.main([str(tmp_path), str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert "openjdk-17-jre-headless" in told and told.count("\n") == 1


def test_an_old_java_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SettingError, match=r"is Java 8.*17 or newer"):
        session.require_java()
