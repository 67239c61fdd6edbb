"""A store made by hand for readers: CommitLog files, ConsumeQueues, and a control block and topic table as the broker keeps
them, all in this process. It cannot run: everything moves by calls only."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

from orbitmq.native._core import ffi, lib
from orbitmq.native._types import Reader
from orbitmq.store.commit_log import record

FILE_UNITS = 50  # small, so that readers cross ConsumeQueue files


class ComposedStore:
    """`append` writes log and ConsumeQueue; `publish` lets readers see it."""

    def __init__(self, root: Path, *, log_file_size: int = 1 << 16, topics: int = 16, queues: int = 1024) -> None:
        self.root = root
        self.log_file_size = log_file_size
        self.end = 0
        self.store_ms = 1_000_000
        self._memory: list[mmap.mmap] = []
        self.control = self._segment("struct control *", ffi.sizeof("struct control"))
        self.topics = self._segment("struct topics *", lib.topics_size(topics, queues))
        settings = ffi.new("struct settings *")
        settings.log_file_size = log_file_size
        settings.lane_capacity = 8 << 20
        settings.queue_file_units = FILE_UNITS
        settings.lanes = 1
        settings.message_max = min(log_file_size // 2, 1 << 20)
        settings.store = str(root).encode()
        lib.control_init(self.control, settings, 1)
        lib.topics_init(self.topics, topics, queues, 1)
        self.next: dict[int, int] = {}
        self.min: dict[int, int] = {}
        self._writers: dict[int, Any] = {}
        (root / "commitlog").mkdir(parents=True)

    def _segment(self, kind: str, size: int) -> Any:
        memory = mmap.mmap(-1, size)
        self._memory.append(memory)
        return ffi.cast(kind, ffi.from_buffer(memory))

    def add_topic(self, name: str, queues: int) -> int:
        """Adds a topic; returns its first queue slot."""
        index = ffi.new("uint32_t *")
        assert lib.topics_add(self.topics, name.encode(), len(name), queues, queues, 6, index) == 0
        seen = ffi.new("struct topic_seen *")
        assert lib.topic_see(self.topics, index[0], seen)
        return int(seen.first_slot)

    def append(self, topic: str, slot: int, body: bytes, *, store_ms: int | None = None, **fields: Any) -> int:
        """Writes one message to a queue slot; returns its physical offset. `fields`: of store.record.encode."""
        seen = ffi.new("struct queue_seen *")
        lib.queue_see(self.topics, slot, seen)
        offset = self.next.setdefault(slot, 0)
        self.store_ms = self.store_ms + 1 if store_ms is None else store_ms
        place = {"queue_id": seen.queue_id, "queue_offset": offset, "store_ms": self.store_ms}
        encoded = record.encode(topic, body, physical_offset=self.end, **place, **fields)
        left = self.log_file_size - self.end % self.log_file_size
        if len(encoded) + 8 > left:
            self.write(self.end, left.to_bytes(4, "big") + record.BLANK_MAGIC.to_bytes(4, "big"))
            self.end += left
            encoded = record.encode(topic, body, physical_offset=self.end, **place, **fields)
        physical, size = self.end, len(encoded)
        self.write(physical, encoded)
        self.end += size
        properties = fields.get("properties", {})
        tag = properties.get("TAGS", "").encode()
        code = lib.java_hash(0, tag, len(tag)) if tag else 0
        self.put_unit(topic, slot, offset, physical, size, code)
        self.next[slot] = offset + 1
        return physical

    def put_unit(self, topic: str, slot: int, offset: int, *unit_parts: int) -> None:
        """Writes a ConsumeQueue unit with any content: physical offset, size, tags code."""
        physical, size, code = unit_parts
        seen = ffi.new("struct queue_seen *")
        lib.queue_see(self.topics, slot, seen)
        folder = ffi.new("char[4096]")
        lib.consume_queue_folder(folder, str(self.root).encode(), topic.encode(), len(topic), seen.queue_id)
        writer = self._writers.setdefault(slot, ffi.new("struct consume_queue_writer *"))
        unit = ffi.new("struct queue_unit *", {"physical_offset": physical, "size": size, "tags_code": code})
        assert lib.consume_queue_put(writer, folder, FILE_UNITS, offset, unit) == 0

    def write(self, physical: int, data: bytes) -> None:
        """Writes bytes into the log, anywhere."""
        path = self.root / "commitlog" / f"{physical - physical % self.log_file_size:020d}"
        if not path.exists():
            with path.open("wb") as file:
                file.truncate(self.log_file_size)
        with path.open("r+b") as file:
            file.seek(physical % self.log_file_size)
            file.write(data)

    def publish(self, *slots: int) -> None:
        """Makes what was appended readable, in these slots or in all."""
        for slot in slots or self.next:
            lib.queue_recovered(self.topics, slot, self.min.get(slot, 0), self.next[slot], self.end)
        log_min = min((int(path.name) for path in (self.root / "commitlog").iterdir()), default=0)
        lib.control_recovered(self.control, log_min, self.end, self.end, 0, self.end, self.store_ms)

    def reader(self, *slots: int) -> Reader:
        """A reader of this store; with slots, of these queues from their beginning, and all of what was appended."""
        made = Reader(int(ffi.cast("uintptr_t", self.control)), int(ffi.cast("uintptr_t", self.topics)), self)
        if slots:
            self.publish()
        for slot in slots:
            made.add(slot, 0)
        return made
