"""Goal: no address takes the places of all clients of the gateway.

Method: clients of several addresses of the loopback net, with and without TLS, beside a small limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import SettingError
from tests.actors.remoting_client import CLUSTER, Remote
from tests.actors.remoting_kinds import CERTIFICATES, Secure
from tests.trees import small_broker
from tests.waiting import until

MOST = 3


@contextmanager
def limited(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    tls = {"tls_cert": str(CERTIFICATES / "first.pem"), "tls_key": str(CERTIFICATES / "first.key")}
    with small_broker(tmp_path / "store", listen="127.0.0.1:0", connections_per_address=MOST, **tls) as broker:
        yield broker


def is_served(remote: Remote) -> bool:
    try:
        return remote.ask(CLUSTER).code == 0
    except OSError:
        return False


def is_let_in(broker: orbitmq.Broker, host: str, kind: type[Remote | Secure] = Remote) -> bool:
    try:
        with kind(broker.status().listens, host=host) as remote:
            return is_served(remote)
    except OSError:
        return False


def test_one_address(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One more is closed, and the log says so; others come in. Whoever leaves makes room."""
    with limited(tmp_path) as broker, ExitStack() as stack:
        names = broker.status().listens
        remotes = [stack.enter_context(kind(names)) for kind in (Remote, Secure, Remote)]
        assert all(map(is_served, remotes))
        assert not is_let_in(broker, "127.0.0.1") and not is_let_in(broker, "127.0.0.1", Secure)
        remotes += [stack.enter_context(Remote(names, host=host)) for host in ("127.0.0.2", "127.0.0.11", "127.0.0.2")]
        assert all(map(is_served, remotes))

        def complained() -> bool:
            said = caplog.text
            return "connections, the last one of 127.0.0.1:" in said and f"it has {MOST} already" in said

        until(complained, "a line in the log")
        remotes[0].socket.close()
        until(lambda: is_let_in(broker, "127.0.0.1"), "room")
        assert all(map(is_served, remotes[1:]))


def test_many_come_and_go(tmp_path: Path) -> None:
    """Nothing is counted twice, or for ever."""
    with limited(tmp_path) as broker:
        for number in range(20):
            for kind in Remote, Secure:
                until(lambda: is_let_in(broker, f"127.0.0.{1 + number % 2}", kind), "room")


def test_a_limit_of_none(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="must be a whole number from 1"):
        small_broker(tmp_path / "store", listen="127.0.0.1:0", connections_per_address=0).__enter__()
