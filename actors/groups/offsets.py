"""Committed offsets of consumer groups: config/consumerOffset.json, RocketMQ's format."""

from __future__ import annotations

from typing import Protocol

from orbitmq.shm.topic_table import QueueKey, TopicTable
from orbitmq.store import config
from orbitmq.store.layout import StoreLayout


class Committed(Protocol):
    """Where groups are whose offsets are committed with atomic batches; see CommitTable. It counts before all else."""

    def get(self, group: str, queue: QueueKey) -> int | None: ...

    @property
    def version(self) -> int: ...


class Offsets:
    """For each group and queue, the queue offset at which the group continues.

    behind: groups for which the file does not say that yet.
    outdated: a group was removed since the last snapshot, which therefore may not be stored any more."""

    def __init__(self, layout: StoreLayout, committed: Committed | None = None) -> None:
        self._layout = layout
        self._committed = committed
        self._seen = 0  # its version
        self._groups: dict[str, dict[QueueKey, int]] = {}
        self._changed: set[str] = set()
        self._taken: set[str] = set()  # groups of a snapshot that is not stored yet
        self.outdated = False

    def load(self, whole: TopicTable | None = None) -> None:
        """Reads the file, in which recovery has lowered each offset past the end of its queue. Until reput has caught up with
        the log, a queue looks shorter than it is, so its end says nothing here.

        whole: the queues of a store that is opened for reading only, which are as long as they will be. Recovery leaves the
            file of such a store as it is; so offsets are lowered as they are read."""
        for (topic, group), queues in config.load_offsets(self._layout).items():
            known = None if whole is None else whole.find(topic)
            for queue, offset in queues.items():
                # Clients of RocketMQ commit -1 for "unknown"; it counts as 0 here.
                value = max(0, offset)
                if whole is not None and known is not None and queue < known.queues:
                    value = min(value, whole.bounds(known.first_slot + queue).maximum)
                self._groups.setdefault(group, {})[topic, queue] = value

    def get(self, group: str, queue: QueueKey) -> int | None:
        self._refresh(group, queue)
        return self._groups.get(group, {}).get(queue)

    def of_group(self, group: str) -> dict[QueueKey, int]:
        for queue in tuple(self._groups.get(group, ())):
            self._refresh(group, queue)
        return dict(self._groups.get(group, {}))

    def groups(self) -> list[str]:
        return sorted(self._groups)

    def knows(self, group: str, topic: str) -> bool:
        """True if the group has consumed from the topic before."""
        return any(name == topic for name, _ in self._groups.get(group, {}))

    @property
    def behind(self) -> set[str]:
        return self._changed | self._taken

    @property
    def changed(self) -> bool:
        """Something has changed since the last snapshot."""
        return bool(self._changed) or (self._committed is not None and self._committed.version != self._seen)

    def _refresh(self, group: str, queue: QueueKey) -> None:
        offset = None if self._committed is None else self._committed.get(group, queue)
        if offset is not None:
            self._put(group, queue, offset)

    def set(self, group: str, queue: QueueKey, offset: int) -> None:
        known = None if self._committed is None else self._committed.get(group, queue)
        self._put(group, queue, offset if known is None else known)

    def _put(self, group: str, queue: QueueKey, offset: int) -> None:
        queues = self._groups.setdefault(group, {})
        if queues.get(queue) != offset:
            queues[queue] = offset
            self._changed.add(group)

    def take(self) -> config.Offsets:
        """The content that the file should have now."""
        if self._committed is not None and self._committed.version != self._seen:
            self._seen = self._committed.version  # first: what comes later is another version
            for group in self.groups():
                self.of_group(group)
        entries: config.Offsets = {}
        for group, queues in self._groups.items():
            for (topic, queue), offset in queues.items():
                entries.setdefault((topic, group), {})[queue] = offset
        self._taken |= self._changed
        self._changed = set()
        self.outdated = False
        return entries

    def store(self, snapshot: config.Offsets) -> None:
        """Replaces the file by what was taken last. The caller has made sure that everything it refers to is on disk: an offset
        past the end of a recovered log would skip what is written there next. Raises: OSError."""
        config.store_offsets(self._layout, snapshot)
        self._taken = set()

    def give_back(self) -> None:
        """What was taken could not be stored; a later snapshot will contain it."""
        self._changed |= self._taken
        self._taken = set()

    def unstored(self, group: str) -> None:
        """The file may have lost what it said of the group."""
        if group in self._groups:
            self._changed.add(group)

    def remove(self, group: str) -> None:
        """The group is forgotten; the caller has removed it from the file."""
        self._groups.pop(group, None)
        self._changed.discard(group)
        self._taken.discard(group)
        self.outdated = True
