"""`orbitmq export` in processes of their own, struck at moments that a seed chooses; with Spark or without."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from orbitmq.tables.export.folder import OWN, ExportFolder
from tests.tables.exporting import add, export_here, seen
from tests.tables.stored_topics import StoredTopics
from tests.waiting import WATCHDOG_S, until

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "orbitmq.cli.main", "export"]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def staged(out: Path) -> int:
    """Folders may go while one looks: os.walk passes over them, and glob fails."""
    return sum(name.endswith(".parquet") for _, _, names in os.walk(out / OWN / "staging") for name in names)


def staging_has(out: Path, name: str) -> bool:
    with suppress(FileNotFoundError):  # as above
        return any((out / OWN / "staging").glob(name))
    return False


# Moments of an export, each recognised by what can be seen of it.
MOMENTS: dict[str, Callable[[Path, int], bool]] = {
    "locked": lambda out, runs: (out / OWN / "lock").exists(),
    "staging": lambda out, runs: staging_has(out, "*"),
    "some staged": lambda out, runs: staged(out) > 2,
    "committed": lambda out, runs: len(list((out / OWN / "runs").glob("*.json"))) > runs,
}


def killed_at_random(tmp_path: Path, stored: StoredTopics, deaths: int, *options: str) -> None:
    """After each death readers find nothing twice, and after the last run everything."""
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    out = tmp_path / "out"
    command = [*COMMAND, *options, str(stored.root), str(out)]
    for moment in chance.sample(list(MOMENTS) * 3, deaths):
        add(stored, 100)
        runs = len(ExportFolder(out).runs()) if out.exists() else 0
        wanted = [*COMMAND, "--compact", str(out)] if runs and chance.random() < 0.3 else command
        process = subprocess.Popen(wanted, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        until(lambda: process.poll() is not None or MOMENTS[moment](out, runs), moment)
        for _ in range(chance.randrange(100)):  # a little later, at random
            staged(out)
        process.kill()
        _, told = process.communicate()
        assert process.returncode in (-signal.SIGKILL, 0), told
        found = seen(out)
        assert len(set(found)) == len(found) and set(found) <= {row[:4] for row in stored.rows}
    add(stored, 100)
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=WATCHDOG_S)
    assert done.returncode == 0, done.stderr
    assert seen(out) == sorted(row[:4] for row in stored.rows)


def interrupted(tmp_path: Path, stored: StoredTopics, name: str, *options: str) -> int:
    """The exit code of an export that is interrupted as soon as such a file is in its staging."""
    out = tmp_path / "out"
    command = [*COMMAND, *options, str(stored.root), str(out)]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)
    until(lambda: process.poll() is not None or staging_has(out, name), name)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=WATCHDOG_S)
    assert "Traceback" not in told
    assert (process.returncode, "stopped; run it again" in told) in ((130, True), (0, False)), told
    if process.returncode == 130:
        assert staged(out) == 0
    export_here(stored.root, out)
    assert seen(out) == sorted(row[:4] for row in stored.rows)
    return process.returncode
