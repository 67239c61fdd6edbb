"""The disk alone: no synced sender can be faster."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

APPENDS = 500
RECORD_BYTES = 224  # as much as a benchmark's message takes in the log


def syncs_per_second(folder: Path) -> float:
    """Appends of one record, each followed by fdatasync, to a file in `folder` that was allocated before."""
    with tempfile.TemporaryFile(dir=folder) as file:
        descriptor = file.fileno()
        os.posix_fallocate(descriptor, 0, 1 << 20)
        os.fsync(descriptor)
        record = bytes(range(RECORD_BYTES))
        begin = time.perf_counter()
        for number in range(APPENDS):
            os.pwrite(descriptor, record, number * RECORD_BYTES)
            os.fdatasync(descriptor)
        return APPENDS / (time.perf_counter() - begin)
