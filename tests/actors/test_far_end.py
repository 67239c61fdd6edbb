"""Goal: the other end of a connection is found, whether the kernel is asked for it or lists all, by either kind of address.
Method: connections of a process with itself, whose other end it can look at."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.actors import far_end as module
from tests.actors.far_end import FarEnd, far_end
from tests.waiting import until


def not_told(*_: object) -> FarEnd | None:
    return None


def refused(*_: object) -> FarEnd | None:
    raise PermissionError


@pytest.mark.parametrize("otherwise", [None, not_told, refused])
@pytest.mark.parametrize(("listens", "host"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")])
def test_both_ways(
    monkeypatch: pytest.MonkeyPatch, otherwise: Callable[..., FarEnd | None] | None, listens: str, host: str
) -> None:
    if otherwise is not None:
        monkeypatch.setattr(module, "_asked", otherwise)
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in listens else socket.AF_INET))
        if listens == "::":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((listens, 0))
        listener.listen()
        one, other = (stack.enter_context(socket.create_connection((host, listener.getsockname()[1]))) for _ in range(2))
        assert far_end(one).inode == far_end(other).inode == 0, "they wait"
        ends = [stack.enter_context(listener.accept()[0]) for _ in range(2)]
        one.sendall(b"some")
        for client in one, other:
            [end] = [each for each in ends if each.getpeername()[1] == client.getsockname()[1]]
            unread = 4 if client is one else 0
            until(lambda: far_end(client) == (os.fstat(end.fileno()).st_ino, unread), "what has come")
        for end in ends:
            end.close()
        assert far_end(other).inode == 0, "it is gone"
