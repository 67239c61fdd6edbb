"""Goal: the lock-free parts of the C core have no data race, no stray access and no undefined behaviour that a run can show.

Method: scripts/sanitize, which builds the core under each sanitizer and runs it in threads.
"""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
def test_every_driver_is_clean_under_every_sanitizer() -> None:
    done = subprocess.run([ROOT / "scripts" / "sanitize"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    drivers = {path.stem: path.read_text() for path in (ROOT / "native" / "sanitize").glob("drive_*.c")}
    good = [f"address {name}: good" for name in drivers]
    good += [f"thread {name}: good" for name, text in drivers.items() if "drive_start" in text]
    assert sorted(done.stdout.splitlines()) == sorted(good)
