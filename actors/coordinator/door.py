"""The door lets clients' connections in, a limited number for each process. It stays shut while there is no room for another
one."""

from __future__ import annotations

import errno
import resource
import selectors
import socket
import time
from collections import Counter
from contextlib import suppress

from orbitmq.actors.coordinator.peer import Peer
from orbitmq.actors.sessions.process_id import ProcessId
from orbitmq.errors import Full, OrbitError
from orbitmq.errors.remedy import hint
from orbitmq.shm.frames import error_map, pack

# Descriptors that connections must leave for the sessions, files and look-ups of clients that are in already.
SPARE_DESCRIPTORS = 32
# Nothing tells this process when the system has a descriptor again, so it tries a shut door from time to time.
SHUT_S = 0.1

_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ENOSPC)


class Door:
    """The listener's owner. The selector holds it under `accept` while the door is open.

    per_process, per_user: connections that one client process, and one user whom `group` lets in, may have.
    group: id of that unix group.
    """

    def __init__(
        self, listener: socket.socket, selector: selectors.BaseSelector, per_process: int, per_user: int, group: int | None
    ) -> None:
        self._listener = listener
        self._selector = selector
        self._per_process = per_process
        self._per_user = per_user
        self._group = group
        self._inside: Counter[ProcessId] = Counter()
        self._users: Counter[int | None] = Counter()
        self._shut_until: float | None = None
        self._open()

    def accept(self) -> None:
        """Accepts one connection and adds it to the selector, or tells the client why not.

        If there is no room even to answer, the client waits, and the door is not looked at for a while. Otherwise the loop
        would do nothing but look at the listener, which stays readable.
        """
        try:
            sock, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _NO_ROOM:
                self._shut()
            return  # otherwise nobody is there after all
        sock.setblocking(False)
        peer: Peer | None = None
        try:
            _check_spare(sock)
            peer = Peer(sock, self._group)
            self._check_share(peer)
            self._selector.register(sock, selectors.EVENT_READ, peer)
        except (OrbitError, OSError) as error:
            # This is the answer, whatever the client is going to ask.
            refusal = error if isinstance(error, OrbitError) else _no_descriptors(str(error))
            with suppress(OSError):
                sock.send(pack({"id": 0, **error_map(refusal)}))
            if peer is None:
                sock.close()
            else:
                peer.close()
            return
        self._inside[peer.process] += 1
        self._users[peer.caller.mark] += 1

    def peers(self) -> list[Peer]:
        """The connections that there are."""
        return [key.data for key in self._selector.get_map().values() if isinstance(key.data, Peer)]

    def ignore(self, peer: Peer) -> None:
        """Does not look whether the peer has sent something, or has ended, until `listen`."""
        with suppress(KeyError):  # it is ignored already
            self._selector.unregister(peer.socket)

    def listen(self, peer: Peer, events: int) -> None:
        """events: of selectors."""
        if peer.socket in self._selector.get_map():
            self._selector.modify(peer.socket, events, peer)
        else:
            self._selector.register(peer.socket, events, peer)

    def leave(self, peer: Peer) -> None:
        """Ends a connection. If the door was shut because there were too many, there is room now."""
        self.ignore(peer)
        self._inside -= Counter([peer.process])  # unlike subtraction, which leaves entries with 0
        self._users -= Counter([peer.caller.mark])
        peer.close()
        if self._shut_until is not None:
            self._open()

    def replace(self, listener: socket.socket) -> None:
        """New connections come here from now on; the old listener has lost its name."""
        if self._shut_until is None:
            self._selector.unregister(self._listener)
        self._listener.close()
        self._listener = listener
        self._open()

    def look(self) -> float | None:
        """Opens again when the time has come. Returns the seconds until then; None if the door is open."""
        if self._shut_until is None:
            return None
        left = self._shut_until - time.monotonic()
        if left > 0:
            return left
        self._open()
        return None

    def _open(self) -> None:
        self._selector.register(self._listener, selectors.EVENT_READ, self.accept)
        self._shut_until = None

    def _shut(self) -> None:
        self._selector.unregister(self._listener)
        self._shut_until = time.monotonic() + SHUT_S

    def _check_share(self, peer: Peer) -> None:
        process, caller = peer.process, peer.caller
        held = self._users[caller.mark]
        if not caller.rules and held >= self._per_user:
            raise Full(
                f"cannot accept uid {caller.uid} again: it has {held} connections and the limit is {self._per_user}",
                hint=hint(
                    "close or share clients, then connect again || ask the operator to raise {connections_per_user of broker}"
                ),
                limit="connections_per_user",
                value=held,
                most=self._per_user,
            )
        held = self._inside[process]
        if held >= self._per_process:
            raise Full(
                f"cannot accept process {process.pid} again: it has {held} connections and the limit is {self._per_process}",
                hint=hint("close or share clients, then connect again || raise {connections_per_process of broker}"),
                limit="connections_per_process",
                value=held,
                most=self._per_process,
            )


def _check_spare(sock: socket.socket) -> None:
    """The kernel gives out the lowest free number, so a high number says how few are left."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if sock.fileno() >= limit - SPARE_DESCRIPTORS:
        raise _no_descriptors(f"{sock.fileno()} of its {limit} descriptors are open")


def _no_descriptors(why: str) -> Full:
    return Full(
        f"cannot accept another client: the coordinator has no file descriptors left: {why}",
        hint="close clients that are not needed, or raise the hard limit of open files (ulimit -Hn) and start the broker again",
        limit="descriptors",
    )
