"""The socket at which RocketMQ's clients connect. The supervisor makes it before the first actor starts, and each gateway
inherits it: so a start says at once that the address is taken, and clients that connect between two gateways wait for the next
one."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress

from orbitmq.errors import SettingError
from orbitmq.store.listen_address import LOCAL, ListenAddress
from orbitmq.store.setting_text import refused

BACKLOG = 1024


def open_listener(address: ListenAddress) -> socket.socket:
    """A socket that listens and does not block. Raises: SettingError: the address cannot be had."""
    try:
        family, _, _, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise _unusable(address, error) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind(place)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise _unusable(address, error) from None
    return listener


def bound_address(listener: socket.socket) -> ListenAddress:
    """Where it listens: with the port that it got."""
    host, port = listener.getsockname()[:2]
    return ListenAddress(host, port)


def store_host(address: ListenAddress) -> bytes:
    """What records name as the broker: readers of a message id dial it. Eight bytes, so IPv4 only; instead of an address that
    no client could dial, that of this machine for itself."""
    packed = socket.inet_aton(LOCAL)
    with suppress(OSError):
        packed = socket.inet_aton(address.host)
    if packed == bytes(4):
        packed = socket.inet_aton(LOCAL)
    return packed + address.port.to_bytes(4, "big")


def _unusable(address: ListenAddress, error: OSError) -> SettingError:
    hint = "stop what listens there, or take another port" if error.errno == errno.EADDRINUSE else None
    return refused("listen", str(address), f"the broker cannot listen there: {error.strerror or error}", hint)
