"""Who listens at an address of this machine, from /proc/net and the descriptors in /proc."""

from __future__ import annotations

import ipaddress
import pwd
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from orbitmq.store.settings.listen_address import ListenAddress

PROC = Path("/proc")
LISTENS = "0A"  # a state of a socket, as the kernel's tables write it

Host = ipaddress.IPv4Address | ipaddress.IPv6Address


class PortHolder(NamedTuple):
    """pid, program: None if the process belongs to a user whose descriptors this one may not see. user: its number."""

    pid: int | None
    program: str | None
    user: int

    def __str__(self) -> str:
        if self.pid is not None:
            return f"process {self.pid} ({self.program})"
        name = str(self.user)
        with suppress(KeyError):
            name = pwd.getpwuid(self.user).pw_name
        return f"a process of the user {name}"


def port_holder(address: ListenAddress) -> PortHolder | None:
    """Who prevents that somebody else listens there; None: nobody is found. address: not of a name."""
    wanted = ipaddress.ip_address(address.host)
    for host, port, user, inode in _listening():
        if port == address.port and (host == wanted or host.is_unspecified or wanted.is_unspecified):
            pid = _process(f"socket:[{inode}]")
            return PortHolder(pid, None if pid is None else _program(pid), user)
    return None


def _listening() -> Iterator[tuple[Host, int, int, str]]:
    """Host, port, user and inode of each socket that listens."""
    for table in ("tcp", "tcp6"):
        lines: list[str] = []
        with suppress(OSError):
            lines = (PROC / "net" / table).read_text().splitlines()[1:]
        for line in lines:
            _, local, _, state, _, _, _, user, _, inode = line.split()[:10]
            if state == LISTENS:
                host, _, port = local.partition(":")
                yield _host(host), int(port, 16), int(user), inode


def _host(digits: str) -> Host:
    """Words of 32 bits, each in this machine's byte order."""
    packed = b"".join(struct.pack("=I", int(digits[at : at + 8], 16)) for at in range(0, len(digits), 8))
    found = ipaddress.ip_address(packed)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return found if mapped is None else mapped


def _process(link: str) -> int | None:
    """The first process that has this descriptor: of a tree, the one that made it."""
    for pid in sorted(int(each.name) for each in PROC.iterdir() if each.name.isdigit()):
        with suppress(OSError):  # it has ended, or is another user's
            for descriptor in (PROC / str(pid) / "fd").iterdir():
                with suppress(OSError):
                    if str(descriptor.readlink()) == link:
                        return pid
    return None


def _program(pid: int) -> str | None:
    try:
        return (PROC / str(pid) / "comm").read_text().rstrip("\n")
    except OSError:
        return None
