"""Goal: RocketMQ's clients may speak TLS on the port where others do not, and are served the same. Of
actors/gateway/tls_door.py and actors/gateway/certificate.py, too.

Method: clients of Python's ssl, beside plain ones; nonsense, ends and kills at every stage. RocketMQ's own client judges in
tests/interop/test_tls.py.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.errors import SettingError
from tests.actors.remoting_client import CLUSTER, ROUTE, SEND_V2, Remote, records
from tests.actors.remoting_kinds import CERTIFICATES, Secure, copied_certificate
from tests.trees import actors, indexed, kill, small_broker
from tests.waiting import WATCHDOG_S, until

SUCCESS, SYSTEM_ERROR = 0, 1


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    return copied_certificate(tmp_path)


@pytest.fixture
def broker(tmp_path: Path, files: dict[str, str]) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path / "store", listen="127.0.0.1:0", **files) as broker:
        broker.create_topic("t", 2)
        yield broker


def listens(broker: orbitmq.Broker) -> str:
    return broker.status().listens


def connections(broker: orbitmq.Broker) -> int:
    """Sockets that the gateway has, of the listener's address or of pairs."""
    folder = Path(f"/proc/{actors(broker)['gateway'].pid}/fd")
    found = 0
    for each in folder.iterdir():
        with suppress(OSError):
            found += str(each.readlink()).startswith("socket:")
    return found


def test_both_on_one_port(broker: orbitmq.Broker) -> None:
    bodies = [random.Random(size).randbytes(size) for size in (0, 1, 16_384, 16_385, 60_000)]
    with Secure(listens(broker)) as secure, Remote(listens(broker)) as plain:
        for body in bodies:
            assert secure.send("t", body).code == SUCCESS and plain.send("t", body).code == SUCCESS
        indexed(broker)
        pulled = [asker.pull("t", 0, 0).body for asker in (secure, plain)]
        assert pulled[0] == pulled[1] and len(records(pulled[0])) == 2 * len(bodies)
        here = listens(broker).encode()
        assert here in secure.ask(ROUTE, topic="t").body and here in secure.ask(CLUSTER).body


def test_a_held_pull(broker: orbitmq.Broker) -> None:
    with Secure(listens(broker)) as secure, broker.producer() as producer:
        opaque = secure.put(11, **secure.pull_fields("t", 0, 0, suspend_ms=200_000))
        producer.send("t", b"one", queue=0)
        said = secure.take()
        assert said.opaque == opaque and len(records(said.body)) == 1


def test_many_at_once(broker: orbitmq.Broker) -> None:
    """Requests in pieces of any size, answers read late: each gets its own answers, in order."""
    wrong: list[object] = []

    def visit(seed: int) -> None:
        rng = random.Random(seed)
        try:
            with Secure(listens(broker)) as secure:
                frames = [secure.frame(999 + seed, rng.randbytes(rng.choice([0, 10, 20_000]))) for _ in range(100)]
                stream = b"".join(frames)
                while stream:
                    size = rng.choice([1, 7, 1000, 50_000])
                    secure.socket.sendall(stream[:size])
                    stream = stream[size:]
                opaques = [secure.take().opaque for _ in frames]
                assert opaques == list(range(1, 101))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=visit, args=(seed,)) for seed in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WATCHDOG_S)
    assert not wrong


def test_a_client_that_leaves_at_once(broker: orbitmq.Broker) -> None:
    """What it had sent is stored, though it does not wait for an answer."""
    for _ in range(20):
        with Secure(listens(broker)) as secure:
            for _ in range(10):
                secure.put(SEND_V2, b"x", mark=2, **secure.send_fields("t", 0))
    until(lambda: sum(q.max_offset for t in broker.status().topics for q in t.queues) == 200, "all messages")


def test_who_begins_with_nonsense(broker: orbitmq.Broker) -> None:
    """Its connection ends; the others', and the gateway, stay."""
    life = actors(broker)["gateway"].pid
    before = connections(broker)
    with Secure(listens(broker)) as secure:
        address = ("127.0.0.1", int(listens(broker).rpartition(":")[2]))
        for said in b"\x16", b"\x16\x03\x01", b"\x16\x03\x01\x00\x05hello, hello", b"\x16" * 5000, os.urandom(100):
            with socket.create_connection(address, timeout=WATCHDOG_S) as other:
                other.sendall(said)
                if len(said) > 10:
                    with suppress(ConnectionError):
                        while other.recv(4096):
                            pass
        assert secure.send("t", b"one").code == SUCCESS
    until(lambda: connections(broker) == before, "the end of all connections")
    assert actors(broker)["gateway"].pid == life


def test_a_slow_handshake(broker: orbitmq.Broker) -> None:
    """Byte by byte, while others are served."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=str(CERTIFICATES / "first.pem"))
    told = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    address = ("127.0.0.1", int(listens(broker).rpartition(":")[2]))
    with socket.create_connection(address, timeout=WATCHDOG_S) as client, Secure(listens(broker)) as other:
        while True:
            try:
                told.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    client.sendall(bytes([byte]))
                assert other.ask(ROUTE, topic="t").code == SUCCESS
                incoming.write(client.recv(4096))
        told.write(other.frame(ROUTE, topic="t"))
        client.sendall(outgoing.read())
        assert client.recv(1)


def test_a_killed_gateway(broker: orbitmq.Broker) -> None:
    with Secure(listens(broker)) as secure:
        assert secure.send("t", b"one").code == SUCCESS
        kill(broker, "gateway")
        with pytest.raises(OSError):
            secure.send("t", b"two")
    with Secure(listens(broker)) as secure:
        assert secure.send("t", b"three").code == SUCCESS


def test_a_broker_that_stops(tmp_path: Path, files: dict[str, str]) -> None:
    """Its clients see the end at once; what was answered has come."""
    with small_broker(tmp_path / "store", listen="127.0.0.1:0", **files) as broker:
        broker.create_topic("t", 1)
        secure = Secure(listens(broker))
        assert secure.send("t", b"one").code == SUCCESS
    with secure, pytest.raises(ConnectionError):
        secure.take()


def test_the_client_s_address(tmp_path: Path, files: dict[str, str]) -> None:
    """Rules know clients with TLS by it, too."""
    rules = tmp_path / "plain_acl.yml"
    for address, code in ("127.0.0.1", SUCCESS), ("127.0.0.2", SYSTEM_ERROR):
        rules.write_text(f"globalWhiteRemoteAddresses: [{address}]\n")
        with small_broker(tmp_path / address, listen="127.0.0.1:0", acl=str(rules), **files) as broker:
            broker.create_topic("t", 1)
            with Secure(listens(broker)) as secure:
                assert secure.send("t", b"one").code == code


@pytest.mark.parametrize(("mode", "plain", "secure"), [("enforcing", False, True), ("disabled", True, False)])
def test_modes(tmp_path: Path, files: dict[str, str], mode: str, plain: bool, secure: bool) -> None:
    with small_broker(tmp_path / "store", listen="127.0.0.1:0", tls=mode, **files) as broker, ExitStack() as stack:
        for kind, served in (Remote, plain), (Secure, secure):
            with ExitStack() if served else pytest.raises(OSError):
                remote = stack.enter_context(kind(listens(broker)))
                assert remote.ask(CLUSTER).code == SUCCESS


def test_without_a_certificate(tmp_path: Path) -> None:
    with small_broker(tmp_path / "store", listen="127.0.0.1:0") as broker, pytest.raises(OSError):
        Secure(listens(broker))


def believes(broker: orbitmq.Broker, name: str) -> bool:
    try:
        with Secure(listens(broker), name) as secure:
            return secure.ask(CLUSTER).code == SUCCESS
    except ssl.SSLCertVerificationError:
        return False


def test_a_new_certificate(broker: orbitmq.Broker, tmp_path: Path) -> None:
    """New connections get it, open ones go on. While its files do not belong together, the last one is used."""
    with Secure(listens(broker)) as secure:
        shutil.copy(CERTIFICATES / "second.pem", tmp_path / "server.pem")
        assert believes(broker, "first")
        shutil.copy(CERTIFICATES / "second.key", tmp_path / "server.key")
        until(lambda: believes(broker, "second"), "the new certificate")
        assert secure.send("t", b"one").code == SUCCESS


def admits(broker: orbitmq.Broker, shows: str | None) -> bool:
    """Whether it serves a client that shows this certificate. With TLS 1.3 the client learns that it does not at its first
    answer."""
    try:
        with Secure(listens(broker), shows=shows) as secure:
            return secure.ask(CLUSTER).code == SUCCESS
    except (ssl.SSLError, OSError):
        return False


@pytest.mark.parametrize(
    ("asked", "mode", "served"),
    [
        ("none", "permissive", {"first", "second", None}),
        ("optional", "permissive", {"second", None}),
        ("require", "enforcing", {"second"}),
    ],
)
def test_certificates_of_clients(tmp_path: Path, files: dict[str, str], asked: str, mode: str, served: set[str | None]) -> None:
    """One that the trusted one vouches for, another one, and none. Others are served meanwhile."""
    trust = {"tls_client_auth": asked, "tls_trust": str(CERTIFICATES / "second.pem")} if asked != "none" else {}
    with small_broker(tmp_path / "store", listen="127.0.0.1:0", tls=mode, **trust, **files) as broker:
        before = connections(broker)
        with Secure(listens(broker), shows="second") as other:
            assert {shows for shows in ("first", "second", None) if admits(broker, shows)} == served
            assert other.ask(CLUSTER).code == SUCCESS
        until(lambda: connections(broker) == before, "the end of all connections")


def test_another_voucher(tmp_path: Path, files: dict[str, str]) -> None:
    """New connections are judged by it; open ones go on. While the file is none, the last one counts."""
    trust = tmp_path / "clients.pem"
    shutil.copy(CERTIFICATES / "second.pem", trust)
    settings = {"tls": "enforcing", "tls_client_auth": "require", "tls_trust": str(trust), **files}
    with (
        small_broker(tmp_path / "store", listen="127.0.0.1:0", **settings) as broker,
        Secure(listens(broker), shows="second") as old,
    ):
        trust.write_text("no certificate")
        assert admits(broker, "second") and not admits(broker, "first")
        shutil.copy(CERTIFICATES / "first.pem", trust)
        until(lambda: admits(broker, "first"), "the new one")
        assert not admits(broker, "second") and old.ask(CLUSTER).code == SUCCESS


FIRST, KEY = str(CERTIFICATES / "first.pem"), str(CERTIFICATES / "first.key")
BOTH = {"tls_cert": FIRST, "tls_key": KEY}


@pytest.mark.parametrize(
    ("settings", "name", "why"),
    [
        ({"tls_cert": FIRST}, "tls_cert", "must hold a certificate and its key"),
        ({"tls_cert": FIRST, "tls_key": str(CERTIFICATES / "second.key")}, "tls_cert", "must hold a certificate and its key"),
        ({"tls_cert": FIRST, "tls_key": str(CERTIFICATES / "locked.key")}, "tls_cert", "without a password"),
        ({"tls_cert": "/nowhere/at.all", "tls_key": KEY}, "tls_cert", "it cannot be read: No such file"),
        ({"tls_cert": FIRST, "tls_key": "/nowhere/at.all"}, "tls_key", "it cannot be read: No such file"),
        ({"tls_cert": "first.pem"}, "tls_cert", "it must be the absolute path of a file"),
        ({"tls_key": KEY}, "tls_key", "there is no certificate"),
        ({"tls": "enforcing"}, "tls", "no client could connect without a certificate"),
        ({"tls": "on"}, "tls", "it must be one of permissive, enforcing, disabled"),
        ({**BOTH, "tls_client_auth": "always"}, "tls_client_auth", "it must be one of none, optional, require"),
        ({**BOTH, "tls_client_auth": "optional"}, "tls_client_auth", "nothing says whose certificates are good"),
        ({"tls_client_auth": "optional", "tls_trust": FIRST}, "tls_client_auth", "without a certificate of the broker's"),
        ({**BOTH, "tls_client_auth": "require", "tls_trust": FIRST}, "tls_client_auth", "could connect without TLS"),
        ({**BOTH, "tls_trust": FIRST}, "tls_trust", "no client is asked"),
        ({**BOTH, "tls_client_auth": "optional", "tls_trust": KEY}, "tls_trust", "certificates that vouch for clients"),
        ({**BOTH, "tls_client_auth": "optional", "tls_trust": "/nowhere/at.all"}, "tls_trust", "cannot be read: No such file"),
        ({**BOTH, "tls_client_auth": "optional", "tls_trust": "first.pem"}, "tls_trust", "absolute path of a file"),
    ],
)
def test_what_cannot_start(tmp_path: Path, settings: dict[str, Any], name: str, why: str) -> None:
    with pytest.raises(SettingError, match=why) as found:
        small_broker(tmp_path / "store", listen="127.0.0.1:0", **settings).__enter__()
    assert found.value.name == name
