"""Committed offsets of consumer groups: config/consumerOffset.json, RocketMQ's format."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgpack

from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import QueueKey, TopicTable
from orbitmq.store import config
from orbitmq.store.layout import StoreLayout


class Offsets:
    """For each group and queue the queue offset that it goes on at. `changed` says whether the file is behind."""

    def __init__(self, layout: StoreLayout) -> None:
        self._layout = layout
        self._groups: dict[str, dict[QueueKey, int]] = {}
        self.changed = False

    def load(self, topics: TopicTable) -> None:
        """Reads the file. An offset past its queue's end, which a crash may have shortened, is lowered to the end."""
        _at_stop(self._layout).unlink(missing_ok=True)
        for (topic, group), queues in config.load_offsets(self._layout).items():
            known = topics.find(topic)
            for queue, offset in queues.items():
                # Clients of RocketMQ's commit -1 for "I know nothing"; it stands for nothing here.
                value = max(0, offset)
                if known is not None and queue < known.queues:
                    value = min(value, topics.bounds(known.first_slot + queue).maximum)
                self._groups.setdefault(group, {})[topic, queue] = value

    def get(self, group: str, queue: QueueKey) -> int | None:
        return self._groups.get(group, {}).get(queue)

    def of_group(self, group: str) -> dict[QueueKey, int]:
        return dict(self._groups.get(group, {}))

    def groups(self) -> list[str]:
        return sorted(self._groups)

    def knows(self, group: str, topic: str) -> bool:
        """True when the group has consumed of the topic before."""
        return any(name == topic for name, _ in self._groups.get(group, {}))

    def set(self, group: str, queue: QueueKey, offset: int) -> None:
        queues = self._groups.setdefault(group, {})
        if queues.get(queue) != offset:
            queues[queue] = offset
            self.changed = True

    def snapshot(self) -> config.Offsets:
        """The file's content now."""
        entries: config.Offsets = {}
        for group, queues in self._groups.items():
            for (topic, queue), offset in queues.items():
                entries.setdefault((topic, group), {})[queue] = offset
        return entries

    def store(self, snapshot: config.Offsets) -> None:
        """Replaces the file. The caller has seen that all which the snapshot speaks of is on disk: an offset past the
        end of a recovered log would skip what is written there next."""
        config.store_offsets(self._layout, snapshot)

    def leave(self) -> None:
        """At a stop: the offsets wait in a file of their own until the log has been flushed to its end
        (keep_at_stop)."""
        entries = [[topic, group, list(queues.items())] for (topic, group), queues in self.snapshot().items()]
        try:
            _at_stop(self._layout).write_bytes(msgpack.packb(entries))
        except OSError:
            # Half of it is worse than none: then those count that were written last.
            _at_stop(self._layout).unlink(missing_ok=True)
            raise
        crash_point("offsets_left")


def _at_stop(layout: StoreLayout) -> Path:
    return layout.own / "offsets"


def keep_at_stop(layout: StoreLayout) -> None:
    """The supervisor's: after a clean stop, what Offsets.leave left becomes the file."""
    path = _at_stop(layout)
    with suppress(FileNotFoundError):
        entries = msgpack.unpackb(path.read_bytes())
        config.store_offsets(layout, {(topic, group): dict(queues) for topic, group, queues in entries})
        crash_point("offsets_kept")
        path.unlink()
