"""Goal: what an export wrote is shown with its gaps and its unfinished end, as text and as JSON lines. Method: runs made by
hand. The command itself: tests/spark/test_export.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbitmq.cli.export_listing import RANGES_MOST, show_compacted, show_export, show_report
from orbitmq.errors import SettingError
from orbitmq.tables.export.compact import CompactReport
from orbitmq.tables.export.folder import OWN
from orbitmq.tables.export.manifest import COMPLETE, PENDING, End, ExportFile, Gap, Range, Run
from orbitmq.tables.export.topics import ExportReport

RANGES = tuple(Range(queue, 10, 20, 10 - (queue == 1)) for queue in range(RANGES_MOST + 2))
FILES = (
    ExportFile("topic=a/1.parquet", "[a]", 59, 1536, RANGES),
    ExportFile("topic=b/1.parquet", "b", 1, 512, (Range(0, 0, 1, 1),)),
)
GAP = Gap("[a]", 3, 5, 9, 4)


def written(folder: Path, state: str) -> Path:
    runs = folder / OWN / "runs"
    runs.mkdir(parents=True)
    ends = {"[a]": {0: End(20, None)}, "b": {0: End(1, None)}}
    run = Run(1, state, "2024-05-01T12:00:00.5+00:00", "/store", ("day",), (), (), "", ends, (GAP,), FILES)
    (runs / "000001.json").write_bytes(run.encoded())
    return folder


@pytest.mark.parametrize("state", [COMPLETE, PENDING])
def test_what_is_there(tmp_path: Path, state: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_export(written(tmp_path, state), as_json=False)
    told, warned = capsys.readouterr()
    assert "60 messages of 2 topics in 2 files" in told and "2.0 KiB; by day; run 1 of 2024-05-01T12:00:00 UTC" in told
    assert "0: 10 to 19; 1: 10 to 19 (9 of them)" in told and "and 2 queues more" in told and "/store" in told
    assert "[a], queue 3, offsets 5 to 8: retention removed 4 messages" in warned
    assert ("the last run was killed" in warned) is (state == PENDING)


def test_json_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_export(written(tmp_path, COMPLETE), as_json=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["type"] for line in lines] == ["file", "file", "gap"]
    assert lines[0]["bytes"] == 1536 and len(lines[0]["offsets"]) == len(RANGES) and lines[2]["messages"] == 4


def test_no_export_is_there(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no export has written there") as caught:
        show_export(tmp_path, as_json=False)
    assert caught.value.name == "show"


def test_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    report = ExportReport(Path("/out"), 7, FILES, (GAP,), 3, 2.0)
    show_report(report, as_json=False)
    told, warned = capsys.readouterr()
    assert "3 messages of a run that was killed" in told and "[a]: 59 messages, 1.5 KiB in 1 file" in told
    assert "run 7" in told and "60 messages, 2.0 KiB, 2.0 s, 30 rows/s: /out" in told and "missing" in warned
    show_report(report, as_json=True)
    *_, last = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert last == {"type": "run", "run": 7, "rows": 60, "bytes": 2048, "files": 2, "settled": 3, "seconds": 2.0, "out": "/out"}


def test_merged_files(capsys: pytest.CaptureFixture[str]) -> None:
    report = CompactReport(Path("/out"), (7, 8), FILES, FILES[:1], 2.0)
    show_compacted(report, as_json=False)
    assert "merged  2 files, 2.0 KiB, into 1 file, 1.5 KiB; 2.0 s: /out" in capsys.readouterr().out
    show_compacted(report, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["type"] == "compact" and (told["runs"], told["rows"]) == ([7, 8], 59)
    assert (told["files_before"], told["files"], told["bytes_before"], told["bytes"]) == (2, 1, 2048, 1536)
    show_compacted(CompactReport(Path("/out"), (), (), (), 0.0), as_json=False)
    assert capsys.readouterr().out == "no small files to merge in /out\n"


def test_nothing_new(capsys: pytest.CaptureFixture[str]) -> None:
    show_report(ExportReport(Path("/out"), None, (), (), 0, 0.0), as_json=False)
    assert capsys.readouterr().out == "nothing new for /out\n"
