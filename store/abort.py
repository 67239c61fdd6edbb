"""The file `abort`: there while a broker runs, removed by a clean stop. A RocketMQ broker reads the same sign."""

from __future__ import annotations

from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file
from orbitmq.store.layout import StoreLayout


def exists(layout: StoreLayout) -> bool:
    """True when the last broker on this store did not stop cleanly, or still runs."""
    return layout.abort.exists()


def create(layout: StoreLayout) -> None:
    """Says that a broker runs. Durable before the first message is accepted, or a power cut would look like a clean
    stop.
    """
    layout.abort.touch()
    crash_point("abort_created")
    atomic_file.sync_folder(layout.root)


def remove(layout: StoreLayout) -> None:
    """Says that everything is on disk and indexed."""
    layout.abort.unlink(missing_ok=True)
    crash_point("abort_removed")
    atomic_file.sync_folder(layout.root)
