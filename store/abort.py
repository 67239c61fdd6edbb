"""The file `abort`: it exists while a broker runs, and a clean stop removes it. A RocketMQ broker reads the same sign.

RocketMQ's file is empty. OrbitMQ's holds the boot of the machine in which it was made, so that a start that got no further than
this file is not mistaken for the death of another program.
"""

from __future__ import annotations

from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file, positions
from orbitmq.store.layout import StoreLayout


def exists(layout: StoreLayout) -> bool:
    """True if the last broker on this store did not stop cleanly, or still runs."""
    return layout.abort.exists()


def boot(layout: StoreLayout) -> bytes | None:
    """The boot of the machine in which a broker of OrbitMQ's made the file. None: there is no file, or another program made
    it."""
    try:
        return bytes.fromhex(layout.abort.read_text(encoding="utf-8")) or None
    except (FileNotFoundError, ValueError):
        return None


def create(layout: StoreLayout) -> None:
    """Marks the store as in use. Durable before the first message is accepted; otherwise a power cut would look like a clean
    stop. An existing file stays as it is, because what its maker left is not repaired yet.
    """
    if not layout.abort.exists():
        atomic_file.write_synced(layout.abort_made, positions.boot_id().hex().encode())
        layout.abort_made.rename(layout.abort)
    crash_point("abort_created")
    atomic_file.sync_folder(layout.root)


def remove(layout: StoreLayout) -> None:
    """Marks the store as stopped: everything is on disk and indexed."""
    layout.abort.unlink(missing_ok=True)
    crash_point("abort_removed")
    atomic_file.sync_folder(layout.root)
