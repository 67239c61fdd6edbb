"""Removes what follows the end of the log: keeps a copy under orbitmq/cut/, zeroes the place, and syncs the zeros.

This must be done before anything is appended. Behind a torn record there may be whole ones, of the same or of an earlier life.
Once new records fill the gap before them, they would count as part of the log again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file, sparse
from orbitmq.store.layout import StoreLayout
from orbitmq.store.recovery.report import Cut

# At most this much of one file's tail is kept. A crash cannot leave more, and the disk may be nearly full.
KEEP_MAX = 64 << 20
# Empty files that RocketMQ, and the flush service, keep ready after the one that is being written.
SPARE_FILES = 2


def cut_after(
    layout: StoreLayout,
    file_size: int,
    starts: list[int],
    end: int,
    why: str,
    keep_max: int | None = None,
    zeroing: Callable[[int], None] = lambda end: None,
) -> tuple[list[int], list[Cut]]:
    """Leaves only zeros behind `end`, durably. Returns the starts of the files that are left, and what was cut. keep_max: bytes
    of the tail to keep at most; KEEP_MAX unless given. zeroing: called before anything is zeroed, with the physical offset up
    to which."""
    cuts: list[Cut] = []
    kept = [start for start in starts if start <= end]
    tail = [start for start in kept if start + file_size > end]
    if tail:
        cut = _cut_tail(layout, tail[0], file_size, end, why, KEEP_MAX if keep_max is None else keep_max, zeroing)
        if cut is not None:
            cuts.append(cut)
    spare = 0
    surplus: list[tuple[int, int]] = []  # start, and how much of it is not zero
    for start in starts[len(kept) :]:
        garbage = _last_nonzero(layout.log_file(start), 0)
        follows = not kept or start == kept[-1] + file_size
        if not garbage and not surplus and spare < SPARE_FILES and follows:
            kept.append(start)
            spare += 1
        else:
            surplus.append((start, garbage))
    # Newest first, each durably: a crash in between must not leave a gap, which would look like a lost file.
    for start, garbage in reversed(surplus):
        path = layout.log_file(start)
        if garbage:
            moved = free_name(layout, path.name)
            path.rename(moved)
            atomic_file.sync_folder(layout.cut)
            cuts.append(Cut(start, garbage, "it lies behind the end of the log", str(moved)))
        else:
            path.unlink()
        atomic_file.sync_folder(layout.commitlog)
    return kept, cuts


def find_tail(layout: StoreLayout, file_size: int, starts: list[int], end: int) -> int:
    """Bytes from `end` to the last one that is not zero, in the file that holds `end`. Changes nothing."""
    for start in starts:
        if start <= end < start + file_size:
            return max(0, _last_nonzero(layout.log_file(start), end - start) - (end - start))
    return 0


def _cut_tail(
    layout: StoreLayout, start: int, file_size: int, end: int, why: str, keep_max: int, zeroing: Callable[[int], None]
) -> Cut | None:
    path = layout.log_file(start)
    at = end - start
    last = _last_nonzero(path, at)
    if last <= at:
        return None
    size = last - at
    saved: Path | None = None
    with path.open("r+b", buffering=0) as file:
        if size <= keep_max:
            saved = free_name(layout, f"{end:020d}")
            with saved.open("xb", buffering=0) as copy:
                for offset, chunk in sparse.nonzero_chunks(file.fileno(), at, last):
                    os.pwrite(copy.fileno(), chunk, offset - at)
                copy.truncate(size)
                os.fsync(copy.fileno())
            crash_point("log_cut_copied")
            # The copy is durable, under its name, before the original is zeroed.
            atomic_file.sync_folder(layout.cut)
        else:
            why += f"; more than {keep_max >> 20} MiB"
        zeroing(start + last)
        sparse.zero(file.fileno(), at, last)
        crash_point("log_cut_zeroed")
    return Cut(end, size, why, str(saved) if saved else None)


def free_name(layout: StoreLayout, name: str) -> Path:
    """A path in orbitmq/cut/ that is not taken yet, for what was called `name`."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    path = layout.cut / f"{name}-{stamp}"
    number = 1
    while path.exists():
        number += 1
        path = layout.cut / f"{name}-{stamp}.{number}"
    return path


def _last_nonzero(path: Path, start: int) -> int:
    with path.open("rb", buffering=0) as file:
        return sparse.last_nonzero(file.fileno(), start)


def set_aside(layout: StoreLayout) -> list[Cut]:
    """Sets queues and index aside for which there is no log."""
    cuts = []
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    for folder in (layout.consumequeue, layout.index):
        if any(folder.iterdir()):
            kept = layout.cut / f"{folder.name}-{stamp}-{os.getpid()}"
            folder.rename(kept)
            cuts.append(Cut(0, 0, f"there is no log for {folder.name}", str(kept)))
    if cuts:
        layout.make_folders()
    return cuts
