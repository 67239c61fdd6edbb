"""Which of several gateways serves a connection, and connections to the one that a test wants: the kernel spreads them."""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

from tests.actors.far_end import far_end
from tests.waiting import until

LEAD, FRONT, NOBODY = "omq gateway", "omq gateway 1", "nobody"


def server_of(client: socket.socket) -> str:
    """The name of the process that has accepted this connection; NOBODY: it was closed."""
    return str(until(lambda: holder_of(client) or (NOBODY if _is_closed(client) else None), "the connection to be accepted"))


def serving() -> str:
    """The process that serves the clients of a test which runs with a front, or not (conftest.py)."""
    return "gateway 1" if os.environ.get("ORBITMQ_GATEWAYS") else "gateway"


def holder_of(client: socket.socket) -> str | None:
    """The same; None: nobody has accepted it."""
    return _holder(far_end(client).inode)


def socket_of(client: socket.socket) -> str:
    """The other side of this connection, as /proc names it."""
    return f"socket:[{far_end(client).inode}]"


def connect_to(wanted: str, *place: object, **how: object) -> socket.socket:
    """As socket.create_connection; this process serves it, or somebody has closed it at once."""
    tried = []
    try:
        while True:
            found = socket.create_connection(*place, **how)  # type: ignore[arg-type]
            if server_of(found) in (wanted, NOBODY):
                return found
            tried.append(found)  # it keeps its port, so that the next one has another
    finally:
        for each in tried:
            each.close()


connect_to_front = partial(connect_to, FRONT)


def _is_closed(client: socket.socket) -> bool:
    if not select.select([client], [], [], 0)[0]:
        return False
    try:
        return client.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


# Gateways that were found before, which are looked at first: /proc has many other processes.
_gateways: list[str] = []


def _holder(inode: int) -> str | None:
    if not inode:
        return None
    for process in chain(_gateways[:], (path.name for path in Path("/proc").iterdir() if path.name.isdecimal())):
        name = _gateway(process)
        if not name and process in _gateways:
            _gateways.remove(process)
        if name and _has(process, inode):
            if process not in _gateways:
                _gateways.append(process)
            return name
    return None


def _gateway(process: str) -> str:
    """Its name; empty: it is none, or has ended."""
    with suppress(OSError):
        name = Path("/proc", process, "comm").read_text().strip()
        return name if name.startswith("omq gateway") else ""
    return ""


def _has(process: str, inode: int) -> bool:
    with suppress(OSError):  # it has ended
        return any(str(entry.readlink()) == f"socket:[{inode}]" for entry in Path("/proc", process, "fd").iterdir())
    return False
