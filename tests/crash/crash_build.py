"""A second build of the package, under build/crash, whose processes know their crash points (native/base/crash_point.h).

Only the extension modules are built; everything else there is a link into the checkout. A process that is started with the
environment below runs it. This process, and the usual build, stay as they are.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "crash"
POINT = re.compile(r"""\b(?:CRASH_POINT|crash_point)\("(\w+)"\)""")
# Where points are, in C and in Python; not in their definition, nor in tests.
SOURCES = ("native/*/**/*.c", "actors/**/*.py", "client/**/*.py", "store/**/*.py", "tables/**/*.py", "spark/**/*.py")
# Files whose points only a repair passes, which needs a store that nobody runs on.
OF_REPAIR = {"reindex", "remake", "repair", "repair_config", "repair_log"}
# The same for a backup, which test_backup_kills.py kills.
OF_BACKUP = {"backup", "backup_place", "file_copy"}
# The same for Spark's sink.
OF_SINK = {"sink_commit", "sink_remote_target"}
# And of an export, which test_export_kills.py kills without this build.
OF_EXPORT = {"export_folder", "export_run_log", "export_parquet_file", "export_swap"}
# And of sending dead letters again, which tests/client/test_redrive.py kills without this build.
OF_REDRIVE = {"redrive"}


@cache
def points() -> Mapping[str, str]:
    """Every point by name, in the order of files and lines, with the part that it belongs to."""
    found: dict[str, str] = {}
    for pattern in SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            for name in POINT.findall(path.read_text()):
                assert name not in found, f"two crash points are called {name}, the second in {path}"
                parts = [part for part in _parts(path) if name.startswith(part + "_")]
                assert parts, f"the crash point {name} stands in {path}, which its name does not say"
                found[name] = parts[0]
    return found


def _parts(path: Path) -> tuple[str, ...]:
    """The prefixes of points in this file, the longest first: store/repair/log.py has those of `repair_log`."""
    folder = path.parent.name
    return f"{folder}_{path.stem}", path.stem, folder


@cache
def build() -> Path:
    """Builds what is older than its sources, as they are when this process asks first. Returns the folder for PYTHONPATH."""
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # if two runs of the tests come together, one builds
        command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", str(HOME), "--build-temp", str(HOME / "temp")]
        # Less optimised, without symbols: it is built often, and its results do not depend on speed.
        flags = {"ORBITMQ_CFLAGS": "-DORBITMQ_CRASH_POINTS -O1 -g0", "ORBITMQ_WERROR": "1"}
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **flags}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        _link(ROOT / "orbitmq", HOME / "orbitmq", leave={"native"})
        _link(ROOT / "native", HOME / "orbitmq" / "native", leave=set())
    return HOME


def _link(source: Path, target: Path, leave: set[str]) -> None:
    """Links to everything of Python's in the folder; the built modules stand beside them."""
    wanted = {path.name: path for path in source.iterdir() if path.name not in leave and _is_ours(path)}
    for old in target.iterdir():
        if old.is_symlink() and old.name not in wanted:
            old.unlink()
    for name, path in wanted.items():
        link = target / name
        if not link.is_symlink():
            link.symlink_to(path.resolve())


def _is_ours(path: Path) -> bool:
    return (path.is_dir() and path.name != "__pycache__") or path.suffix in (".py", ".pyi", ".typed")


def environment(plan: Path | None = None) -> dict[str, str]:
    """The environment of a process that runs this build. plan: the file with which it can be killed (crash_plan.py)."""
    path = os.pathsep.join([str(HOME), str(ROOT)])
    own = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    if plan is not None:
        own["ORBITMQ_CRASH_PLAN"] = str(plan)
    return own
