"""Which of several gateways serves a connection, and connections to the one that a test wants: the kernel spreads them."""

from __future__ import annotations

import os
import select
import socket
import struct
from functools import partial
from pathlib import Path

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
    return _holder(_inode(client))


def socket_of(client: socket.socket) -> str:
    """The other side of this connection, as /proc names it."""
    return f"socket:[{_inode(client)}]"


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


def _inode(client: socket.socket) -> str:
    """Of the other side's socket; 0 while it waits to be accepted."""
    wanted = [_written(*address[:2]) for address in (client.getpeername(), client.getsockname())]
    for table in "tcp", "tcp6":
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if all(word in forms for word, forms in zip(words[1:3], wanted, strict=True)):
                return words[9]
    return "0"


def _holder(inode: str) -> str | None:
    if inode == "0":
        return None
    wanted = f"socket:[{inode}]"
    for process in Path("/proc").iterdir():
        try:
            name = (process / "comm").read_text().strip() if process.name.isdecimal() else ""
            if name.startswith("omq gateway") and any(str(fd.readlink()) == wanted for fd in (process / "fd").iterdir()):
                return name
        except OSError:
            continue  # it has ended
    return None


def _written(host: str, port: int) -> list[str]:
    """As the kernel writes it: of IPv4, also the form that a socket for both has."""
    packed = [socket.inet_pton(socket.AF_INET6, host if ":" in host else f"::ffff:{host}")]
    packed += [] if ":" in host else [socket.inet_aton(host)]
    words = (struct.unpack(f"={len(each) // 4}I", each) for each in packed)
    return ["".join(f"{word:08X}" for word in each) + f":{port:04X}" for each in words]
