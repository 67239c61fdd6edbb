"""Folders without a disk, for what does not ask what a sync does: no sync waits there. What was written is there for whoever
comes after a death, as it is on a disk while the machine lives."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orbitmq.shm.segment import MOUNT, shared_memory_free

# Of shared memory, below which tests leave it to the brokers.
ROOM = 1 << 30


@contextmanager
def folder_in_memory(otherwise: Callable[[], Path]) -> Iterator[Path]:
    """otherwise: makes a folder on a disk, for where shared memory has little room."""
    if shared_memory_free() < ROOM:
        yield otherwise()
        return
    with tempfile.TemporaryDirectory(prefix="orbitmq-test-", dir=MOUNT) as folder:
        yield Path(folder)
