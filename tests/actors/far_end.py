"""What the kernel knows of the other end of a connection within this machine, which it finds by both ports.

It is asked for that one socket (NETLINK_SOCK_DIAG). To list all of them in /proc/net takes it milliseconds, and a test asks for
each of its connections, and again while it waits; so that is for kernels that do not tell otherwise.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import NamedTuple

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST = 4, 20, 1
LISTEN = 10
ANY = 0xFFFFFFFF  # state, cookie
HEAD = struct.Struct("=IHHII")  # struct nlmsghdr: size, kind, flags, number, port
REQUEST = struct.Struct("=BBBBI")  # the head of struct inet_diag_req_v2: family, protocol, extensions, padding, states
PLACE = struct.Struct(">HH16s16s12s")  # struct inet_diag_sockid: own port, peer's, both addresses; interface, cookie
FOUND = struct.Struct(f"=BBBB{PLACE.size}sIIIII")  # struct inet_diag_msg: family, state, two of timers, the place, expiry ...


class FarEnd(NamedTuple):
    """inode: of the socket; 0 while it waits to be accepted, and when it is gone. unread: bytes that have come there."""

    inode: int
    unread: int


def far_end(client: socket.socket) -> FarEnd:
    mine, theirs = client.getsockname()[:2], client.getpeername()[:2]
    try:
        found = _asked(theirs, mine)
    except OSError:
        found = None
    return found or _listed(theirs, mine)


def _asked(own: tuple[str, int], peer: tuple[str, int]) -> FarEnd | None:
    """None: there is none, or the kernel cannot say. Raises: OSError: likewise."""
    family = socket.AF_INET6 if ":" in own[0] else socket.AF_INET
    hosts = (socket.inet_pton(family, host) for host, _ in (own, peer))
    place = PLACE.pack(own[1], peer[1], *hosts, struct.pack("=III", 0, ANY, ANY))
    body = REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, ANY) + place
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG) as line:
        line.send(HEAD.pack(HEAD.size + len(body), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0) + body)
        said = line.recv(1 << 12)
    if HEAD.unpack_from(said)[1] != SOCK_DIAG_BY_FAMILY:
        return None
    _, state, _, _, _, _, unread, _, _, inode = FOUND.unpack_from(said, HEAD.size)
    return None if state == LISTEN else FarEnd(inode, unread)


def _listed(own: tuple[str, int], peer: tuple[str, int]) -> FarEnd:
    wanted = [_written(*address) for address in (own, peer)]
    for table in "tcp", "tcp6":
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if all(word in forms for word, forms in zip(words[1:3], wanted, strict=True)):
                return FarEnd(int(words[9]), int(words[4].partition(":")[2], 16))
    return FarEnd(0, 0)


def _written(host: str, port: int) -> list[str]:
    """As the kernel writes it: of IPv4, also the form that a socket for both has."""
    packed = [socket.inet_pton(socket.AF_INET6, host if ":" in host else f"::ffff:{host}")]
    packed += [] if ":" in host else [socket.inet_aton(host)]
    words = (struct.unpack(f"={len(each) // 4}I", each) for each in packed)
    return ["".join(f"{word:08X}" for word in each) + f":{port:04X}" for each in words]
