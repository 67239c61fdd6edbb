"""A disk whose syncs fail: a real block device (failing_disk.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.actors.failing_disk import DEEDS

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("failing_disk.py")
TRY = """
set -e
mount -t tmpfs -o size=4m tmpfs "$0"
truncate -s 3M "$0/image"
mkfs.ext4 -q -O ^has_journal "$0/image"
mkdir "$0/disk"
mount -o loop "$0/image" "$0/disk"
"""


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips the test if this user may not make one."""
    tried = tmp_path_factory.mktemp("try")
    command = ["unshare", "--mount", "sh", "-c", TRY, str(tried)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        why = "no block device can be made to fail here, it takes root, loop devices and mkfs.ext4"
        pytest.skip(f"{why}: {done.stderr.strip()}")


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("deed", DEEDS)
def test_a_failing_disk(tmp_path: Path, deed: str) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, str(SCRIPT), deed, str(tmp_path), str(runtime)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
