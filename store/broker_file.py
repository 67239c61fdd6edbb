"""The broker that runs on a store, and how to reach it: for programs that know only the store's folder, and for finding a
broker whose files in the runtime folder were removed.

    <root>/orbitmq/broker.json    what <name>.json in the runtime folder says (shm/runtime.py), and the lock file's
                                  device and inode

It is written while the store's lock is held, and removed before the lock is released. The numbers of the lock file reveal a
copy of the store: a copied broker.json is about the broker of the original. It need not survive a crash of the machine, so
nothing is synced.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict

from orbitmq.errors import NoPermission
from orbitmq.shm import finite_json
from orbitmq.shm.file_id import FileId
from orbitmq.shm.runtime import ASK_OPERATOR, Description, description_of
from orbitmq.store.layout import StoreLayout


def write(layout: StoreLayout, description: Description, lock: FileId) -> None:
    """Written for everybody who may read the store. lock: the file that the caller holds. Raises: OSError."""
    fresh = layout.broker_json.with_name(f"{layout.broker_json.name}.tmp")
    fresh.write_text(json.dumps({**asdict(description), "lock": [lock.device, lock.inode]}))
    fresh.replace(layout.broker_json)


def read(layout: StoreLayout) -> Description | None:
    """What the store's running or dead broker has written. None: nothing, or this is a copy of the store on which that broker
    runs. The caller checks whether it is alive (runtime.lives); generation 0 says that it is still starting.

    Raises: NoPermission: this user may not read the store.
    """
    try:
        values = finite_json.loads(layout.broker_json.read_text())
        here = FileId.of(layout.lock)
        is_copy = values["lock"] != [here.device, here.inode]
        return None if is_copy else description_of(values)
    except PermissionError:
        raise NoPermission(
            f"cannot look for the broker of the store {layout.root}: this user may not read {layout.broker_json}",
            hint=ASK_OPERATOR,
            store=str(layout.root),
        ) from None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def remove(layout: StoreLayout) -> None:
    with suppress(OSError):
        layout.broker_json.unlink()
