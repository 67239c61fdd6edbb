"""The connection of one process to one broker, under everything that a Client makes.

It connects when it is first needed, again when the coordinator has died (its successor answers on the same socket),
and anew in a forked child. A tree that was started again under the same name is attached to when somebody next asks
for something."""

from __future__ import annotations

import errno
import mmap
import os
import select
import threading
import time
import weakref
from contextlib import suppress
from typing import Any

from orbitmq.client.attachment import Attachment
from orbitmq.client.session import SessionHandle
from orbitmq.errors import BrokerError, BrokerNotRunning, BrokerStopped, Closed, NoMeans, NoPermission, OrbitError, TimedOut
from orbitmq.native._core import ffi
from orbitmq.shm import runtime
from orbitmq.shm.control_socket import ControlSocket
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.means import lacking

# Between two looks for a broker that is about to start; there is nothing yet that one could wait on.
LOOK_S = 0.01

_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


class Connection:
    """See client/session.py, SessionOpener. timeout: seconds that a question may wait for its answer."""

    def __init__(self, name: str | None, timeout: float) -> None:
        self._name = runtime.broker_name(name)
        self.timeout = timeout
        self._lock = threading.RLock()
        self._attachment: Attachment | None = None
        self._socket: ControlSocket | None = None
        self._closed = False
        _connections.add(self)

    @property
    def name(self) -> str:
        return self._name

    @property
    def attachment(self) -> Attachment:
        """The mappings of the tree that runs now.

        Raises: BrokerNotRunning: none answers; Closed.
        """
        with self._lock:
            self._check_open()
            if self._attachment is None or not self._attachment.alive():
                self._attach(time.monotonic() + self.timeout)
            assert self._attachment is not None
            return self._attachment

    def ask(self, operation: str, **fields: Any) -> Any:
        """One question to the coordinator; asked again when it dies with the answer owing, so operations bear being
        repeated.

        Raises: what the broker answers; BrokerNotRunning, BrokerStopped, TimedOut, Closed.
        """
        value, descriptors = self._ask(operation, fields)
        _close(descriptors)
        return value

    def open_session(
        self, *, window: int = 0, sq_capacity: int = 0, message_max: int = 0, queue_capacity: int = 0
    ) -> SessionHandle:
        with self._lock:
            sizes = {"window": window, "sq_capacity": sq_capacity, "message_max": message_max, "queue_capacity": queue_capacity}
            shape, descriptors = self._ask("open_session", sizes)
            crash_point("connection_opened")
            try:
                attachment = self.attach_wake()
                # Populated: a fault for each page of the first lap around the ring doubles what a message costs.
                memory = mmap.mmap(_only(descriptors), 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
            except (OSError, MemoryError):
                # A process has so many sessions at most: one that nobody has may not stay open.
                with suppress(BrokerError, TimedOut):
                    self.ask("close_session", slot=shape["slot"], epoch=shape["epoch"])
                raise
            finally:
                _close(descriptors)
            crash_point("connection_mapped")
            return _session_handle(self, attachment, shape, memory)

    def attach_wake(self) -> Attachment:
        """The mappings with the wake words, where one sleeps until something happens. Raises: as `attachment`."""
        with self._lock:
            attachment = self.attachment
            while attachment.wake == ffi.NULL:
                _, descriptors = self._ask("wake_words", {})
                try:
                    # Of the tree that has answered, which may be a later one.
                    attachment = self.attachment
                    attachment.map_wake(_only(descriptors))
                finally:
                    _close(descriptors)
            return attachment

    def close(self) -> None:
        """Ends the connection; sessions stay until they are closed, or until this process ends."""
        with self._lock:
            self._closed = True
            self._drop_socket()
            self._attachment = None

    # ---- one question

    def _ask(self, operation: str, fields: dict[str, Any]) -> tuple[Any, tuple[int, ...]]:
        with self._lock:
            deadline = time.monotonic() + self.timeout
            while True:
                attachment = self.attachment
                left = deadline - time.monotonic()
                if left <= 0:
                    doing = "connect" if operation == "hello" else operation.replace("_", " ")
                    raise TimedOut(
                        f"cannot {doing}, the broker {self._name!r} did not answer in {self.timeout:g} s",
                        hint="raise the timeout of connect",
                        operation=operation,
                        timeout=self.timeout,
                    )
                try:
                    if self._socket is None:
                        self._socket = ControlSocket(runtime.socket_path(self._name), left)
                        self._check_generation(self._socket.hello)
                    return self._socket.ask(operation, left, **fields)
                except OSError as error:
                    if isinstance(error, TimedOut):
                        raise
                    self._drop_socket()
                    if isinstance(lacking(error, operation), NoMeans):
                        raise  # of ours: the coordinator has nothing to do with it
                    if isinstance(error, PermissionError):
                        raise NoPermission(
                            f"cannot connect to the broker {self._name!r}, its control socket is not for uid {os.geteuid()}",
                            hint=runtime.ASK_OPERATOR,
                            broker=self._name,
                        ) from None
                    if not attachment.alive():
                        raise BrokerStopped(
                            f"the broker {self._name!r} stopped before it answered", broker=self._name, operation=operation
                        ) from None
                    # The coordinator has died; its successor is being started, or is about to be.
                    attachment.pause(LOOK_S)
                except OrbitError:
                    raise
                except BaseException:
                    # An interrupted wait leaves an answer on its way that belongs to nobody.
                    self._drop_socket()
                    raise

    def _check_generation(self, hello: dict[str, Any]) -> None:
        assert self._attachment is not None
        if hello["generation"] != self._attachment.generation:
            self._drop_socket()
            self._attachment = None
            raise ConnectionResetError("another tree answers under this name")

    # ---- attaching

    def _attach(self, deadline: float) -> None:
        self._drop_socket()
        self._attachment = None
        while True:
            description = runtime.read_description(self._name)
            running = description is not None and runtime.lives(description)
            if description is not None and running and description.generation:
                with suppress(BrokerStopped, BrokerNotRunning):
                    self._attachment = Attachment(description)
                    if self._attachment.alive():
                        return
                self._attachment = None
            # One that recovers its store has a name already, and is worth waiting for.
            if not running or time.monotonic() >= deadline:
                what = "it is still starting" if running else "none runs under this name"
                raise BrokerNotRunning(
                    f"cannot connect to the broker {self._name!r}, {what}",
                    hint="start it: orbitmq up" if self._name == "default" else f"start it: orbitmq up --name {self._name}",
                    broker=self._name,
                )
            _pause_beside(description.pid if description is not None else 0)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"cannot use this connection to the broker {self._name!r}, it was closed")

    def _drop_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _forked(self) -> None:
        """In a forked child: nothing of the parent's may be used, and another thread of it may have held the lock."""
        self._lock = threading.RLock()
        self._drop_socket()
        self._attachment = None


def _session_handle(connection: Connection, attachment: Attachment, shape: dict[str, Any], memory: mmap.mmap) -> SessionHandle:
    held = ffi.from_buffer("uint8_t[]", memory, require_writable=True)
    pid = os.getpid()
    closed = False

    def close() -> None:
        nonlocal closed
        if closed:
            return
        closed = True
        if os.getpid() == pid and attachment.alive():
            with suppress(BrokerError, TimedOut, Closed):
                connection.ask("close_session", slot=shape["slot"], epoch=shape["epoch"])
                crash_point("connection_closed_session")
        ffi.release(held)
        with suppress(BufferError):
            memory.close()

    return SessionHandle(
        address=int(ffi.cast("uintptr_t", held)),
        size=len(memory),
        control_address=attachment.control_address,
        topics_address=attachment.topics_address,
        wake_address=attachment.wake_address,
        supervisor_fd=attachment.supervisor_fd,
        generation=attachment.generation,
        close=close,
        **shape,
    )


def _only(descriptors: tuple[int, ...]) -> int:
    """The one that an answer carries; the kernel leaves it out where this process has no number left for it."""
    if not descriptors:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return descriptors[0]


def _close(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _pause_beside(pid: int) -> None:
    """Waits a moment for a broker to go on starting, or until it has given up."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        select.select([pidfd], [], [], LOOK_S)
    finally:
        os.close(pidfd)


def _forked() -> None:
    for connection in list(_connections):
        connection._forked()


os.register_at_fork(after_in_child=_forked)
