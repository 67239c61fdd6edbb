"""Goal: an export that is killed anywhere has lost nothing and doubled nothing: readers see whole files in the meantime, and
after the next run every message once.

Method: SIGKILL at each step that changes the folder (crash points), once early, once later.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.tables.export.compact import compact
from orbitmq.tables.export.folder import OWN
from tests.tables.exporting import add, days_of_messages, export_here, named, seen
from tests.tables.stored_topics import StoredTopics
from tests.waiting import WATCHDOG_S

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("tables/export/folder.py", "tables/export/run_log.py", "tables/export/parquet_file.py", "tables/export/swap.py")
POINTS = [point for source in SOURCES for point in re.findall(r'crash_point\("(\w+)"\)', (ROOT / source).read_text())] + [
    "atomic_file_written",
    "atomic_file_renamed",
]
OF_SWAP = {"export_swap_prepared", "export_swap_moved", "export_swap_swapped"}  # test_killed_while_files_are_merged
OF_CHECKPOINT = {"export_run_log_summed"}
OF_FULL = {"export_folder_removed", "export_folder_dropped"}
LATER = {"export_folder_renamed": 3, "export_parquet_file_synced": 4, "atomic_file_written": 2, "atomic_file_renamed": 2}


@pytest.fixture
def stored(tmp_path: Path) -> StoredTopics:
    return days_of_messages(tmp_path / "store")


def killed(stored: StoredTopics, out: Path, point: str, passage: int, *how: str) -> None:
    command = [sys.executable, "-m", "tests.tables.exporting", str(stored.root), str(out), point, str(passage), *how]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=WATCHDOG_S)
    assert done.returncode == -signal.SIGKILL, (done.stdout, done.stderr)


def check_meanwhile(out: Path, stored: StoredTopics) -> None:
    """Nothing twice, nothing that was not sent."""
    found = seen(out)
    assert len(set(found)) == len(found)
    assert set(found) <= {row[:4] for row in stored.rows}


@pytest.mark.parametrize(("point", "passage"), [*((point, 1) for point in POINTS if point not in OF_SWAP), *LATER.items()])
def test_killed_at_every_step(tmp_path: Path, stored: StoredTopics, point: str, passage: int) -> None:
    out = tmp_path / "out"
    export_here(stored.root, out)
    before = seen(out)
    add(stored, 200)
    full = ["full"] if point in OF_FULL else []
    killed(stored, out, point, passage, *(["checkpoint"] if point in OF_CHECKPOINT else full))
    check_meanwhile(out, stored)
    assert full or set(before) <= set(seen(out))
    add(stored, 50)
    report = export_here(stored.root, out)
    assert report.settled in (0, 200, 500)
    assert seen(out) == sorted(row[:4] for row in stored.rows)
    assert export_here(stored.root, out).run is None
    assert not list((out / OWN / "staging").iterdir())


@pytest.mark.parametrize("point", ["export_run_log_summed", "atomic_file_written", "atomic_file_renamed"])
def test_killed_at_a_checkpoint(tmp_path: Path, stored: StoredTopics, point: str) -> None:
    """The run before has left a checkpoint, and this one is killed while it writes the next: its first file of all."""
    out = tmp_path / "out"
    for _ in range(3):
        export_here(stored.root, out)
        add(stored, 20)
    checkpoint = out / OWN / "checkpoint"
    killed(stored, out, "export_folder_opened", 1, "checkpoint")
    first = checkpoint.read_bytes()
    export_here(stored.root, out)
    add(stored, 20)
    killed(stored, out, point, 1, "checkpoint")
    assert (checkpoint.read_bytes() != first) is (point == "atomic_file_renamed")
    assert checkpoint.with_name("checkpoint.tmp").exists() is (point == "atomic_file_written")
    export_here(stored.root, out)
    assert seen(out) == sorted(row[:4] for row in stored.rows)
    assert not checkpoint.with_name("checkpoint.tmp").exists()


PASSED = [point for point in POINTS if point not in {*OF_FULL, *OF_CHECKPOINT, "export_folder_renamed", "export_swap_moved"}]
MERGES = [(point, passage, "compact") for point in PASSED for passage in (1, *((2,) if point in OF_SWAP else ()))]
MERGES += [("atomic_file_written", 2, "compact"), ("atomic_file_renamed", 2, "compact")]
MERGES += [(point, passage, "move") for point in ("export_swap_moved", "export_swap_swapped") for passage in (1, 2)]


@pytest.mark.parametrize(("point", "passage", "how"), MERGES)
def test_killed_while_files_are_merged(tmp_path: Path, stored: StoredTopics, point: str, passage: int, how: str) -> None:
    """Whoever reads the folder finds each row once, before and after the next run, and whoever reads the manifests, too."""
    out = tmp_path / "out"
    for _ in range(3):
        export_here(stored.root, out)
        add(stored, 60)
    export_here(stored.root, out)
    wanted = sorted(row[:4] for row in stored.rows)
    killed(stored, out, point, passage, how)
    if point == "export_swap_moved":  # the folder between two names is not there
        assert set(seen(out)) < set(wanted)
    else:
        assert seen(out) == named(out) == wanted
    add(stored, 50)
    assert export_here(stored.root, out).settled == 0
    assert seen(out) == named(out) == sorted(row[:4] for row in stored.rows)
    compact(out)
    assert seen(out) == named(out) == sorted(row[:4] for row in stored.rows)
    assert not list((out / OWN / "staging").iterdir()) and compact(out).runs == ()
