"""A disk without room, and one that cannot be written, each a real file system of its own (small_disk.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.actors.small_disk import DEEDS

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("small_disk.py")

# Each test is many processes, and the limit is for tests that hang.
pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("deed", DEEDS)
def test_a_small_disk(tmp_path: Path, deed: str) -> None:
    disk, runtime = tmp_path / "disk", tmp_path / "runtime"
    disk.mkdir()
    runtime.mkdir(mode=0o700)
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=24m tmpfs {disk}"
    if subprocess.run([*command, mount], capture_output=True, check=False).returncode:
        pytest.skip("this kernel lets nobody mount a file system of their own")
    inside = f'{mount} && exec "$0" "$@"'
    done = subprocess.run(
        [*command, inside, sys.executable, str(SCRIPT), deed, str(disk), str(runtime)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
