"""Goal: a process has one C core, though two modules are loaded from it, and folders are reached through links. A second copy
would have statics of its own. Method: a fresh interpreter imports the package's parts, and counts in /proc/self/maps how often
the beginning of the shared object is mapped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from orbitmq.native import _core

PARTS = "orbitmq.client.client, orbitmq.native._types, orbitmq.native._core, orbitmq.shm.lock, orbitmq.store.commit_log.record"
COUNT = """
for line in open("/proc/self/maps"):
    fields = line.split(maxsplit=5)
    if len(fields) == 6 and "_core" in fields[5] and ".so" in fields[5] and int(fields[2], 16) == 0:
        print(fields[5].strip())
"""


def mapped(program: str) -> list[str]:
    """Files of the core that an interpreter maps from their first byte on, after this program."""
    done = subprocess.run([sys.executable, "-c", program + COUNT], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def test_core_is_loaded_once() -> None:
    assert mapped(f"import {PARTS}") == [str(Path(_core.__file__).resolve())]


def test_a_second_core_is_seen(tmp_path: Path) -> None:
    """Goal: the test above can fail. Method: a copy of the shared object is loaded too."""
    copy = tmp_path / Path(_core.__file__).name
    copy.write_bytes(Path(_core.__file__).read_bytes())
    assert len(mapped(f"import {PARTS}, ctypes\nctypes.CDLL({str(copy)!r})")) == 2
