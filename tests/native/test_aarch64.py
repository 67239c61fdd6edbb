"""Goal: the C core is right on aarch64 too. Method: scripts/aarch64, which builds it for three kinds of that processor and runs
the drivers of native/sanitize under an emulator."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NO_MEANS = 77  # the script's exit code where a compiler or the emulator is missing
MACHINES = 3
# Those of native/build_core.py that know no Python.
ROOMS = ("base", "format", "shared", "actors", "client", "check", "remoting")


@pytest.mark.timeout(600)
def test_every_driver_runs_on_aarch64() -> None:
    done = subprocess.run([ROOT / "scripts" / "aarch64"], capture_output=True, text=True, check=False)
    if done.returncode == NO_MEANS:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    drivers = len(list((ROOT / "native" / "sanitize").glob("drive_*.c")))
    assert done.stdout.count(": good") == MACHINES * drivers
    # A program that another machine's build has made likewise is run once.
    assert done.stdout.count(": good\n") >= drivers


def test_the_whole_core_is_compiled() -> None:
    """Goal: no folder of the core is forgotten where it is compiled for another processor. Method: the list of
    scripts/drivers.sh against the sources of the shared object."""
    command = "drivers=(); source scripts/drivers.sh; whole_core"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True)
    built = {path for room in ROOMS for path in (ROOT / "native" / room).rglob("*.c")}
    assert {ROOT / line for line in done.stdout.splitlines()} == built
