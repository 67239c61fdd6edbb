"""A store with topics for the data source to read, and the expected rows. No broker: the files are made by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orbitmq.store import config, positions, rising
from orbitmq.store.layout import StoreLayout
from tests.native.composed_store import ComposedStore

# topic, queue, offset, body, tags, keys, store ms, born ms, physical offset, flag
Row = tuple[str, int, int, bytes, str | None, list[str] | None, int, int, int, int]


@dataclass(slots=True)
class StoredTopics:
    """`send` spreads messages over the queues of a topic, in turn."""

    root: Path
    rows: list[Row] = field(default_factory=list)
    _store: ComposedStore = field(init=False)
    _topics: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._store = ComposedStore(self.root)

    def add(self, topic: str, queues: int) -> None:
        self._topics[topic] = (self._store.add_topic(topic, queues), queues)
        layout = StoreLayout.at(self.root)
        layout.make_folders()
        table = {name: config.TopicConfig(name, count, count) for name, (_, count) in self._topics.items()}
        config.store_topics(layout, table, config.DataVersion())

    def send(
        self, topic: str, body: bytes, *, tags: str | None = None, keys: str | None = None, flag: int = 0, **more: Any
    ) -> None:
        slot, queues = self._topics[topic]
        queue = sum(row[0] == topic for row in self.rows) % queues
        properties = {name: value for name, value in (("TAGS", tags), ("KEYS", keys)) if value is not None}
        properties.update(more.pop("properties", {}))
        offset = self._store.next.get(slot + queue, 0)
        born = 1_700_000_000_000 + len(self.rows)
        physical = self._store.append(
            topic, slot + queue, body, properties=properties, flag=flag & 0xFFFFFFFF, born_ms=born, **more
        )
        words = None if keys is None else keys.split()
        self.rows.append((topic, queue, offset, body, tags, words, self._store.store_ms, born, physical, flag))

    def of(self, *topics: str) -> list[Row]:
        return sorted(row for row in self.rows if row[0] in topics)

    def vouch(self, begin: int = 0) -> None:
        """Leaves the store as a stopped broker of OrbitMQ's does: times rise from `begin` on."""
        layout = StoreLayout.at(self.root)
        layout.own.mkdir(exist_ok=True)
        rising.store(layout, begin)
        recorded = positions.Positions(layout)
        recorded.record_stop(self._store.end, self._store.store_ms)
        recorded.close()

    def write(self, physical: int, data: bytes) -> None:
        """Overwrites bytes of the log."""
        self._store.write(physical, data)

    def spoil(self, physical: int) -> None:
        """Makes this record unreadable."""
        self.write(physical + 4, b"\0\0\0\1")

    def spoil_body(self, physical: int) -> None:
        """Changes its first byte."""
        self.write(physical + 88, b"\xff")
