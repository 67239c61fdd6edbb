"""Goal: an error can say who has a port. Method: sockets of this process and of another one at addresses of all kinds, and the
kernel's tables."""

from __future__ import annotations

import os
import pwd
import socket
from pathlib import Path

import pytest

from orbitmq.store import port_holder as module
from orbitmq.store.port_holder import PortHolder, port_holder
from orbitmq.store.settings.listen_address import ListenAddress

OWN = Path("/proc/self/comm").read_text().strip()


def is_own(holder: PortHolder | None) -> bool:
    """Another program may listen at the same number of another address."""
    return holder is not None and holder.pid == os.getpid()


@pytest.mark.parametrize(
    ("at", "asked", "found"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("0.0.0.0", "127.0.0.5", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("::1", "::1", True),
        ("::1", "::", True),
        ("::", "127.0.0.1", True),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("::1", "127.0.0.1", False),
    ],
)
def test_who_is_in_the_way(at: str, asked: str, found: bool) -> None:
    family = socket.AF_INET6 if ":" in at else socket.AF_INET
    with socket.create_server((at, 0), family=family, dualstack_ipv6=at.startswith("::") and at != "::1") as server:
        port = server.getsockname()[1]
        holder = port_holder(ListenAddress(asked, port))
        assert holder == PortHolder(os.getpid(), OWN, os.geteuid()) if found else not is_own(holder)
    assert not is_own(port_holder(ListenAddress(asked, port)))


def test_who_does_not_listen_is_not_in_the_way() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert not is_own(port_holder(ListenAddress(*bound.getsockname())))


def test_a_process_that_cannot_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_process", lambda link: None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        holder = port_holder(ListenAddress(*server.getsockname()))
    assert holder == PortHolder(None, None, os.geteuid())
    assert str(holder) == f"a process of the user {pwd.getpwuid(os.geteuid()).pw_name}"
    assert str(PortHolder(None, None, 4_000_000_000)) == "a process of the user 4000000000"
    assert str(PortHolder(7, "java", 0)) == "process 7 (java)"
