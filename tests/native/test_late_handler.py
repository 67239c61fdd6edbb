"""Goal: what a handler notes about a session never counts for the next one in the same slot, however late it comes.

Method: late_handler.py stops a handler in the middle of its note, and does in between what other processes would do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash import crash_build


@pytest.mark.parametrize("fate", ["goes on", "dies"])
def test_a_note_that_comes_late(tmp_path: Path, fate: str) -> None:
    crash_build.build()
    plan = tmp_path / "plan"
    plan.touch()
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("late_handler.py")), str(tmp_path / "store"), fate],
        env={**os.environ, **crash_build.environment(plan)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    wanted = [f"first {n}" for n in range(3)] + [f"second {n}" for n in range(5)]
    assert done.stdout == f"{wanted} 5\n"
