"""Pages that are ready: what both sides of every comparison run on."""

from __future__ import annotations

import mmap


def warm_pages(size: int = 3 << 30) -> None:
    """Touches that much memory and gives it back, so that the pages a run is about to take are backed already.

    On a virtual machine the first touch of a page may cost the host microseconds, which is neither our cost nor the
    ceiling's; both run on pages that were touched before.
    """
    mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()
