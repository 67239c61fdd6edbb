"""No descriptor or no memory left in a client's process: every call says so as NoMeans, leaves nothing open at the broker, and
works once there is some again (short_process.py)."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq import errors
from orbitmq.shm.means import lacking
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


@pytest.mark.parametrize(
    ("raised", "limit"),
    [
        (OSError(errno.EMFILE, "x"), "descriptors"),
        (OSError(errno.ENFILE, "x"), "descriptors of the machine"),
        (OSError(errno.ENOMEM, "x"), "memory"),
        (MemoryError(), "memory"),
        (ImportError("lib.so: failed to map segment from shared object"), "memory"),
        (ImportError(f"lib.so: cannot open shared object file: {os.strerror(errno.EMFILE)}"), "descriptors"),
        (RuntimeError("can't start new thread"), "threads"),
    ],
)
def test_what_is_short(raised: Exception, limit: str) -> None:
    found = lacking(raised, "connect")
    assert isinstance(found, errors.NoMeans) and found.limit == limit and found.message.startswith("could not connect: ")


@pytest.mark.parametrize(
    "raised",
    [OSError(errno.EACCES, "x"), ImportError("no module"), RuntimeError("x"), errors.TimedOut("x"), errors.NoMeans("x")],
)
def test_what_is_something_else(raised: Exception) -> None:
    assert lacking(raised, "connect") is raised
