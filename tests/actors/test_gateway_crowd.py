"""Goal: connections that are idle or slow cost the gateway little, and other clients do not notice them.

Method: a crowd of them beside a client that is served; the gateway's own memory is measured. Answers that nobody reads are as
large as they can be. How long others wait beside such a crowd is a measure of scripts/bench (gateway_crowd).
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import SettingError
from tests.actors.gateway_fuzz import resident
from tests.actors.remoting_client import HEARTBEAT, PULL, SEND_V2, Remote, records
from tests.actors.remoting_kinds import CERTIFICATES
from tests.trees import actors, indexed, small_broker
from tests.waiting import until

SUCCESS = 0
IDLE, FEW, SLOW = 1000, 100, 100
IDLE_BYTES = 8 << 10  # of one that has been idle for a while
REST_BYTES = 1 << 20  # that may stay of all of them: QUIET_BYTES
UNREAD_BYTES = 768 << 10  # of one whose answers nobody reads: CONNECTION_OUT_MAX, an answer, and something for all others
HELD = 1000
TLS = {"tls_cert": str(CERTIFICATES / "first.pem"), "tls_key": str(CERTIFICATES / "first.key")}
HELLO = b"\x16\x03\x01\x02\x00\x01"  # the begin of a handshake


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    # A machine that does much else may need longer for a round of the crowd than RocketMQ lets a connection be idle.
    with small_broker(tmp_path, listen="127.0.0.1:0", connection_idle_s=86400, **TLS) as broker:
        broker.create_topic("t", 2)
        yield broker


def gateway(broker: orbitmq.Broker) -> int:
    return actors(broker)["gateway"].pid


def fill(broker: orbitmq.Broker) -> int:
    """Queue 0 has messages for one answer of the largest kind. Returns how many."""
    with broker.producer() as producer:
        producer.send_batch("t", [bytes(20_000)] * 20, queue=0)
    indexed(broker)
    return 20


@pytest.mark.parametrize("count", [IDLE, FEW])
def test_idle_connections(broker: orbitmq.Broker, count: int) -> None:
    """Each has asked something large before."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    names, pid = broker.status().listens, gateway(broker)
    with Remote(names) as first:
        assert first.ask(HEARTBEAT, b"{}").code == SUCCESS
    before = resident(pid)
    with ExitStack() as stack:
        crowd = [stack.enter_context(Remote(names, host=f"127.0.0.{2 + number % 2}")) for number in range(count)]
        for each in crowd:
            assert each.ask(HEARTBEAT, b"{}" + b" " * 40_000).code == SUCCESS
        until(lambda: resident(pid) - before < count * IDLE_BYTES + REST_BYTES, "the gateway to give memory back")
        with Remote(names) as served:
            assert served.send("t", b"one").code == SUCCESS
        for each in crowd:
            assert each.ask(HEARTBEAT, b"{}").code == SUCCESS


def test_slow_connections(broker: orbitmq.Broker) -> None:
    """Those who do not read, who send byte by byte, and who never end their handshake, beside one who is served."""
    fill(broker)
    names, pid = broker.status().listens, gateway(broker)
    before = resident(pid)
    with ExitStack() as stack:
        crowd = [stack.enter_context(Remote(names)) for _ in range(SLOW)]
        readers, senders, shakers = crowd[:50], crowd[50:80], crowd[80:]
        for each in readers:
            asked = b"".join(each.frame(PULL, **each.pull_fields("t", 0, 0)) for _ in range(100))
            each.socket.sendall(asked)
        for each in shakers:
            each.socket.sendall(HELLO)
        frames = [each.frame(SEND_V2, b"slow", **each.send_fields("t", 1)) for each in senders]
        with Remote(names) as served:
            for at in range(max(map(len, frames))):
                for each, frame in zip(senders, frames, strict=True):
                    each.socket.sendall(frame[at : at + 1])
                assert served.send("t", b"served", 1).code == SUCCESS
                assert len(records(served.pull("t", 0, 0).body)) > 1
        assert [each.take().code for each in senders] == [SUCCESS] * len(senders)
        assert resident(pid) - before < len(readers) * UNREAD_BYTES
        for each in readers:
            assert all(len(records(each.take().body)) > 1 for _ in range(100))
    assert gateway(broker) == pid


def test_held_pulls_of_one_who_does_not_read(broker: orbitmq.Broker) -> None:
    """However many there are, they are answered as the client reads: not all of them at once, into memory."""
    names, pid = broker.status().listens, gateway(broker)
    body = bytes(broker.status().message_max - 300)
    with Remote(names) as slow, Remote(names) as other, broker.producer() as producer:
        held = [slow.put(PULL, **slow.pull_fields("t", 0, 0, suspend_ms=200_000)) for _ in range(HELD)]
        assert other.ask(HEARTBEAT, b"{}").code == SUCCESS
        before = resident(pid)
        opaque = other.put(PULL, **other.pull_fields("t", 0, 0, suspend_ms=200_000))
        producer.send("t", body, queue=0)
        assert other.answered().opaque == opaque
        assert other.send("t", b"served", 1).code == SUCCESS
        assert resident(pid) - before < 8 << 20  # the answers have HELD * len(body) bytes
        for _ in held:
            said = slow.take()
            assert said.code == SUCCESS and len(said.body) > len(body)
        assert other.send("t", b"served", 1).code == SUCCESS
    assert gateway(broker) == pid


def is_served(remote: Remote) -> bool:
    try:
        return remote.ask(HEARTBEAT, b"{}").code == SUCCESS
    except OSError:
        return False


def test_no_more_than_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One more is closed, wherever it comes from, and the log says so; whoever leaves makes room."""
    with small_broker(tmp_path, listen="127.0.0.1:0", connections_max=3) as broker, ExitStack() as stack:
        names = broker.status().listens
        crowd = [stack.enter_context(Remote(names, host=f"127.0.0.{number}")) for number in range(1, 4)]
        assert all(map(is_served, crowd))
        with Remote(names, host="127.0.0.9") as late:
            assert not is_served(late)

        def complained() -> bool:
            said = caplog.text
            return "the last one of 127.0.0.9:" in said and "there are 3 already (connections_max)" in said

        until(complained, "a line in the log")
        crowd[0].socket.close()

        def is_let_in() -> bool:
            with Remote(names, host="127.0.0.9") as late:
                return is_served(late)

        until(is_let_in, "room")
        assert all(map(is_served, crowd[1:]))


def test_large_requests_in_part(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Those that never become whole take no more than they may; who needs more is closed. Then there is memory again."""
    most = 32 << 20
    with small_broker(tmp_path, listen="127.0.0.1:0", connections_memory=most) as broker, ExitStack() as stack:
        broker.create_topic("t", 1)
        names, pid = broker.status().listens, gateway(broker)
        before = resident(pid)
        crowd = [stack.enter_context(Remote(names)) for _ in range(6)]
        with Remote(names) as small:
            for each in crowd:
                with suppress(OSError):
                    each.socket.sendall(each.frame(SEND_V2, bytes(15 << 20), **each.send_fields("t", 0))[:-1])
                assert is_served(small)
            told = f"would take more than {most} bytes (connections_memory)"
            until(lambda: told in caplog.text, "a line in the log")
            assert resident(pid) - before < most + (8 << 20)
            assert small.send("t", bytes(broker.status().message_max - 300)).code == SUCCESS
        for each in crowd:
            each.socket.close()

        def has_memory() -> bool:
            with Remote(names) as late:
                try:
                    return late.send("t", bytes(15 << 20)).code != SUCCESS  # it came whole, and is too large to be stored
                except OSError:
                    return False

        until(has_memory, "memory")
    assert "Traceback" not in caplog.text


def test_silence(tmp_path: Path) -> None:
    """A connection on which nothing is sent is closed after connection_idle_s; one on which something is, is not."""
    with small_broker(tmp_path, listen="127.0.0.1:0", connection_idle_s=4, **TLS) as broker:
        names = broker.status().listens
        with Remote(names) as silent, Remote(names) as begun, Remote(names) as shaking, Remote(names) as speaking:
            assert is_served(silent) and is_served(speaking)
            begun.socket.sendall(begun.frame(HEARTBEAT, b"{}")[:-1])
            shaking.socket.sendall(HELLO)
            quiet = [silent, begun, shaking]

            def have_ended() -> bool:
                assert is_served(speaking)
                return all(each.has_come for each in quiet)

            until(have_ended, "the end of silent connections", look_ms=100)
            for each in quiet:
                assert each.socket.recv(1) == b""
            assert is_served(speaking)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("connections_max", 0),
        ("connections_max", 4097),
        ("connections_memory", 1),
        ("connection_idle_s", 0),
        ("connection_idle_s", 1e6),
    ],
)
def test_limits_that_are_none(tmp_path: Path, name: str, value: object) -> None:
    with pytest.raises(SettingError, match="it must be a"):
        small_broker(tmp_path, listen="127.0.0.1:0", **{name: value}).__enter__()
