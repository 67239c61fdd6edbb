"""A log made by plain Python, the shared memory that reput needs, and a plain Python model of the expected result.

Nothing of the record encoder, hash or index under test is used on this side.
"""

from __future__ import annotations

import mmap
import random
import struct
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orbitmq.native._core import ffi, lib
from orbitmq.store.consume_queue import ConsumeQueue
from orbitmq.store.index_file import IndexFile
from orbitmq.store.index_headers import index_files

TOPIC_CAPACITY = 256
QUEUE_CAPACITY = 2048
LOG_FILE = 1 << 16
FILE_UNITS = 32
SLOTS, ENTRIES = 101, 60
FIRST_MS = 1_700_000_000_000
PREPARED, COMMITTED, ROLLED_BACK = 4, 8, 12


def java_hash(text: str) -> int:
    """Java's String.hashCode, signed."""
    value = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def index_hash(topic: str, key: str) -> int:
    value = abs(java_hash(f"{topic}#{key}"))
    return 0 if value == 1 << 31 else value


@dataclass(frozen=True, slots=True)
class Message:
    topic: str
    queue: int
    tag: str | None = None
    keys: tuple[str, ...] = ()
    unique_key: str | None = None
    transaction: int = 0
    body: bytes = b"body"
    delay: str | None = None
    due_ms: int | None = None  # after it was stored; its unit has this instead of the tag's hash


@dataclass(slots=True)
class Model:
    """What the log holds: the units of each queue, and which records carry each key, oldest first."""

    log_file: int = LOG_FILE
    files: dict[int, bytearray] = field(default_factory=dict)
    end: int = 0
    store_ms: int = FIRST_MS
    next_offset: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    units: dict[tuple[str, int], list[bytes]] = field(default_factory=lambda: defaultdict(list))
    first_offset: dict[tuple[str, int], int] = field(default_factory=dict)
    stored_ms: dict[tuple[str, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    holders: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    boundaries: list[int] = field(default_factory=lambda: [0])

    def append(self, message: Message) -> None:
        names = [("TAGS", message.tag), ("KEYS", " ".join(message.keys) or None), ("UNIQ_KEY", message.unique_key)]
        names.append(("DELAY", message.delay))
        properties = "\x02".join(f"{name}\x01{value}" for name, value in names if value is not None).encode()
        topic = message.topic.encode()
        size = 91 + len(message.body) + len(topic) + len(properties)
        left = self.log_file - self.end % self.log_file
        if size + 8 > left:
            self._write(struct.pack(">II", left, 0xCBD43194))
            self.end += left
        queue = (message.topic, message.queue)
        in_queue = message.transaction in (0, COMMITTED)
        offset = self.next_offset[queue] if in_queue else 0
        self._write(
            struct.pack(
                ">IIIIIQQIQ8sQ8sIQI",
                *(size, 0xDAA320A7, 0, message.queue, 0, offset, self.end, message.transaction, self.store_ms),
                *(bytes(8), self.store_ms, bytes(8), 0, 0, len(message.body)),
            )
            + message.body
            + struct.pack(">B", len(topic))
            + topic
            + struct.pack(">H", len(properties))
            + properties
        )
        if in_queue:
            code = java_hash(message.tag) if message.tag else 0
            if message.due_ms is not None:
                code = self.store_ms + message.due_ms
            self.first_offset.setdefault(queue, offset)
            self.units[queue].append(struct.pack(">QIq", self.end, size, code))
            self.stored_ms[queue].append(self.store_ms)
            self.next_offset[queue] = offset + 1
        if message.transaction != ROLLED_BACK:
            for key in ((message.unique_key,) if message.unique_key else ()) + message.keys:
                self.holders[message.topic, key].append(self.end)
        self.end += size
        self.store_ms += 7
        self.boundaries.append(self.end)

    def _write(self, data: bytes) -> None:
        start = self.end - self.end % self.log_file
        if start not in self.files:
            self.files[start] = bytearray(self.log_file)
        self.files[start][self.end - start : self.end - start + len(data)] = data

    def save(self, store: Path) -> None:
        folder = store / "commitlog"
        folder.mkdir(parents=True, exist_ok=True)
        for start, content in self.files.items():
            (folder / f"{start:020d}").write_bytes(content)


def random_message(rng: random.Random, topics: list[str], number: int) -> Message:
    shared = tuple(f"k{rng.randrange(40)}" for _ in range(rng.choice((0, 0, 1, 1, 2))))
    return Message(
        topic=rng.choice(topics),
        queue=rng.randrange(4),
        tag=rng.choice((None, "paid", "schön", "x" * 30)),
        keys=tuple(dict.fromkeys(shared)),
        unique_key=f"u-{number}" if rng.random() < 0.6 else None,
        transaction=rng.choice((0,) * 12 + (PREPARED, COMMITTED, ROLLED_BACK)),
        body=b"b" * rng.randrange(200),
    )


class Rig:
    """Control block, topic table and wake words in memory that forked children share; one reput at a time."""

    def __init__(self, store: Path, model: Model, topics: list[str], *, queues: int = 4, **settings: int) -> None:
        self.store = store
        self.model = model
        self.settings = {
            "log_file_size": model.log_file,
            "lane_capacity": 1 << 20,
            "queue_file_units": FILE_UNITS,
            "index_slots": SLOTS,
            "index_entries": ENTRIES,
            "lanes": 1,
            "message_max": 1 << 15,
            **settings,
        }
        self._memory: list[mmap.mmap] = []
        self.topic_index: dict[str, int] = {}
        self.boot(topics, queues)

    def segment(self, size: int) -> Any:
        memory = mmap.mmap(-1, size)
        self._memory.append(memory)
        return ffi.from_buffer(memory)

    def boot(self, topics: list[str], queues: int = 4, reput: int = 0) -> None:
        """A fresh life of the tree: everything in shared memory is new."""
        value = ffi.new("struct settings *", self.settings)
        path = str(self.store).encode()
        ffi.memmove(value.store, path, len(path))
        self.control = ffi.cast("struct control *", self.segment(ffi.sizeof("struct control")))
        lib.control_init(self.control, value, 1)
        table = self.segment(lib.topics_size(TOPIC_CAPACITY, QUEUE_CAPACITY))
        self.topics = ffi.cast("struct topics *", table)
        lib.topics_init(self.topics, TOPIC_CAPACITY, QUEUE_CAPACITY, 1)
        self.wake = ffi.cast("struct wake *", self.segment(ffi.sizeof("struct wake")))
        lib.wake_init(self.wake, 1)
        for topic in topics:
            self.add_topic(topic, queues)
        self.wrote(self.model.end, reput)

    def add_topic(self, topic: str, queues: int = 4) -> None:
        index = ffi.new("uint32_t *")
        name = topic.encode()
        assert lib.topics_add(self.topics, name, len(name), queues, queues, 6, index) == 0
        self.topic_index[topic] = index[0]

    def wrote(self, end: int, reput: int | None = None) -> None:
        """Publishes a wrote position, as the writer would."""
        at = self.position() if reput is None else reput
        top = (end // self.model.log_file + 1) * self.model.log_file
        lib.control_recovered(self.control, 0, end, at, end, top, FIRST_MS)

    def positions(self) -> Any:
        seen = ffi.new("struct positions_seen *")
        lib.control_positions(self.control, seen)
        return seen

    def position(self) -> int:
        return int(self.positions().reput)

    def open(self) -> Reput:
        return Reput(self)

    def queue(self, topic: str, queue: int) -> Any:
        """What the queue's slot says."""
        topic_seen, seen = ffi.new("struct topic_seen *"), ffi.new("struct queue_seen *")
        assert lib.topic_see(self.topics, self.topic_index[topic], topic_seen)
        lib.queue_see(self.topics, topic_seen.first_slot + queue, seen)
        return seen

    def check(self, *, published: bool = True) -> None:
        """Compares files and published positions with the model."""
        for (topic, number), units in self.model.units.items():
            queue = ConsumeQueue(self.store, topic, number, self.settings["queue_file_units"])
            found = b"".join(queue.path(first).read_bytes() for first in queue.files())
            assert found.rstrip(b"\0") == b"".join(units).rstrip(b"\0")
            if published:
                seen = self.queue(topic, number)
                assert (seen.max_offset, seen.min_offset) == (len(units), 0)
                physical, size = struct.unpack(">QI", units[-1][:12])
                assert seen.physical_end == physical + size
        self.check_index()

    def check_index(self) -> None:
        """Every key is found exactly as often as it was sent, newest first; unknown keys are not found."""
        sizes = self.settings["index_slots"], self.settings["index_entries"]
        by_hash: dict[int, list[int]] = defaultdict(list)
        for (topic, key), places in self.model.holders.items():
            by_hash[index_hash(topic, key)] += places
        with ExitStack() as stack:  # each file opened once: there may be a hundred
            paths = reversed(index_files(self.store / "index"))
            files = [stack.enter_context(IndexFile(path, *sizes)) for path in paths]

            def find(hash_: int) -> list[int]:
                return [place for file in files for place in file.find(hash_)]

            for hash_, places in by_hash.items():
                assert find(hash_) == sorted(places, reverse=True), hash_
            assert find(index_hash("orders", "never sent")) == []


class Reput:
    """One life of reput, in this process."""

    def __init__(self, rig: Rig) -> None:
        self.tree = lib.attachment_open(rig.control, rig.topics, rig.wake, ffi.NULL, 0, lib.ACTOR_REPUT)
        self.handle = lib.reput_open(self.tree)
        assert self.handle != ffi.NULL, ffi.errno

    def step(self, limit: int = 1 << 20) -> int:
        messages: int = lib.reput_step(self.handle, limit)
        return messages

    @property
    def position(self) -> int:
        return int(lib.reput_position(self.handle))

    def missing(self) -> tuple[str, int]:
        name, queue = ffi.new("uint8_t[]", lib.TOPIC_NAME_MAX), ffi.new("uint32_t *")
        size = lib.reput_missing(self.handle, name, queue)
        return ffi.buffer(name, size)[:].decode(), int(queue[0])

    def run_until(self, end: int, limit: int = 1 << 20) -> None:
        while self.position < end:
            before = self.position
            self.step(limit)
            assert self.position > before, "no progress"

    def close(self) -> None:
        lib.reput_close(self.handle)
        lib.attachment_close(self.tree)
