"""orbitmq/retention: for how long, and how much, the store's last broker kept messages. A broker that is to keep less learns
from it that messages would be removed which were safe until now, whether the command line, the environment, the file or a
default made the difference."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import NamedTuple

from orbitmq.shm import finite_json
from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file
from orbitmq.store.layout import StoreLayout


class Kept(NamedTuple):
    """hours, size (bytes of the log's files): 0 for no limit, as in the settings retention_hours and retention_bytes."""

    hours: int = 0
    size: int = 0

    def less_than(self, other: Kept) -> bool:
        """True if the other keeps something that this one may not keep."""
        return _tighter(self.hours, other.hours) or _tighter(self.size, other.size)

    def __str__(self) -> str:
        time = f"{self.hours:,} hours" if self.hours else "any time"
        return f"{time}, in at most {self.size:,} bytes" if self.size else time


def load(layout: StoreLayout) -> Kept:
    """The value for a store without a note, or with one that cannot be read: everything, for ever."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        noted = finite_json.loads(layout.retention.read_bytes())
        return Kept(int(noted["hours"]), int(noted["size"]))
    return Kept()


def store(layout: StoreLayout, kept: Kept) -> None:
    """Raises: OSError."""
    if layout.retention.exists() and load(layout) == kept:
        return
    atomic_file.replace(layout.retention, json.dumps(kept._asdict()).encode())
    crash_point("kept_stored")


def _tighter(limit: int, other: int) -> bool:
    return limit != 0 and (other == 0 or limit < other)
