"""Folders without a disk, for what does not ask what a sync does: no sync waits there. What was written is there for whoever
comes after a death, as it is on a disk while the machine lives."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orbitmq.shm.segment import MOUNT, shared_memory_free

# Of shared memory, and of the machine's memory, below which tests leave it to the brokers.
ROOM = 1 << 30
# Of one file. Memory that a file reserves is cleared at once, unlike a disk: a log of the usual size takes two seconds of the
# processor, and 2 GiB that the brokers of other tests lack.
LARGEST = 256 << 20


def memory_free() -> int:
    """Bytes that the machine can give without taking them from a process. What is called shared memory may be larger."""
    [line] = [line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:")]
    return int(line.split()[1]) << 10


@contextmanager
def folder_in_memory(otherwise: Callable[[], Path]) -> Iterator[Path]:
    """otherwise: makes a folder on a disk, for where shared memory has little room."""
    if min(shared_memory_free(), memory_free()) < ROOM:
        yield otherwise()
        return
    with tempfile.TemporaryDirectory(prefix="orbitmq-test-", dir=MOUNT) as folder:
        yield Path(folder)
        large = [path for path in Path(folder).rglob("*") if path.is_file() and 512 * path.stat().st_blocks > LARGEST]
        assert not large, f"too large for memory, give the broker a smaller log_file_size or a folder on a disk: {large}"
