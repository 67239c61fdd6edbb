"""Goal: each run adds what is new, once, and refuses what it cannot add. Method: runs over stores made by hand, their tasks in
this process; tables/export/account.py compares what they wrote with what they were to write."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orbitmq.errors import ExportBusy, ExportDamaged, ExportDiffers, OffsetOutOfRange, SettingError, UnknownTopic
from orbitmq.tables.export import task as export_task
from orbitmq.tables.export.folder import ExportFolder
from orbitmq.tables.export.partition import divided, folder
from tests.tables.exporting import Place, export_here, seen
from tests.tables.stored_topics import StoredTopics

DAY_MS = 86_400_000
ROOT = Path(__file__).resolve().parents[2]


def filled(root: Path, *topics: str, count: int = 300) -> StoredTopics:
    stored = StoredTopics(root)
    for topic in topics:
        stored.add(topic, 2)
    add(stored, count, *topics)
    return stored


def add(stored: StoredTopics, count: int, *topics: str) -> None:
    """A message moves the store's clock 10 minutes forward."""
    for _ in range(count):
        number = len(stored.rows)
        for topic in topics:
            tags = None if number % 3 else f"t/{number % 4}"
            stored.send(topic, b"%d" % number * (number % 9), tags=tags, store_ms=1_700_000_000_000 + number * 600_000)


def wanted(stored: StoredTopics, *topics: str) -> list[Place]:
    return [row[:4] for row in stored.of(*topics)]


def test_runs_add_what_is_new(tmp_path: Path) -> None:
    """Goal: nothing twice, nothing missing, over topics that begin late, and the manifest says where each message is."""
    stored = filled(tmp_path / "store", "a", "b")
    out = tmp_path / "out"
    assert export_here(stored.root, out, "a").rows == 300
    assert seen(out) == wanted(stored, "a")
    assert export_here(stored.root, out, "a").run is None
    add(stored, 50, "a")
    stored.add("c", 1)
    add(stored, 10, "c")
    report = export_here(stored.root, out)
    assert (report.run, report.rows) == (2, 360)
    assert seen(out) == wanted(stored, "a", "b", "c")
    assert report.size == sum((out / file.path).stat().st_size for file in report.files)
    for run in ExportFolder(out).runs():
        for file in run.files:
            table = pq.read_table(out / file.path, partitioning=None)
            metadata = pq.read_metadata(out / file.path).metadata
            assert metadata[b"orbitmq.topic"].decode() == file.topic
            told = [[part.queue, part.begin, part.end, part.rows] for part in file.offsets]
            assert json.loads(metadata[b"orbitmq.offsets"]) == told
            for queue, begin, end, rows in told:
                offsets = [each["offset"] for each in table.to_pylist() if each["partition"] == queue]
                assert (min(offsets), max(offsets) + 1, len(offsets)) == (begin, end, rows)
            [day] = {each["timestamp"].strftime("%Y-%m-%d") for each in table.to_pylist()}
            assert f"/day={day}/" in file.path


@pytest.mark.parametrize("by", [["topic"], ["day", "tags"], ["tags", "topic", "partition"], ["topic", "hour"]])
def test_by_other_columns(tmp_path: Path, by: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Few files may be open at once, and little may wait: the limits of a task are reached all the time."""
    monkeypatch.setattr(export_task, "OPEN", 3)
    monkeypatch.setattr(export_task, "BUFFER", 1000)
    stored = filled(tmp_path / "store", "a", "b")
    export_here(stored.root, tmp_path / "out", by=by)
    assert seen(tmp_path / "out") == wanted(stored, "a", "b")
    add(stored, 30, "b")
    export_here(stored.root, tmp_path / "out")  # as before
    assert seen(tmp_path / "out") == wanted(stored, "a", "b")
    if "tags" in by:
        names = {part for path in (tmp_path / "out").rglob("*.parquet") for part in path.parts if part.startswith("tags=")}
        assert names == {"tags=t%2F0", "tags=t%2F1", "tags=t%2F2", "tags=t%2F3", "tags=__HIVE_DEFAULT_PARTITION__"}


def test_a_task_holds_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: what waits to be written is limited. Method: every file's buffer is checked after every batch."""
    monkeypatch.setattr(export_task, "BUFFER", 100_000)
    monkeypatch.setattr(export_task, "FILE_BYTES", 4_000)
    most = 0
    add_rows = export_task.Task._add

    def look(self: export_task.Task, topic: str, key: tuple[str | None, ...], rows: pa.RecordBatch) -> None:
        nonlocal most
        add_rows(self, topic, key, rows)
        held = sum(file.waiting_bytes for file in self._open.values())
        assert held == self._waiting
        most = max(most, held)

    monkeypatch.setattr(export_task.Task, "_add", look)
    stored = StoredTopics(tmp_path / "store")
    stored.add("a", 2)
    for number in range(400):
        stored.send("a", b"%d" % number * 300, store_ms=1_700_000_000_000 + number * DAY_MS // 10)
    export_here(stored.root, tmp_path / "out")
    assert seen(tmp_path / "out") == wanted(stored, "a")
    assert 0 < most <= 100_000


def test_rows_go_to_their_folders() -> None:
    """Goal: the order is kept, nothing lost, null is a value of its own."""
    tags = [None, "x", "y", "x", None, "y"]
    batch = pa.RecordBatch.from_pydict({"tags": tags, "partition": pa.array([0, 0, 0, 1, 1, 0], pa.int32()), "n": range(6)})
    found = {key: part.column("n").to_pylist() for key, part in divided(batch, "a", ["topic", "tags", "partition"])}
    assert found == {
        ("a", None, "0"): [0],
        ("a", "x", "0"): [1],
        ("a", "y", "0"): [2, 5],
        ("a", "x", "1"): [3],
        ("a", None, "1"): [4],
    }
    with pytest.raises(SettingError, match="name of 305 bytes"):
        folder(["tags"], ("x" * 300,))


def test_full_begins_again(tmp_path: Path) -> None:
    stored = filled(tmp_path / "store", "a", "b", count=40)
    out = tmp_path / "out"
    export_here(stored.root, out)
    first = {path for path in out.rglob("*.parquet")}
    add(stored, 10, "a", "b")
    assert export_here(stored.root, out, "a", full=True).rows == 50
    assert {path for path in first if path.exists()} == {path for path in first if "topic=b" in str(path)}
    assert export_here(stored.root, out).rows == 10
    with pytest.raises(ExportDiffers, match="with by topic: its earlier files were exported with by topic,day"):
        export_here(stored.root, out, "a", by=["topic"], full=True)
    assert export_here(stored.root, out, by=["topic"], columns=["value", "partition", "offset"], full=True).rows == 100
    assert seen(out) == wanted(stored, "a", "b")
    assert len(ExportFolder(out).runs()) == 1
    assert export_here(stored.root, out).run is None


def test_full_of_a_topic_that_has_become_empty(tmp_path: Path) -> None:
    """Goal: what one run took out stays out after another one has replaced the rest. Method: each of two topics begins again,
    the first with nothing."""
    stored = filled(tmp_path / "store", "a", "b", count=4)
    out = tmp_path / "out"
    export_here(stored.root, out)
    shutil.rmtree(stored.root / "consumequeue" / "a")
    for topic in ("a", "b"):
        export_here(stored.root, out, topic, full=True)
    assert {file.topic for file in ExportFolder(out).state().files} == {"b"} and seen(out) == wanted(stored, "b")


def test_another_shape_is_refused(tmp_path: Path) -> None:
    stored = filled(tmp_path / "store", "a", count=4)
    out = tmp_path / "out"
    export_here(stored.root, out, columns=["value", "topic"])
    with pytest.raises(ExportDiffers, match="earlier files were exported with columns value,topic") as caught:
        export_here(stored.root, out, columns=["value"])
    assert "full=True" in str(caught.value)
    with pytest.raises(SettingError, match="no column is left"):
        export_here(stored.root, tmp_path / "none", columns=["topic"])
    with pytest.raises(SettingError, match=r"by 'value'.*day, hour, topic"):
        export_here(stored.root, out, by=["value"])
    with pytest.raises(SettingError, match="there is no such column"):
        export_here(stored.root, out, columns=["body"])
    with pytest.raises(UnknownTopic, match="it has a"):
        export_here(stored.root, out, "b")
    with pytest.raises(SettingError, match="lies in the store"):
        export_here(stored.root, stored.root / "out")
    with pytest.raises(SettingError, match="it is a URL"):
        ExportFolder("s3://bucket/out")


def remade(tmp_path: Path, count: int) -> StoredTopics:
    """A store that was exported, then made anew in the same place."""
    stored = filled(tmp_path / "store", "a", "b", count=100)
    export_here(stored.root, tmp_path / "out")
    shutil.rmtree(stored.root)
    return filled_later(stored.root, count)


def filled_later(root: Path, count: int) -> StoredTopics:
    stored = StoredTopics(root)
    for topic in ("a", "b"):
        stored.add(topic, 2)
    for number in range(count):
        for topic in ("a", "b"):
            stored.send(topic, b"%d" % number * (number % 9), store_ms=1_800_000_000_000 + number * 600_000)
    return stored


@pytest.mark.parametrize("count", [1, 100, 300])
def test_another_store_is_refused(tmp_path: Path, count: int) -> None:
    """Whatever the lengths of its queues are."""
    stored = remade(tmp_path, count)
    before = seen(tmp_path / "out")
    with pytest.raises(ExportDiffers, match="another store's messages"):
        export_here(stored.root, tmp_path / "out")
    assert seen(tmp_path / "out") == before
    export_here(stored.root, tmp_path / "out", full=True)
    assert seen(tmp_path / "out") == wanted(stored, "a", "b")


@pytest.mark.parametrize("count", [10, 100, 300])
def test_a_topic_made_again_is_refused(tmp_path: Path, count: int) -> None:
    stored = filled(tmp_path / "store", "a", "b", count=100)
    out = tmp_path / "out"
    export_here(stored.root, out)
    shutil.rmtree(stored.root / "consumequeue" / "a")
    stored._store.next = {slot: end for slot, end in stored._store.next.items() if slot >= 2}
    stored._store._writers.clear()
    stored.rows = stored.of("b")
    add(stored, count, "a")
    assert export_here(stored.root, out, "b").run is None
    with pytest.raises(ExportDiffers, match=r"topic 'a', queue 0.*deleted and made again"):
        export_here(stored.root, out)
    assert export_here(stored.root, out, "a", full=True).rows == count
    assert seen(out) == wanted(stored, "a", "b")


def test_a_moved_store_goes_on(tmp_path: Path) -> None:
    stored = filled(tmp_path / "store", "a", count=10)
    export_here(stored.root, tmp_path / "out")
    add(stored, 10, "a")
    shutil.copytree(stored.root, tmp_path / "copy")
    assert export_here(tmp_path / "copy", tmp_path / "out").rows == 10
    assert seen(tmp_path / "out") == wanted(stored, "a")


def test_what_retention_took_is_told(tmp_path: Path) -> None:
    stored = filled(tmp_path / "store", "a", count=20)
    out = tmp_path / "out"
    export_here(stored.root, out)
    before = seen(out)
    for number in range(200):
        stored.send("a", b"%d" % number + bytes(1000))
    (stored.root / "commitlog" / f"{0:020d}").unlink()
    left = [row[:4] for row in stored.of("a") if row[8] >= 1 << 16]
    minimum = min(row[2] for row in left if row[1] == 0)
    with pytest.raises(OffsetOutOfRange, match=f"has removed the offsets 10 to {minimum - 1} of queue 0") as caught:
        export_here(stored.root, out)
    assert (caught.value.offset, caught.value.minimum, caught.value.maximum) == (10, minimum, 110)
    assert caught.value.removed == 200 - len(left) and "allow_gaps=True" in str(caught.value)
    report = export_here(stored.root, out, allow_gaps=True)
    assert next((gap.queue, gap.begin, gap.end) for gap in report.gaps) == (0, 10, minimum)
    assert seen(out) == sorted([*before, *left])
    assert export_here(stored.root, out).run is None
    # Everything is gone, and nothing has come.
    add(stored, 5, "a")
    shutil.rmtree(stored.root / "commitlog")
    (stored.root / "commitlog").mkdir()
    with pytest.raises(ExportDiffers):
        export_here(stored.root, out)


def test_a_gap_while_the_tasks_run(tmp_path: Path) -> None:
    """Retention comes after the planning: the run fails and leaves nothing, or continues and says so."""
    stored = StoredTopics(tmp_path / "store")
    stored.add("a", 1)
    for number in range(200):
        stored.send("a", b"%d" % number + bytes(1000))
    from orbitmq.tables.export.here import tasks_here
    from orbitmq.tables.export.plan import Wish
    from orbitmq.tables.export.topics import run_export

    shutil.copytree(stored.root, tmp_path / "copy")

    def late(job: object, tasks: object) -> object:
        (tmp_path / "copy" / "commitlog" / f"{0:020d}").unlink(missing_ok=True)
        return tasks_here(job, tasks)  # type: ignore[arg-type]

    with pytest.raises(OffsetOutOfRange, match="retention has removed it"):
        run_export(tmp_path / "copy", tmp_path / "out", Wish.of(), late)  # type: ignore[arg-type]
    assert seen(tmp_path / "out") == [] and not list((tmp_path / "out/_orbitmq/staging").iterdir())
    shutil.copytree(stored.root, tmp_path / "copy", dirs_exist_ok=True)
    report = run_export(tmp_path / "copy", tmp_path / "out", Wish.of(allow_gaps=True), late)  # type: ignore[arg-type]
    left = [row[:4] for row in stored.of("a") if row[8] >= 1 << 16]
    assert seen(tmp_path / "out") == left
    assert [gap.messages for gap in report.gaps] == [200 - len(left)]


def test_two_at_once(tmp_path: Path) -> None:
    stored = filled(tmp_path / "store", "a", count=3)
    first = ExportFolder(tmp_path / "out")
    first.lock()
    with pytest.raises(ExportBusy, match=r"another export is at work there, process \d+ on "):
        export_here(stored.root, tmp_path / "out")
    first.unlock()
    assert export_here(stored.root, tmp_path / "out").rows == 3


def test_what_others_left_there(tmp_path: Path) -> None:
    stored = filled(tmp_path / "store", "a", count=3)
    out = tmp_path / "out"
    (out / "topic=a").mkdir(parents=True)
    pq.write_table(pa.table({"value": [1]}), out / "topic=a" / "part-0.parquet")
    with pytest.raises(ExportDiffers, match=r"part-0\.parquet"):
        export_here(stored.root, out)
    shutil.rmtree(out)
    export_here(stored.root, out)
    [manifest] = (out / "_orbitmq" / "runs").glob("*.json")
    content = manifest.read_text()
    manifest.write_text(content.replace('"version":1', '"version":7'))
    with pytest.raises(ExportDamaged, match="of version 7, and 2 is known"):
        export_here(stored.root, out)
    manifest.write_text(content[:-20])
    with pytest.raises(ExportDamaged, match="is not what an export writes"):
        export_here(stored.root, out)


def test_a_record_that_a_repair_gave_up(tmp_path: Path) -> None:
    """A stand-in is no message, and its place is no gap."""
    stored = StoredTopics(tmp_path / "store")
    stored.add("a", 1)
    for number in range(5):
        stored.send("a", b"%d" % number * 40)
    stored._store.write(stored.rows[2][8] + 76, bytes.fromhex("4f524249544c4f53"))
    report = export_here(stored.root, tmp_path / "out")
    assert [place[2] for place in seen(tmp_path / "out")] == [0, 1, 3, 4] and report.gaps == ()


SMALL = """
import sys
from pathlib import Path
from orbitmq.errors import ExportFailed
from tests.tables.exporting import export_here, seen
store, disk = Path(sys.argv[1]), Path(sys.argv[2])
filling = disk / "filling"
filling.write_bytes(bytes(3_000_000))
try:
    export_here(store, disk / "out")
except ExportFailed as error:
    assert error.errno == 28 and "make room" in str(error), error
else:
    raise AssertionError("it went")
assert seen(disk / "out") == []
filling.unlink()
export_here(store, disk / "out")
print(len(seen(disk / "out")))
"""


def test_a_full_disk(tmp_path: Path) -> None:
    """Goal: the error says so, and the next run continues. Method: a file system of its own."""
    import random

    stored = StoredTopics(tmp_path / "store")
    stored.add("a", 1)
    bodies = random.Random(1)
    for _ in range(150):
        stored.send("a", bodies.randbytes(20_000))
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=5m tmpfs {disk}"
    if subprocess.run([*command, mount], capture_output=True, check=False).returncode:
        pytest.skip("this kernel lets nobody mount a file system of their own")
    inside = f'{mount} && exec "$0" "$@"'
    done = subprocess.run(
        [*command, inside, sys.executable, "-c", SMALL, str(stored.root), str(disk)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert (done.returncode, done.stdout) == (0, "150\n"), done.stdout + done.stderr
