"""The address at which the gateway listens for RocketMQ's clients: HOST:PORT, a port alone for this machine, or nothing."""

from __future__ import annotations

from typing import NamedTuple

LOCAL = "127.0.0.1"
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
