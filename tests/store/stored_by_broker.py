"""A small store that a real broker wrote and closed, several files of each kind, kept in memory: tests damage copies of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import orbitmq
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings.settings import StoreSettings
from orbitmq.store.trim import trim
from orbitmq.store.verify.findings import Finding, Verdict
from orbitmq.store.verify.verify import verify

SETTINGS = StoreSettings(log_file_size=64 << 10, queue_file_units=40, index_slots=61, index_entries=150)
TOPICS = ("flows", "alarms")
QUEUES = 2


@dataclass(slots=True)
class Stored:
    """The store in `layout`, and what its files held when the broker had closed it."""

    layout: StoreLayout
    files: dict[Path, bytes] = field(repr=False)
    bodies: dict[tuple[str, int], list[bytes]] = field(repr=False)
    folders: set[Path] = field(repr=False)

    def restore(self) -> None:
        """Restores the store to what the broker left."""
        for path in sorted(self.layout.root.rglob("*"), reverse=True):
            if path.is_file() and path not in self.files:
                path.unlink()
            elif path.is_dir() and path not in self.folders:
                path.rmdir()
        for path in self.folders:
            path.mkdir(parents=True, exist_ok=True)
        for path, content in self.files.items():
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)

    def spoil(self, path: Path, at: int, content: bytes) -> None:
        """Overwrites bytes of a file."""
        with path.open("r+b") as file:
            file.seek(at)
            file.write(content)

    def flip(self, path: Path, bit: int) -> None:
        """Flips one bit of a file: bit 0 is the lowest of its first byte."""
        self.spoil(path, bit // 8, bytes([self.files[path][bit // 8] ^ 1 << bit % 8]))

    def verify(self) -> tuple[Verdict, list[Finding]]:
        found: list[Finding] = []
        return verify(self.layout, SETTINGS, found.append), found

    def of(self, folder: str) -> list[Path]:
        """The files under a folder of the store."""
        return sorted(path for path in self.files if path.is_relative_to(self.layout.root / folder))


def body(number: int) -> bytes:
    """Bodies of many sizes, all of them different."""
    return b"%d." % number + bytes([number % 251]) * (number * 37 % 200)


def store_by_broker(root: Path, name: str, messages: int = 600, early: int = 0) -> Stored:
    """Sends to two topics of two queues, with tags and keys; stops the broker. early: messages of one more topic, sent
    first, and removed by retention with the oldest log file."""
    bodies: dict[tuple[str, int], list[bytes]] = {}
    sizes = {"log_file_size": SETTINGS.log_file_size, "queue_file_units": SETTINGS.queue_file_units}
    index = {"index_slots": SETTINGS.index_slots, "index_entries": SETTINGS.index_entries}
    with orbitmq.Broker(root, name=name, handlers=1, **sizes, **index) as broker:
        for topic in TOPICS:
            broker.create_topic(topic, QUEUES)
        if early:
            broker.create_topic("early", 1)
        with broker.producer() as producer:
            for number in range(early):
                producer.send("early", body(number), queue=0)
            for number in range(messages):
                topic, queue = TOPICS[number % 2], number // 2 % QUEUES
                keys = [f"k{number}", f"group-{number % 7}"] if number % 3 else []
                producer.send(topic, body(number), queue=queue, tags=f"t{number % 5}" if number % 4 else None, keys=keys)
                bodies.setdefault((topic, queue), []).append(body(number))
    layout = StoreLayout.at(root)
    if early:
        assert trim(layout, SETTINGS, SETTINGS.log_file_size, lambda: False).log == 1
    files = {path: path.read_bytes() for path in layout.root.rglob("*") if path.is_file()}
    return Stored(layout, files, bodies, {path for path in layout.root.rglob("*") if path.is_dir()})
