"""What the gateways have in common, whichever serves a client: the loop in C, its session, access rules, TLS, and words for the
operator."""

from __future__ import annotations

import errno
import mmap
import os
import socket
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from orbitmq.actors.actor import ActorError, CoreActor
from orbitmq.actors.complaints import Complaints
from orbitmq.actors.gateway.guard import Guard
from orbitmq.actors.gateway.leaving import Leaving
from orbitmq.actors.gateway.paused_groups import PausedGroups
from orbitmq.actors.pages import PAGE_GATEWAY
from orbitmq.actors.tree import Tree
from orbitmq.errors import OrbitError
from orbitmq.native._core import ffi, lib
from orbitmq.shm import runtime
from orbitmq.shm.control_socket import Answer as Said
from orbitmq.shm.control_socket import ControlSocket

if TYPE_CHECKING:
    from orbitmq.actors.gateway.tls_door import TlsDoor

ANSWER_S = 5.0  # how long the coordinator may take to answer
WINDOW = 8192  # sends in flight, of all connections
RING_MESSAGES = 4  # of the largest size
TRY_AGAIN_MS = 100
MODES = {"permissive": lib.GATEWAY_PLAIN_OR_TLS, "enforcing": lib.GATEWAY_TLS}


class RemoteLoop(CoreActor):
    """number: 0 for the lead. listeners: where its clients connect."""

    kind = "gateway"

    def __init__(self, tree: Tree, number: int, listeners: Sequence[socket.socket]) -> None:
        first, *others = listeners
        super().__init__(tree, PAGE_GATEWAY + number, first.fileno(), number)
        for each in others:
            lib.gateway_accept_at(self.handle, each.fileno())
        self._complaints = Complaints()
        self._leaving = Leaving(self.ask)
        self._memory: mmap.mmap | None = None
        settings = tree.settings
        idle_ms = int(1000 * settings.connection_idle_s)
        limits = (settings.connections_per_address, settings.connections_max, idle_ms, settings.connections_memory)
        lib.gateway_limit(self.handle, ffi.new("struct gateway_limits *", limits))
        rules = settings.acl
        self._guard = Guard(self.handle, Path(rules), self._complaints.say) if rules else None
        self._paused = PausedGroups(self.handle, settings.layout, self._complaints.say)
        self._door: TlsDoor | None = None
        if settings.speaks_tls:
            # The start has checked its files, and so imported it (supervisor/ground.py).
            from orbitmq.actors.gateway.tls_door import TlsDoor

            self._door = TlsDoor(settings, self._complaints.say)
            lib.gateway_speak_tls(self.handle, MODES[settings.tls])

    def give_line(self, front: int, line: socket.socket) -> None:
        """Raises: ActorError: the kernel has no room for it."""
        if not lib.gateway_give_line(self.handle, front, line.fileno()):
            number = ffi.errno
            raise ActorError(f"cannot watch the line of front {front}: {os.strerror(number)}", actor=self.kind, errno=number)

    def run(self, limit_ms: int) -> None:
        self._leaving.look()
        if self._memory is None:
            self.attach()
        if self._guard is not None:
            self._guard.look()
        self._paused.look()
        if self._door is not None and not self._door.alive:
            raise ActorError("the gateway's thread for TLS has ended", actor=self.kind)
        self._complain()
        super().run(limit_ms if self._memory is not None else TRY_AGAIN_MS)

    def need(self) -> None:
        """Has connections that begin with TLS carried to the loop."""
        hello = ffi.new("struct gateway_hello *")
        while lib.gateway_hello(self.handle, hello):
            client = socket.socket(fileno=hello.fd)
            assert self._door is not None
            try:
                hello.fd = self._door.take(client).detach()
            except OSError:
                client.close()
            else:
                lib.gateway_adopt(self.handle, hello)

    def close(self) -> None:
        super().close()
        if self._door is not None:
            self._door.close()
        if self._memory is not None:
            ffi.release(self._held)
            self._memory.close()

    def _complain(self) -> None:
        """Of clients that found no room, or no memory."""
        why, last = ffi.new("enum gateway_crowd *"), ffi.new("const char **")
        count = lib.gateway_turned_away(self.handle, why, last)
        if not count:
            return
        settings = self.tree.settings
        reason = {
            lib.GATEWAY_ADDRESS_FULL: f"it has {settings.connections_per_address} already (connections_per_address)",
            lib.GATEWAY_ALL_FULL: f"there are {settings.connections_max} already (connections_max)",
            lib.GATEWAY_NO_MEMORY: "requests that have not come whole would take more than "
            f"{settings.connections_memory} bytes (connections_memory)",
        }.get(why[0])
        if reason is None:
            text = "the gateway lets nobody connect until somebody leaves: its process has no descriptors left (ulimit -n)"
        else:
            text = f"the gateway closed {count} connections, the last one of {ffi.string(last[0]).decode()}: {reason}"
        self._complaints.say(text)

    def attach(self) -> None:
        """Opens the session. Without one, sends wait; everything else is served. It is tried again."""
        largest = self.tree.settings.files.message_max
        ring = 1 << (RING_MESSAGES * largest - 1).bit_length()
        try:
            shape, descriptors = self.ask("open_session", window=WINDOW, sq_capacity=ring, message_max=largest)
        except (OrbitError, OSError) as error:
            self._complaints.say(f"the gateway cannot take messages yet: it cannot open a session: {error}")
            return
        (memfd,) = descriptors
        try:
            self._memory = mmap.mmap(memfd, 0)  # its pages are made ready as sends come to them (native/client/sender.c)
        finally:
            os.close(memfd)
        self._held = ffi.from_buffer("uint8_t[]", self._memory, require_writable=True)
        lib.gateway_attach(self.handle, self._held, ffi.new("struct session_shape *", shape))

    def ask(self, operation: str, **fields: object) -> Said:
        with closing(ControlSocket(runtime.socket_path(self.tree.settings.name), ANSWER_S)) as control:
            control.greet(ANSWER_S)
            value, descriptors = control.ask(operation, ANSWER_S, **fields)
            if operation == "open_session":
                if not descriptors:  # the kernel leaves it out if this process has none left
                    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                try:
                    control.keep(value, ANSWER_S)
                except BaseException:
                    self._leaving.add(value["slot"], value["epoch"])  # it may be kept all the same
                    for each in descriptors:
                        os.close(each)
                    raise
            return value, descriptors
