"""Shows how far a stream is as the offsets of a group without members, from time to time."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.shm.topic_table import QueueKey
from orbitmq.tables.extents import Snapshot
from orbitmq.tables.group_report import report


class StreamReport:
    """Called again and again, it tells only what has changed, and once what cannot be shown."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._shown: Mapping[QueueKey, int] | None = None

    def tell(self, snapshot: Snapshot, offsets: Mapping[QueueKey, int]) -> None:
        if offsets != self._shown and (snapshot.broker is not None or self._shown is None):
            report(snapshot, self._group, offsets)
            self._shown = dict(offsets)
