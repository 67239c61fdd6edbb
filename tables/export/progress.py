"""The progress of a running export: each task writes how far it is into the file `progress` in staging, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from orbitmq.tables.export.task import PROGRESS

# Called with messages done, messages in all, and bytes done, from another thread.
Progress = Callable[[int, int, int], None]
LOOK_S = 0.2  # between two looks


@contextmanager
def watched(staging: str | Path, total: int, progress: Progress | None) -> Iterator[None]:
    """Reports the progress of the running tasks, and once more at the end."""
    if progress is None:
        yield
        return
    over = Event()

    def watch() -> None:
        while not over.wait(LOOK_S):
            tell()

    def tell() -> None:
        try:
            content = Path(staging, "progress").read_bytes()
        except FileNotFoundError:
            return
        each = [PROGRESS.unpack_from(content, at) for at in range(0, len(content) - PROGRESS.size + 1, PROGRESS.size)]
        progress(min(total, sum(rows for rows, _ in each)), total, sum(size for _, size in each))

    thread = Thread(target=watch, name="export progress", daemon=True)
    thread.start()
    try:
        yield
        tell()
    finally:
        over.set()
        thread.join()
