"""Warm pages, which both sides of every comparison run on."""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path

POPULATE_READ = 22  # MADV_POPULATE_READ, for which the mmap module has no name
STEP = 2 << 20


def warm_pages(folder: Path, size: int = 1 << 30) -> None:
    """Fills that much of a file in `folder` into the page cache and deletes the file, so that a run's own files get these
    pages.

    On a virtual machine the first touch of a page costs the host 3 to 5 us, ten times what the kernel needs to zero it. That is
    neither OrbitMQ's cost nor the ceiling's, and a machine that has been up for a while does not have it. Memory that was
    touched for another purpose does not help, because the page cache takes its pages from other lists of the allocator.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        os.posix_fallocate(file.fileno(), 0, size)
        with mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as pages:
            for start in range(0, size, STEP):
                pages.madvise(POPULATE_READ, start, min(STEP, size - start))
