"""Addresses of RocketMQ's protocol: HOST:PORT, a port alone for this machine, or nothing. At some the gateway listens; others
are those of name servers."""

from __future__ import annotations

import re
from typing import NamedTuple

LOCAL = "127.0.0.1"
WILD = ("0.0.0.0", "::")  # all addresses of this machine
PORT_MAX = 65535


class ListenAddress(NamedTuple):
    """port 0: any that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def listen_address(text: str) -> ListenAddress | None:
    """None: no address. Raises: ValueError: why it is none."""
    text = text.strip()
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise ValueError(f"it must end with a port from 0 to {PORT_MAX}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("an IPv6 address stands in brackets: [::1]:9876")
    if colon and not host:
        raise ValueError("it has no host before the colon; 0.0.0.0 stands for all addresses of this machine")
    return ListenAddress(host or LOCAL, int(port))


def listen_addresses(text: str) -> list[ListenAddress]:
    """Several, between semicolons as RocketMQ writes them, or between commas, which mean nothing to a shell; each once. Raises:
    ValueError: why one is none."""
    found = [listen_address(part) for part in re.split("[;,]", text)]
    given = [each for each in found if each is not None]
    return [each for number, each in enumerate(given) if not each.port or each not in given[:number]]


def server_addresses(text: str) -> list[ListenAddress]:
    """Those of name servers. Raises: as listen_addresses."""
    found = listen_addresses(text)
    if not all(each.port for each in found):
        raise ValueError("a name server has a port above 0")
    return found
