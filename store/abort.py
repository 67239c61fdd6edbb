"""The file `abort`: there while a broker runs, removed by a clean stop. A RocketMQ broker reads the same sign.

RocketMQ's is empty; ours holds the boot in which it was made. So a start that got no further than this file is not taken for
another program's death.
"""

from __future__ import annotations

from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file, positions
from orbitmq.store.layout import StoreLayout


def exists(layout: StoreLayout) -> bool:
    """True when the last broker on this store did not stop cleanly, or still runs."""
    return layout.abort.exists()


def boot(layout: StoreLayout) -> bytes | None:
    """The boot of the machine in which a broker of ours made the file; None: it is not there, or another program's."""
    try:
        return bytes.fromhex(layout.abort.read_text(encoding="ascii")) or None
    except (FileNotFoundError, ValueError):
        return None


def create(layout: StoreLayout) -> None:
    """Says that a broker runs. Durable before the first message is accepted, or a power cut would look like a clean
    stop. One that is there stays as it is: what its maker has left is not repaired yet.
    """
    if not layout.abort.exists():
        atomic_file.write_synced(layout.abort_made, positions.boot_id().hex().encode())
        layout.abort_made.rename(layout.abort)
    crash_point("abort_created")
    atomic_file.sync_folder(layout.root)


def remove(layout: StoreLayout) -> None:
    """Says that everything is on disk and indexed."""
    layout.abort.unlink(missing_ok=True)
    crash_point("abort_removed")
    atomic_file.sync_folder(layout.root)
