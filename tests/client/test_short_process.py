"""No descriptor or no memory is left in a client's process: every call raises NoMeans, leaves nothing open at the broker, and
works once the resource is back (short_process.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.trees import small_broker

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("short_process.py")


@pytest.mark.parametrize("means", ["descriptors", "memory"])
def test_a_short_process(tmp_path: Path, means: str) -> None:
    with small_broker(tmp_path) as broker:
        broker.create_topic("orders", 2)
        command = [sys.executable, str(SCRIPT), means, broker.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
