"""A tree without processes: every segment is in this process, and the actors' loops are moved by hand, a step at a time."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orbitmq.native._core import ffi, lib
from orbitmq.shm.memfd import create_memfd
from orbitmq.shm.ring import RingProducer
from orbitmq.store.commit_log import mapped_file
from orbitmq.store.commit_log.record import Host, Record, check, pack_host, stored_host
from orbitmq.store.layout import StoreLayout

APPENDED, UNKNOWN_TOPIC, NO_PERMISSION, UNKNOWN_QUEUE, TOO_LARGE, PROPERTIES, STORE_FULL = range(1, 8)
STORE_FAILED = 8
RESERVED = 10
SYNC_FAILED = 11
DUPLICATE, DEDUP_FULL = 12, 13
BATCH_REFUSED, BATCH_TOO_LARGE, BATCH_DIFFERS = 16, 19, 22
SQ_SEND, SQ_ATOMIC = 1, 2
SEND_FLUSH = 1
SEND_DEDUP = 2
SEND_BORN = 4
HERE = ("127.0.0.1", 0)  # whence the messages of a frame come that does not say it
FRAME = struct.Struct("=IIIIQ")
SIZE = struct.Struct("=I")
ATOMIC = struct.Struct("=II")
MESSAGE = struct.Struct("=IIIIII")
GENERATION = 77
PERM_READ, PERM_WRITE = 4, 2


def shared(size: int) -> Any:
    """Zeroed memory, aligned to a page, as a cffi buffer."""
    return ffi.from_buffer(mmap.mmap(-1, (size + 4095) & ~4095))


@dataclass
class Verdict:
    physical_offset: int
    queue_offset: int
    size: int
    queue_id: int
    code: int
    detail: int


def message(body: bytes, properties: bytes = b"", queue: int = 0, flag: int = 0) -> bytes:
    """One message of a frame, padded."""
    content = MESSAGE.pack(len(body), len(properties), queue, flag, 0, 0) + properties + body
    return content + bytes(-len(content) % 8)


def born(host: tuple[str, int]) -> bytes:
    """What follows the head of a frame that says whence its messages come; nothing if it does not."""
    packed = pack_host(host)
    return b"" if host is HERE else packed.ljust(20, b"\0") + SIZE.pack(len(packed))


class Session:
    """A producer session of the pipeline, and its client's ring."""

    def __init__(self, pipeline: Pipeline, slot: int, window: int, sq_capacity: int, epoch: int) -> None:
        self.shape = ffi.new("struct session_shape *")
        self.shape.slot, self.shape.epoch, self.shape.window = slot, epoch, window
        self.shape.sq_capacity, self.shape.message_max, self.shape.pid = sq_capacity, sq_capacity // 4, os.getpid()
        size = lib.session_size(self.shape)
        self.descriptor = create_memfd("test", size)
        self._memory = mmap.mmap(self.descriptor, size)
        held = ffi.from_buffer(self._memory)
        self._held = held
        self.pointer = ffi.cast("struct session *", held)
        lib.session_init(self.pointer, self.shape, GENERATION)
        lib.session_open_entry(pipeline.control, self.descriptor, os.fstat(self.descriptor).st_ino, self.shape)
        self.parts = ffi.new("struct session_parts *")
        lib.session_parts(self.pointer, self.shape, self.parts)
        offset = int(ffi.cast("uintptr_t", self.parts.sq)) - int(ffi.cast("uintptr_t", held))
        self.ring_offset = offset
        self.memory = self._memory
        self.ring = RingProducer(self._memory, sq_capacity, offset)
        self._pipeline = pipeline

    def put(self, content: bytes, kind: int = SQ_SEND) -> None:
        """Publishes a raw record, whatever it holds, and tells the handler."""
        room = self.ring.claim(len(content))
        assert room is not None, "the test's ring is full"
        room[:] = content
        self.ring.commit(len(content), kind)
        self.ring.publish()
        lib.session_call_handler(self._pipeline.control, self._pipeline.wake, self.shape.slot)

    def send(
        self,
        *messages: bytes,
        topic: int | None = None,
        topic_hash: int | None = None,
        flags: int = 0,
        host: tuple[str, int] = HERE,
    ) -> None:
        """One frame of messages."""
        flags |= SEND_BORN * (host is not HERE)
        index = self._pipeline.topic if topic is None else topic
        name_hash = self._pipeline.topic_hash if topic_hash is None else topic_hash
        self.put(FRAME.pack(index, name_hash, len(messages), flags, 1_700_000_000_000) + born(host) + b"".join(messages))

    def send_atomic(
        self, *frames: tuple[int, list[bytes]], flags: int = 0, topic_hash: int | None = None, host: tuple[str, int] = HERE
    ) -> None:
        """An atomic batch of frames, each a topic's index and its messages."""
        name_hash = self._pipeline.topic_hash if topic_hash is None else topic_hash
        content = b""
        flags |= SEND_BORN * (host is not HERE)
        for topic, messages in frames:
            head = FRAME.pack(topic, name_hash, len(messages), flags, 1_700_000_000_000)
            content += head + born(host) + b"".join(messages)
        total = sum(len(messages) for _, messages in frames)
        self.put(ATOMIC.pack(total, len(frames)) + content, SQ_ATOMIC)

    @property
    def completed(self) -> int:
        return int(lib.session_completed(self.pointer))

    @property
    def state(self) -> int:
        return int(lib.session_get_state(self._pipeline.control, self.shape.slot))

    def verdict(self, sequence: int) -> Verdict:
        slot = self.parts.slots[(sequence - 1) & (self.shape.window - 1)]
        return Verdict(slot.physical_offset, slot.queue_offset, slot.size, slot.queue_id, slot.code, slot.detail)

    def verdicts(self) -> list[Verdict]:
        return [self.verdict(sequence) for sequence in range(1, self.completed + 1)]


@dataclass
class Pipeline:
    """One lane, one topic "T" with `queues` queues."""

    layout: StoreLayout
    file_size: int
    message_max: int
    control: Any = None
    topics: Any = None
    wake: Any = None
    lane: Any = None
    topic: int = 0
    topic_hash: int = 0
    files: int = 0
    _keep: list[Any] = field(default_factory=list)

    def tree(self, actor: int) -> Any:
        lanes = ffi.new("void *[1]", [self.lane])
        self._keep.append(lanes)
        return lib.attachment_open(self.control, self.topics, self.wake, lanes, 1, actor)

    def handler(self) -> Any:
        return lib.handler_open(self.tree(8), 0)

    def writer(self) -> Any:
        """A writer that has taken over."""
        writer = lib.writer_open(self.tree(2))
        assert lib.writer_take_over(writer, 1000) == lib.RUN_NEED
        return writer

    def session(self, slot: int = 0, window: int = 64, sq_capacity: int = 1 << 20, epoch: int = 1) -> Session:
        session = Session(self, slot, window, sq_capacity, epoch)
        self._keep.append(session)
        return session

    def allocate(self) -> None:
        """Makes the next CommitLog file ready."""
        mapped_file.allocate(self.layout, self.files * self.file_size, self.file_size)
        self.files += 1
        lib.control_set_allocated(self.control, self.files * self.file_size, 0)

    @property
    def wrote(self) -> int:
        seen = ffi.new("struct positions_seen *")
        lib.control_positions(self.control, seen)
        return int(seen.wrote)

    def log(self) -> bytes:
        """The bytes of every file, one after another."""
        return b"".join(self.layout.log_file(n * self.file_size).read_bytes() for n in range(self.files))

    def records(self, since: int = 0) -> list[Record]:
        """Every record below the wrote position; blank markers are skipped. since: where one begins."""
        content, at, found = memoryview(self.log()), since, []
        while at < self.wrote:
            left = self.file_size - at % self.file_size
            if content[at + 4 : at + 8] == (0xCBD43194).to_bytes(4, "big"):
                assert int.from_bytes(content[at : at + 4], "big") == left
                at += left
                continue
            record = check(content[: at + left], at, physical_offset=at)
            assert isinstance(record, Record), f"at {at}: {record!r}"
            found.append(record)
            at += record.size
        return found


@contextmanager
def pipeline(
    root: Path,
    *,
    file_size: int = 1 << 20,
    message_max: int = 128 << 10,
    lane_capacity: int = 1 << 20,
    queues: int = 4,
    perm: int = PERM_READ | PERM_WRITE,
    read_only: bool = False,
    go_on_unsynced: bool = False,
    files: int = 1,
    store_host: Host = ("127.0.0.1", 10911),
) -> Iterator[Pipeline]:
    """Segments in place, `files` CommitLog files ready, nothing running."""
    layout = StoreLayout.at(root)
    layout.make_folders()
    built = Pipeline(layout, file_size, message_max)
    settings = ffi.new("struct settings *")
    settings.log_file_size, settings.lane_capacity, settings.lanes = file_size, lane_capacity, 1
    settings.queue_file_units, settings.index_slots, settings.index_entries = 1000, 100, 1000
    settings.message_max, settings.flush_interval_ms, settings.read_only = message_max, 500, read_only
    settings.go_on_unsynced = go_on_unsynced
    settings.dedup_window_ms, settings.dedup_ids = 120_000, 1000
    settings.supervisor_pid = os.getpid()
    settings.store_host = stored_host(store_host)
    settings.store = str(root).encode()
    control, wake = shared(ffi.sizeof("struct control")), shared(ffi.sizeof("struct wake"))
    topics, lane = shared(lib.topics_size(64, 1024)), shared(lib.lane_size_of(lane_capacity))
    built._keep += [control, wake, topics, lane]
    built.control, built.wake = ffi.cast("struct control *", control), ffi.cast("struct wake *", wake)
    built.topics, built.lane = ffi.cast("struct topics *", topics), ffi.cast("struct lane *", lane)
    lib.control_init(built.control, settings, GENERATION)
    lib.wake_init(built.wake, GENERATION)
    lib.topics_init(built.topics, 64, 1024, GENERATION)
    lib.lane_init(built.lane, lane_capacity, GENERATION)
    index = ffi.new("uint32_t *")
    assert lib.topics_add(built.topics, b"T", 1, queues, queues, perm, index) == 0
    built.topic, built.topic_hash = index[0], lib.topic_hash(b"T", 1)
    for _ in range(files):
        built.allocate()
    yield built


def run(handler: object, writer: object) -> None:
    """Steps both until neither finds anything to do."""
    while lib.handler_step(handler) + lib.writer_step(writer):
        pass
