"""Which broker runs on a store, and where it is found: for whoever knows the store's folder only, or looks for a broker whose
files in the runtime folder were cleared away.

    <root>/orbitmq/broker.json    what <name>.json in the runtime folder says (shm/runtime.py), and the lock file's
                                  device and inode

Written while the store's lock is held, and removed before that is given back. The lock file's numbers tell a copy of the store:
what is copied along is about the original's broker. It need not survive the machine, so nothing is synced.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict

from orbitmq.errors import NoPermission
from orbitmq.shm.file_id import FileId
from orbitmq.shm.runtime import ASK_OPERATOR, Description, description_of
from orbitmq.store.layout import StoreLayout


def write(layout: StoreLayout, description: Description, lock: FileId) -> None:
    """For whoever may read the store. lock: the file that the caller holds. Raises: OSError."""
    fresh = layout.broker_json.with_name(f"{layout.broker_json.name}.tmp")
    fresh.write_text(json.dumps({**asdict(description), "lock": [lock.device, lock.inode]}))
    fresh.replace(layout.broker_json)


def read(layout: StoreLayout) -> Description | None:
    """What the store's running or dead broker has written; None: none, or this is a copy of the store that it runs on. Whether
    it lives is for the caller to ask (runtime.lives), and generation 0 says that it is still starting.

    Raises: NoPermission: this user may not read the store.
    """
    try:
        values = json.loads(layout.broker_json.read_text())
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
