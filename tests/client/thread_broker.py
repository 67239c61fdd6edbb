"""The real send handler, writer and flush service as threads of the test's own process, over a real log: what a producer needs
of a broker, without processes, so that a test can stop a stage and simulate the tree's death.

What may fail in it: `stall_now()` stops the handler between two steps, as if it had no processor; `kill()` makes the tree look
dead: what clients watch becomes readable, whatever the stages still do.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from orbitmq.client.connection.session import SessionHandle
from orbitmq.native._core import ffi, lib
from orbitmq.store.commit_log import mapped_file
from orbitmq.store.commit_log.record import Record, parse, stored_host
from orbitmq.store.layout import StoreLayout

FILE_SIZE = 16 << 20  # in memory it is cleared for each test
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
READY, CLOSING = 1, 2


class ThreadBroker:
    name = "test"
    timeout = 30.0

    def __init__(
        self, root: Path, *, message_max: int = 1 << 20, flush: bool = True, flush_every: bool = False, generation: int = 1
    ) -> None:
        self.layout = StoreLayout.at(root)
        self.layout.make_folders()
        mapped_file.allocate(self.layout, 0, FILE_SIZE)
        self._keep: list[Any] = []
        settings = ffi.new("struct settings *")
        settings.log_file_size = FILE_SIZE
        settings.lane_capacity = 8 << 20
        settings.lanes = 1
        settings.message_max = message_max
        settings.flush_interval_ms = 500
        settings.flush_every_message = flush_every
        settings.supervisor_pid = os.getpid()
        settings.store_host = stored_host(("127.0.0.1", 10911))
        settings.store = os.fsencode(root)
        self.control = self._map(ffi.sizeof("struct control"), "struct control *")
        self.wake = self._map(ffi.sizeof("struct wake"), "struct wake *")
        self.topics = self._map(lib.topics_size(64, 1024), "struct topics *")
        self.lane = self._map(lib.lane_size_of(8 << 20), "struct lane *")
        lib.control_init(self.control, settings, generation)
        lib.wake_init(self.wake, generation)
        lib.topics_init(self.topics, 64, 1024, generation)
        lib.lane_init(self.lane, 8 << 20, generation)
        lib.control_recovered(self.control, 0, 0, 0, 0, FILE_SIZE, 0)
        lib.control_set_tree_state(self.control, lib.TREE_RUNNING)
        self._life, self._death = os.pipe()
        self._sessions: list[tuple[int, int]] = []
        self.sessions_opened = 0
        self._stop = threading.Event()
        self._run = threading.Event()
        self._run.set()
        self._stalled = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lanes = ffi.new("void *[]", [self.lane])
        self._ends = ExitStack()
        writer = self._opened(lib.writer_open, lib.writer_close, lib.ACTOR_WRITER)
        while lib.writer_take_over(writer, 10) != lib.RUN_NEED:
            pass
        handler = self._opened(lambda tree: lib.handler_open(tree, 0), lib.handler_close, lib.ACTOR_HANDLER)
        self._start(lambda: lib.handler_run(handler, 20), pausable=True)
        self._start(lambda: lib.writer_run(writer, 20))
        if flush:
            service = self._opened(lib.flush_open, lib.flush_close, lib.ACTOR_FLUSH)
            self._start(lambda: lib.flush_run(service, 20))

    def _map(self, size: int, kind: str, descriptor: int = -1) -> Any:
        memory = mmap.mmap(descriptor, (size + 4095) & ~4095)
        self._keep.append(memory)
        return ffi.cast(kind, ffi.from_buffer(memory))

    def _opened(self, stage: Callable[[Any], Any], close: Callable[[Any], Any], actor: int) -> Any:
        tree = lib.attachment_open(self.control, self.topics, self.wake, self._lanes, 1, actor)
        self._ends.callback(lib.attachment_close, tree)
        made = stage(tree)
        self._ends.callback(close, made)
        return made

    def _start(self, step: Any, pausable: bool = False) -> None:
        def run() -> None:
            while not self._stop.is_set():
                if pausable and not self._run.is_set():
                    self._stalled.set()
                    self._run.wait()
                result = step()
                if result == lib.RUN_FAILED:
                    raise RuntimeError("a stage of the broker failed")
                if result == lib.RUN_NEED:
                    self._next_file()

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()

    def _next_file(self) -> None:
        seen = ffi.new("struct positions_seen *")
        lib.control_positions(self.control, seen)
        mapped_file.allocate(self.layout, seen.allocated, FILE_SIZE)
        lib.control_set_allocated(self.control, seen.allocated + FILE_SIZE, 0)

    def topic(self, name: str, queues: int = 8, perm: int = 6) -> None:
        encoded = name.encode()
        assert lib.topics_add(self.topics, encoded, len(encoded), queues, queues, perm, ffi.new("uint32_t *")) == 0

    def open_session(
        self, *, window: int = 0, sq_capacity: int = 0, message_max: int = 0, queue_capacity: int = 0
    ) -> SessionHandle:
        shape = ffi.new("struct session_shape *")
        shape.slot = self.sessions_opened
        shape.epoch = 1
        shape.window = window
        shape.sq_capacity = sq_capacity
        shape.message_max = message_max
        shape.pid = os.getpid()
        self.sessions_opened += 1
        size = lib.session_size(shape)
        descriptor = os.memfd_create("session", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
        session = self._map(size, "void *", descriptor)
        lib.session_init(session, shape, 1)
        lib.session_open_entry(self.control, descriptor, os.fstat(descriptor).st_ino, shape)
        self._sessions.append((shape.slot, descriptor))
        slot, owner = shape.slot, os.getpid()

        def close() -> None:
            if os.getpid() == owner and lib.session_get_state(self.control, slot) == READY:
                lib.session_set_state(self.control, slot, CLOSING)

        return SessionHandle(
            address=int(ffi.cast("uintptr_t", session)),
            size=size,
            control_address=int(ffi.cast("uintptr_t", self.control)),
            topics_address=int(ffi.cast("uintptr_t", self.topics)),
            wake_address=int(ffi.cast("uintptr_t", self.wake)),
            supervisor_fd=self._life,
            slot=slot,
            epoch=1,
            window=window,
            sq_capacity=sq_capacity,
            message_max=message_max,
            queue_capacity=queue_capacity,
            pid=os.getpid(),
            generation=1,
            close=close,
            leave=close,
        )

    def stall_now(self) -> None:
        """The handler accepts nothing from here on until `resume`."""
        self._run.clear()
        self._stalled.wait()

    def resume(self) -> None:
        self._stalled.clear()
        self._run.set()

    def session_state(self, slot: int) -> int:
        return int(lib.session_get_state(self.control, slot))

    def begin_to_stop(self) -> None:
        """The first thing the supervisor says when it is told to stop; the stages continue."""
        lib.control_set_tree_state(self.control, lib.TREE_STOPPING)

    def kill(self) -> None:
        """From now on clients see a dead supervisor."""
        os.write(self._death, b"x")

    def log(self) -> list[Record]:
        """All records of the log so far."""
        data = self.layout.log_file(0).read_bytes()
        records, at = [], 0
        while at < len(data) and isinstance(record := parse(data, at), Record):
            records.append(record)
            at += record.size
        return records

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._stop.set()
        self._run.set()
        for thread in self._threads:
            thread.join()
        self._ends.close()
