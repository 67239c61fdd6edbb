"""What the supervisor sends to the coordinator: another control socket when the first one lost its name, and how actors ended.

One message a datagram (SOCK_SEQPACKET, msgpack): the fields of a Death, or nothing beside a descriptor. A coordinator that does
not read must not stop the supervisor, so what finds no room is sent at the next look.
"""

from __future__ import annotations

import socket
from collections import deque
from contextlib import suppress
from dataclasses import astuple

import msgpack

from orbitmq.shm.death import Death

DATAGRAM_MAX = 1 << 16


class Post:
    """The supervisor's end."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._listener: socket.socket | None = None  # the control socket that the coordinator has
        self._untold: deque[Death] = deque()

    def fresh(self, listener: socket.socket) -> socket.socket:
        """The end for a new coordinator, which is born with this control socket, and with the deaths until now."""
        if self._socket is not None:
            self._socket.close()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        self._listener = listener
        self._untold.clear()
        return theirs

    def look(self, listener: socket.socket) -> bool:
        """Sends what the coordinator does not have. True if it got this control socket now."""
        moved = False
        if self._socket is None:
            return moved
        with suppress(OSError):
            if listener is not self._listener:
                socket.send_fds(self._socket, [msgpack.packb(None)], [listener.fileno()])
                self._listener, moved = listener, True
            while self._untold:
                self._socket.send(msgpack.packb(astuple(self._untold[0]), unicode_errors="backslashreplace"))
                self._untold.popleft()
        return moved

    def tell(self, death: Death, listener: socket.socket) -> None:
        self._untold.append(death)
        self.look(listener)


def received(post: socket.socket) -> tuple[socket.socket | None, Death | None] | None:
    """For the coordinator: what has come. None: the supervisor is dead."""
    data, descriptors = b"", list[int]()
    with suppress(ConnectionError):
        data, descriptors, _, _ = socket.recv_fds(post, DATAGRAM_MAX, 1)
    if not data:
        return None
    content = msgpack.unpackb(data)
    death = None
    if content is not None:
        actor, pid, life, at, ended, words = content
        death = Death(actor, pid, life, at, ended, tuple(words))
    return socket.socket(fileno=descriptors[0]) if descriptors else None, death
