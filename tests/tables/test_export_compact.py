"""Goal: small files become large ones, and no reader sees a row twice or not at all. Method: a reader looks at every step that
changes the folder; random exports and merges beside a model; what the manifests say is compared with what is there. Kills at
each step: test_export_kills.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.errors import ExportBusy, ExportDamaged, ExportFailed, SettingError, UnknownTopic
from orbitmq.shm import crash_point
from orbitmq.store import atomic_file
from orbitmq.tables.columns import COLUMNS
from orbitmq.tables.export import compact as export_compact
from orbitmq.tables.export import run_log, swap
from orbitmq.tables.export.compact import LARGE, SMALL, Merge, compact, merges, portions
from orbitmq.tables.export.folder import OWN, ExportFolder
from orbitmq.tables.export.manifest import ExportFile, Range
from orbitmq.tables.export.parquet_file import ParquetFile
from tests.tables.exporting import add, cannot_exchange, days_of_messages, export_here, named, others_see, seen
from tests.tables.stored_topics import StoredTopics
from tests.waiting import WATCHDOG_S

ROOT = Path(__file__).resolve().parents[2]


def exported(folder: Path, runs: int = 3, **wish: object) -> tuple[StoredTopics, Path]:
    stored = days_of_messages(folder / "store")
    for _ in range(runs - 1):
        export_here(stored.root, folder / "out", **wish)
        for number in range(20):
            properties = {"color": "red"} if number % 2 else {}
            stored.send("a", b"%d" % number, tags=f"t{number % 3}", keys=f"k{number} l", properties=properties)
        add(stored, 60)
    export_here(stored.root, folder / "out", **wish)
    return stored, folder / "out"


def tables(out: Path) -> dict[str, pa.Table]:
    """The rows of each folder in an order of their own, with the types of their columns."""
    found = {}
    for folder in sorted({path.parent for path in out.rglob("part-*.parquet")}):
        whole = pa.concat_tables([pq.read_table(path, partitioning=None) for path in sorted(folder.iterdir())])
        found[str(folder.relative_to(out))] = whole.sort_by([("topic", "ascending"), ("physical_offset", "ascending")])
    return found


def content(out: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != "lock"}


@pytest.mark.parametrize("by", [["topic", "day"], ["day"], ["tags", "partition"]])
def test_the_same_rows_in_fewer_files(tmp_path: Path, by: list[str]) -> None:
    """With all columns, folders of several topics, and what is in the files' metadata."""
    stored, out = exported(tmp_path, by=by, columns=list(COLUMNS))
    before = tables(out) if "topic" not in by else None
    rows = seen(out) if "topic" in by else None
    files = len(list(out.rglob("part-*.parquet")))
    told: list[tuple[int, int, int]] = []
    report = compact(out, progress=lambda *each: told.append(each))
    left = sorted(out.rglob("part-*.parquet"))
    assert len(left) == files - len(report.before) + len(report.after) < files
    assert before is None or tables(out) == before
    assert rows is None or seen(out) == rows
    total = sum(file.rows for file in report.after)
    assert report.runs == (4,) and told[-1][:2] == (total, total) and total == sum(file.rows for file in report.before)
    assert not any((out / file.path).exists() for file in report.before)
    state = ExportFolder(out).state()
    assert {out / file.path for file in state.files} == set(left) and sum(file.rows for file in state.files) == len(stored.rows)
    for file in state.files:
        metadata = pq.read_metadata(out / file.path)
        assert metadata.metadata[b"orbitmq.topic"].decode() == file.topic and metadata.num_rows == file.rows
        ranges = [[part.queue, part.begin, part.end, part.rows] for part in file.offsets]
        assert json.loads(metadata.metadata[b"orbitmq.offsets"]) == ranges
        assert (out / file.path).stat().st_size == file.size
        column = metadata.row_group(0).column(metadata.schema.names.index("offset"))  # as ParquetFile encodes it
        assert "DELTA_BINARY_PACKED" in column.encodings and column.compression == "ZSTD"
    assert compact(out).runs == ()
    add(stored, 10)
    assert export_here(stored.root, out).run == 5
    assert len(ExportFolder(out).state().files) > len(left)


class Look:
    """Replaces the native side of crash points: calls a function at each of them."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self.passed: set[str] = set()

    def crash_point_pass(self, name: bytes) -> None:
        self.passed.add(name.decode())
        self._look()


@pytest.mark.parametrize("exchanges", [True, False])
def test_readers_find_each_row_once_at_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool) -> None:
    """In every folder. Without exchanges, one folder is missing for a moment."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})  # one at a time, so that the reader is alone
    stored, out = exported(tmp_path)
    wanted = seen(out)
    whole = True

    def look() -> None:
        nonlocal whole
        if exchanges or "export_swap_moved" not in eye.passed:
            assert seen(out) == named(out) == wanted
            assert others_see(out) == {len(wanted)}
        elif whole and (found := seen(out)) != wanted:
            whole = False
            assert set(found) < set(wanted) and len(set(found)) == len(found)

    eye = Look(look)
    monkeypatch.setattr(crash_point, "BUILT", True)
    monkeypatch.setattr(crash_point, "lib", eye)
    if not exchanges:
        monkeypatch.setattr(atomic_file, "exchange", cannot_exchange)
    compact(out)
    assert seen(out) == named(out) == wanted == sorted(row[:4] for row in stored.rows) and whole is exchanges
    assert {"export_folder_staged", "export_swap_prepared", "export_swap_swapped", "export_folder_cleaned"} <= eye.passed


STEPS = st.lists(st.sampled_from(["all", "a", "full a", "full", "compact", "compact a", "compact", "all"]), max_size=9)


@settings(max_examples=25)
@given(STEPS, st.integers(1, 3))
def test_beside_runs_of_all_kinds(steps: list[str], every: int) -> None:
    """Goal: what is exported is there once, and the manifests name just the files that are there."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_log, "EVERY", every)
        stored, out = exported(Path(name), 1)
        ends = {"a": len(stored.of("a")), "b": len(stored.of("b"))}
        for step in steps:
            add(stored, 30)
            topics = ["a"] if step.endswith("a") else []
            if step.startswith("compact"):
                compact(out, topics)
                assert all(len(list(folder.iterdir())) == 1 for folder in out.glob("topic=a/*"))
            else:
                export_here(stored.root, out, *topics, full=step.startswith("full"))
                ends.update({topic: len(stored.of(topic)) for topic in topics or ends})
            sent = {topic: [row for row in stored.rows if row[0] == topic][:end] for topic, end in ends.items()}
            assert seen(out) == named(out) == sorted(row[:4] for rows in sent.values() for row in rows), step
            files = [file.path for file in ExportFolder(out).state().files]
            assert sorted(files) == sorted(str(path.relative_to(out)) for path in out.rglob("part-*.parquet"))


SIZES = st.sampled_from([1, SMALL // 3, SMALL - 1, SMALL, LARGE])
FILES = st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from("ab"), SIZES), max_size=20)


@given(FILES)
def test_what_is_merged(sizes: list[tuple[str, str, int]]) -> None:
    files = [
        ExportFile(f"{folder}/{number}", topic, 1, size, (Range(number % 2, number, number + 1, 1),))
        for number, (folder, topic, size) in enumerate(sizes)
    ]
    found = merges(files, {"a"})
    merged = [file for each in found for file in each.files]
    assert len(set(merged)) == len(merged) and {file.topic for file in merged} <= {"a"}
    for each in found:
        assert len(each.files) > 1 and each.size <= LARGE and each.rows == len(each.files)
        assert {str(Path(file.path).parent) for file in each.files} == {each.folder}
        assert [*each.files] == sorted(each.files, key=files.index) and all(file.size < SMALL for file in each.files)
        assert sum(part.rows for part in each.offsets) == each.rows
        assert [part.queue for part in each.offsets] == sorted({part.queue for file in each.files for part in file.offsets})
    left: dict[str, list[int]] = {}
    for file in files:
        if file.topic == "a" and file not in merged and file.size < SMALL:
            left.setdefault(str(Path(file.path).parent), []).append(file.size)
    # What is left beside the next one would become too large together.
    assert all(len(own) <= 1 + len(found) for own in left.values())
    parts = list(portions(found))
    assert [each for part in parts for each in part] == found
    folders = [{each.folder for each in part} for part in parts]
    assert sum(map(len, folders)) == len(set().union(*folders))


def test_several_runs_if_there_is_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And row groups that are limited: a file of every two."""
    monkeypatch.setattr(export_compact, "AT_ONCE", 1)
    monkeypatch.setattr(export_compact, "GROUP_ROWS", 20)
    stored, out = exported(tmp_path)
    told: list[tuple[int, int, int]] = []
    report = compact(out, progress=lambda *each: told.append(each))
    assert len(report.runs) == len({Path(file.path).parent for file in report.after}) > 1
    assert seen(out) == named(out) == sorted(row[:4] for row in stored.rows)
    total = sum(file.rows for file in report.after)
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told) and told[-1][:2] == (total, total)
    [file, *_] = sorted(report.after, key=lambda file: -file.rows)
    groups = pq.read_metadata(out / file.path)
    assert groups.num_row_groups > 1


def test_not_beside_a_run(tmp_path: Path) -> None:
    _, out = exported(tmp_path)
    other = ExportFolder(out)
    other.lock()
    before = content(out)
    with pytest.raises(ExportBusy, match="another export is at work"):
        compact(out)
    assert content(out) == before
    other.unlock()
    assert compact(out).runs == (4,)


def test_what_is_wrong(tmp_path: Path) -> None:
    """Nothing is changed then, and the next export goes on."""
    with pytest.raises(SettingError, match="no export has written there"):
        compact(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    stored, out = exported(tmp_path)
    with pytest.raises(UnknownTopic, match="it has a, b"):
        compact(out, ["c"])
    victim = out / ExportFolder(out).runs()[-1].files[0].path
    whole = victim.read_bytes()
    before = content(out)
    damages: list[tuple[bytes | None, str]] = [(whole[:-30], "cannot compact"), (None, "No such file")]
    other = victim.with_name("other")
    pq.write_table(pa.table({"value": [b"x"]}), other)
    damages.append((other.read_bytes(), "it has 1 rows, and its manifest says"))
    count = pq.read_metadata(victim).num_rows
    pq.write_table(pa.table({"value": [b"x"] * count}), other)
    damages.append((other.read_bytes(), "its columns differ"))
    other.unlink()
    for damage, why in damages:
        victim.unlink() if damage is None else victim.write_bytes(damage)
        with pytest.raises(ExportDamaged, match=why) as caught:
            compact(out)
        assert caught.value.path == str(victim)
        victim.write_bytes(whole)
        assert content(out) == before and not list((out / OWN / "staging").iterdir())
    assert compact(out).runs == (4,)
    assert seen(out) == sorted(row[:4] for row in stored.rows)


def test_a_row_that_gets_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: no file goes before the others are known to have its rows. Method: a merged file lacks a row, or a file."""
    stored, out = exported(tmp_path)
    merge = export_compact.merged

    def lose(root: Path, each: Merge, *rest: Any) -> ExportFile | None:
        return merge(root, Merge(each.folder, each.topic, each.files[1:]), *rest)

    write = ParquetFile.write
    with monkeypatch.context() as patched:
        patched.setattr(ParquetFile, "write", lambda file, rows: write(file, rows.slice(1)))
        with pytest.raises(ExportDamaged, match="the merged file has 91 rows, and the others had 92"):
            compact(out)
    monkeypatch.setattr(export_compact, "merged", lose)
    with pytest.raises(ExportDamaged, match="the merged file has 42 rows, and the others had 92"):
        compact(out)
    assert seen(out) == named(out) == sorted(row[:4] for row in stored.rows)


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored, out = exported(tmp_path)
    before = content(out)

    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device", str(folder))

    with monkeypatch.context() as patch:
        patch.setattr(atomic_file, "sync_folder", full)
        with pytest.raises(ExportFailed, match="cannot compact") as caught:
            compact(out)
    assert caught.value.errno == 28 and content(out) == before
    assert seen(out) == named(out) == sorted(row[:4] for row in stored.rows)


def test_what_others_keep_in_the_folders(tmp_path: Path) -> None:
    """Files stay where they are, and folders of others are left alone."""
    stored, out = exported(tmp_path)
    folders = sorted({(out / file.path).parent for file in ExportFolder(out).state().files})
    for folder in folders:
        (folder / "_SUCCESS").write_text("x")
    busy = [folder for folder in folders if len(list(folder.glob("part-*"))) > 1]
    (busy[0] / "own").mkdir()
    busy[0].chmod(0o750)
    busy[1].chmod(0o750)
    compact(out)
    assert all((folder / "_SUCCESS").read_text() == "x" for folder in folders)
    counts = [len(list(folder.glob("part-*"))) for folder in busy]
    assert counts[0] > 1 and set(counts[1:]) == {1} and busy[1].stat().st_mode & 0o777 == 0o750
    assert seen(out) == named(out) == sorted(row[:4] for row in stored.rows)


def test_earlier_versions_refuse_it(tmp_path: Path) -> None:
    """They would count files that are gone: they know version 1 alone."""
    _, out = exported(tmp_path)
    compact(out)
    versions = [json.loads(path.read_bytes())["version"] for path in sorted((out / OWN / "runs").iterdir())]
    assert versions == [1, 1, 1, 2]


def test_the_command(tmp_path: Path) -> None:
    stored, out = exported(tmp_path)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "orbitmq.cli.main", "export", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=WATCHDOG_S)

    done = run("--compact", str(out), "a", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["runs"] == [4] and told["files_before"] > told["files"] > 0 and told["out"] == str(out)
    done = run("--compact", str(out))
    assert "merged" in done.stdout and "into" in done.stdout and "compact: " in done.stderr, done.stderr
    assert "no small files to merge" in run("--compact", str(out)).stdout
    assert run("--compact", str(out), "--full").returncode == run("--compact", str(out), "--show", str(out)).returncode == 2
    assert seen(out) == named(out) == sorted(row[:4] for row in stored.rows)


def test_files_that_are_nowhere(tmp_path: Path) -> None:
    """Somebody has removed the staging of a run that was killed."""
    staged, visible = tmp_path / "staging" / "00000", tmp_path / "day=1"
    for folder in (staged, visible):
        folder.mkdir(parents=True)
    (visible / "old").write_text("old")
    assert not swap.swap(visible, staged, "new") and (visible / "old").exists()
    (staged / "new").write_text("new")
    assert swap.swap(visible, staged, "new") and [path.name for path in visible.iterdir()] == ["new"]
    assert swap.swap(visible, staged, "new") and [path.name for path in visible.iterdir()] == ["new"]  # done again


def test_offsets_of_merged_files() -> None:
    files = (
        ExportFile("x/1", "a", 5, 1, (Range(0, 3, 9, 4), Range(1, 0, 1, 1))),
        ExportFile("x/2", "a", 3, 1, (Range(0, 9, 12, 3),)),
    )
    assert Merge("x", "a", files).offsets == [Range(0, 3, 12, 7), Range(1, 0, 1, 1)]
