"""One life of a broker's stages in this process, over a store: recovery, then handler, writer, reput, flush service and
allocator, each moved a step at a time. The stages are the real ones; only the processes and the clients are missing."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from orbitmq.actors.allocator import Allocator
from orbitmq.actors.flush import Flush
from orbitmq.actors.groups.group_commits import CommitTable, GroupCommitsNote
from orbitmq.actors.halves import HalvesNote
from orbitmq.actors.reput import Reput
from orbitmq.actors.supervisor import ground as ground_module
from orbitmq.actors.supervisor.ground import Ground
from orbitmq.actors.supervisor.segments import Segments
from orbitmq.actors.topics.topic_registry import TopicRegistry
from orbitmq.actors.writer import Writer
from orbitmq.client.consumer.group_offsets import Shift, message_of
from orbitmq.native._core import ffi, lib
from orbitmq.store import group_commits
from orbitmq.store.commit_log.mapped_file import allocate
from orbitmq.store.group_commits import COMMITS_TOPIC
from orbitmq.store.index_file import IndexFile
from orbitmq.store.index_headers import index_files
from orbitmq.store.recovery.recover import recover
from orbitmq.store.recovery.report import RecoveryReport
from orbitmq.store.settings.settings import StoreSettings
from orbitmq.store.settings.tree_settings import TreeSettings
from tests.native.pipeline import (
    ATOMIC,
    FRAME,
    MESSAGE,
    SEND_DEDUP,
    SEND_FLUSH,
    SQ_ATOMIC,
    Session,
    Verdict,
    message,
)

WINDOW = 64
QUEUES = 2
GENERATION = 7
GROUP = "passing-on"
SEND_OFFSETS = (1 << 32) - 5  # native/shared/session.h
BORN_MS = 1_700_000_000_000


class Memory(Segments):
    """Segments without a name: memory of this process."""

    def __init__(self, *given: Any) -> None:
        self._held: list[Any] = []
        super().__init__(*given)

    def _make(self, part: str, size: int, group: int | None) -> Any:
        self._held.append(ffi.from_buffer(mmap.mmap(-1, size)))
        return self._held[-1]


class IdleFlush(Flush):
    """Its duties run when the test says so, not in a thread."""

    def _duties(self) -> None:
        pass


@contextmanager
def finder(folder: Path, files: StoreSettings) -> Iterator[Callable[[int], list[int]]]:
    """Looks up a hash in all files of an index, each opened once: places, newest first."""
    with ExitStack() as stack:
        paths = reversed(index_files(folder))
        held = [stack.enter_context(IndexFile(path, files.index_slots, files.index_entries)) for path in paths]
        yield lambda hash_: [place for file in held for place in file.find(hash_)]


def open_store(settings: TreeSettings) -> RecoveryReport:
    """What a start does before any actor runs (actors/supervisor/ground.py, actors/supervisor/recovery.py)."""
    settings.layout.open(settings.files)
    report = recover(settings.layout, settings.files, lambda line: None)
    size = settings.files.log_file_size
    if not report.read_only:
        allocate(settings.layout, report.end - report.end % size, size)
    return report


class Life:
    """From recovery to death or stop. close() releases what the process holds, and changes nothing in the store."""

    def __init__(
        self, settings: TreeSettings, report: RecoveryReport, topics: tuple[str, ...], own: tuple[str, ...] = (COMMITS_TOPIC,)
    ) -> None:
        """topics: of messages. own: the broker's."""
        self.settings = settings
        self._lock = os.open(settings.layout.root, os.O_RDONLY | os.O_CLOEXEC)  # nobody else is there to be locked out
        lock: Any = SimpleNamespace(descriptor=self._lock)
        presence: Any = SimpleNamespace(listener=None)
        self.ground = Ground(settings, lock, presence, GENERATION)
        with patch.object(ground_module, "Segments", Memory):
            self.ground.build(report)
        self.tree = self.ground.tree
        registry = TopicRegistry(settings.layout, self.tree.topics)
        registry.load()
        self.topics = {topic: registry.create(topic, QUEUES) for topic in topics}
        for name in own:
            registry.add_waiting(name)
            found = registry.find(name)
            assert found is not None
            self.topics[name] = found
        self.commits = CommitTable(self.tree)  # once it takes writes
        self.registry = registry
        self.reput = Reput(self.tree)
        self._open: list[Any] = [self.reput]
        self._handler: Any = None

    def take_writes(self) -> None:
        """Begins to accept messages. What recovery left to be indexed is indexed before, because the writer waits for it."""
        self.index()
        self.flush = IdleFlush(self.tree)
        self.allocator = Allocator(self.tree)
        noted = group_commits.load(self.settings.layout).next
        self.forgotten = range(noted, self.registry.bounds(self.topics[COMMITS_TOPIC].first_slot).minimum)
        self.writer = Writer(self.tree)
        self.writer.run(10_000)
        self._open += [self.flush, self.allocator, self.writer]
        self._handler_tree = self.tree.attach(lib.ACTOR_HANDLER)
        self._handler = lib.handler_open(self._handler_tree, 0)
        first = next(iter(self.topics.values()))
        hashes = {topic: lib.topic_hash(topic.encode(), len(topic)) for topic in self.topics}
        self._hashes = hashes
        inside: Any = SimpleNamespace(
            control=self.tree.control, wake=self.tree.wake, topic=first.index, topic_hash=hashes[first.name]
        )
        self._session = Session(inside, 0, WINDOW, 1 << 18, 1)
        self._answered = 0
        lib.session_join_group(self.tree.control, 0, GROUP.encode(), len(GROUP))
        self._note = GroupCommitsNote(self.tree)
        self._halves_note = HalvesNote(self.tree)

    def send(
        self, topic: str, messages: list[tuple[bytes, bytes, int]], *, flushed: bool, ids: bool = False, atomic: bool = False
    ) -> list[Verdict]:
        """Sends (body, properties, queue) each, and waits for the verdicts; `flushed` asks for the disk too. ids: properties
        begin with one."""
        assert len(messages) <= WINDOW
        parts = [message(body, properties, queue) for body, properties, queue in messages]
        flags = (SEND_FLUSH if flushed else 0) | (SEND_DEDUP if ids else 0)
        return self.send_parts(topic, parts, flags, atomic=atomic)

    def send_parts(self, topic: str, parts: list[bytes], flags: int = 0, *, atomic: bool = False) -> list[Verdict]:
        """The same with whole parts of a frame. flags: SEND_*."""
        index, name_hash = self.topics[topic].index, self._hashes[topic]
        if atomic:
            self._session.send_atomic((index, parts), topic_hash=name_hash, flags=flags)
        else:
            self._session.send(*parts, topic=index, topic_hash=name_hash, flags=flags)
        return self._verdicts(len(parts))

    def pass_on(self, topic: str, messages: list[tuple[bytes, bytes, int]], commits: bytes, *, flushed: bool) -> list[Verdict]:
        """An atomic batch, which commits offsets of the group too; its last verdict is theirs. commits: of `commits_of`."""
        flags = SEND_FLUSH if flushed else 0
        member = self._session.shape.slot.to_bytes(4, "little") + self._session.shape.epoch.to_bytes(4, "little")
        offsets = MESSAGE.pack(len(commits), len(member), 0, 0, 0, SEND_OFFSETS) + member + commits
        frames = (
            (topic, [message(body, properties, queue) for body, properties, queue in messages]),
            (COMMITS_TOPIC, [offsets + bytes(-len(offsets) % 8)]),
        )
        content = ATOMIC.pack(len(messages) + 1, len(frames))
        for name, parts in frames:
            content += FRAME.pack(self.topics[name].index, self._hashes[name], len(parts), flags, BORN_MS) + b"".join(parts)
        self._session.put(content, SQ_ATOMIC)
        return self._verdicts(len(messages) + 1)

    def commits_of(self, queue: tuple[str, int], to: int) -> bytes:
        """What a member stores that has the group go on at `to`."""
        return bytes(message_of(GROUP, [Shift(queue, self.commits.get(GROUP, queue), to)], 0, 0)[0][1])

    def note_commits(self) -> int:
        """The scheduler's note of where groups are, if the log is on disk so far. Returns how many of their records it covers
        for certain."""
        for _ in range(2):  # looks, then stores what it saw
            self._note._keep()
        return self._note._stored or 0

    def note_halves(self) -> None:
        """The scheduler's note of which half messages are settled, if the log is on disk so far."""
        for _ in range(2):
            if self._halves_note.ready():
                self._halves_note._keep()

    def _verdicts(self, count: int) -> list[Verdict]:
        while lib.handler_step(self._handler) + self.writer.step() or self._session.completed < self._answered + count:
            self.make_file()
        first = self._answered + 1
        self._answered = self._session.completed
        return [self._session.verdict(sequence) for sequence in range(first, self._answered + 1)]

    def make_file(self) -> None:
        """The allocator's look: makes the next file if the one behind the writer's is not there."""
        seen, size = self.tree.positions(), self.settings.files.log_file_size
        if seen.allocated < seen.wrote - seen.wrote % size + 2 * size:
            self.allocator.need()

    def index(self, limit: int = 1 << 30) -> None:
        """reput, up to `limit` bytes, or to the end."""
        while self.reput.handle and lib.reput_step(self.reput.handle, min(limit, 1 << 20)) and limit == 1 << 30:
            pass

    @property
    def flushed(self) -> int:
        return int(self.tree.positions().flushed)

    @property
    def sync_failed(self) -> bool:
        """The error of the log: nothing more is accepted."""
        return bool(self.tree.positions().flushed_error)

    @property
    def queues_failed(self) -> bool:
        return bool(lib.control_queues_error(self.tree.control))

    def record(self) -> None:
        """The flush service records how far it has got."""
        positions = self.flush._positions
        assert positions is not None
        self.flush._record(positions)

    def sync_queues(self) -> None:
        """The flush service's slow duties."""
        self.flush._sync.run()

    def expire(self, will_begin: Callable[[int], None]) -> int:
        """Retention's look. will_begin: told where the log will begin, before anything is removed. Returns how many files of
        the log were removed."""
        retention = self.flush._retention
        within = retention._within_bytes

        def tell(end: int, *rest: Any) -> int:
            begin = within(end, *rest)
            will_begin(begin)
            return begin

        retention._within_bytes = tell  # type: ignore[method-assign]
        removed = retention.run()
        assert removed.whole
        return removed.log

    def stop(self) -> bool:
        """A clean stop: stages finish their work, then the store is left as the next start expects it."""
        self.writer.drain()
        self.index()
        self.flush.drain()
        return self.ground.close_cleanly()

    def close(self) -> None:
        if self._handler is not None:
            lib.handler_close(self._handler)
            lib.attachment_close(self._handler_tree)
            self.flush._ended.set()
            os.close(self._session.descriptor)
        for actor in self._open:
            actor.close()
        self._open.clear()
        os.close(self.tree.wake_memfd)
        os.close(self._lock)
