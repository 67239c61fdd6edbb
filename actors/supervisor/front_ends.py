"""What each front of several gateways has beside the lead (native/remoting/gateway/gateway_line.h): the supervisor makes it
before the first actor starts and keeps it, so that clients that connect, and what a front and the lead have told each other,
wait for the next life of a process that has died."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import NamedTuple

from orbitmq.store.settings.listen_place import BACKLOG


class FrontEnds(NamedTuple):
    """listeners: beside the first gateway's, at the same addresses. line, lead_line: a pair; the front's side, and the lead's.
    event: an eventfd by which reput ends the front's sleep."""

    listeners: tuple[socket.socket, ...]
    line: socket.socket
    lead_line: socket.socket
    event: int

    @classmethod
    def beside(cls, listeners: Sequence[socket.socket]) -> FrontEnds:
        """Raises: OSError."""
        line, lead_line = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        return cls(tuple(map(twin_of, listeners)), line, lead_line, os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))

    @property
    def own(self) -> set[int]:
        """The front's descriptors."""
        return {*(each.fileno() for each in self.listeners), self.line.fileno(), self.event}


def twin_of(listener: socket.socket) -> socket.socket:
    """Another socket that listens at its address; the kernel spreads those who connect over both. The first one was bound
    without SO_REUSEPORT, so that a start sees that the address is taken, also by another broker of the same user; with it, no
    socket of another user can join them. Raises: OSError."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    twin = socket.socket(listener.family, socket.SOCK_STREAM)
    try:
        twin.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        twin.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        twin.setblocking(False)
        twin.bind(listener.getsockname())
        twin.listen(BACKLOG)
    except OSError:
        twin.close()
        raise
    return twin
