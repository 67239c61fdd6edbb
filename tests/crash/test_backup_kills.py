"""Goal: a backup that is killed anywhere leaves the last one, or the new one, and nothing else that looks like a backup.
Run again it ends well.

Method: a backup of a store of several log files, which dies of SIGKILL at each crash point that it passes; once into a new
folder, and once over an earlier backup.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.store.backup import backup_note
from orbitmq.store.backup.backup import back_up
from orbitmq.store.layout import StoreLayout
from orbitmq.store.verify.verify import verify
from tests.crash import crash_build
from tests.crash.crash_plan import CrashPlan

SIZES = {"log_file_size": 64 << 10, "queue_file_units": 40, "index_slots": 61, "index_entries": 150}
PROGRAM = Path(__file__).with_name("backup_program.py")
ONLY_OVER_ANOTHER = {"backup_place_discarded"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    crash_build.build()
    folder = tmp_path_factory.mktemp("backups")
    with orbitmq.Broker(folder / "store", handlers=1, **SIZES) as broker:
        broker.create_topic("T", 2)
        with broker.producer() as producer:
            producer.send_batch("T", [bytes(300)] * 200, keys=[str(number) for number in range(200)])
            back_up(StoreLayout.at(folder / "store"), folder / "earlier")
            producer.send_batch("T", [bytes(300)] * 200, keys=[str(number) for number in range(200)])
    yield folder / "store"


def killed(store: Path, target: Path, plan: CrashPlan) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), str(store), str(target)]
    return subprocess.run(command, env=crash_build.environment(plan.path), capture_output=True, text=True, check=False)


def records(folder: Path) -> int | None:
    """How many records a whole backup has. None: there is none."""
    layout = StoreLayout.at(folder)
    if not folder.exists():
        return None
    assert backup_note.load(layout) is not None
    verdict = verify(layout, layout.settings(), lambda finding: None)
    assert verdict.whole, verdict.faults
    return verdict.records


@pytest.mark.parametrize("earlier", [None, 200])
def test_killed_at_every_point(store: Path, tmp_path: Path, earlier: int | None) -> None:
    plan = CrashPlan(tmp_path / "plan")
    target, partial = tmp_path / "backup", tmp_path / "backup.partial"
    passed = set()
    points = [point for point, part in crash_build.points().items() if part in crash_build.OF_BACKUP]
    for point in points:
        for folder in (target, partial):
            shutil.rmtree(folder, ignore_errors=True)
        if earlier is not None:
            shutil.copytree(store.with_name("earlier"), target)
        plan.arm(point)
        done = killed(store, target, plan)
        plan.disarm()
        if not plan.victim(point):
            assert done.returncode == 0, (point, done)
            continue
        assert done.returncode == -signal.SIGKILL, (point, done)
        passed.add(point)
        renamed = point in ("backup_place_renamed", "backup_place_discarded")
        assert records(target) == (400 if renamed else earlier), point
        # Just before and just after the exchange of names, the folder beside it holds a whole backup: the new one, or the last.
        if point != "backup_place_ready" and not (point == "backup_place_renamed" and earlier):
            assert backup_note.load(StoreLayout.at(partial)) is None, point
        back_up(StoreLayout.at(store), target)
        assert records(target) == 400 and not partial.exists(), point
    assert passed == set(points) - (set() if earlier else ONLY_OVER_ANOTHER)
