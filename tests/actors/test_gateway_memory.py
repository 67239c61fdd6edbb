"""Goal: when the gateway's process gets no memory for what a client sends, or for what it does not read, that connection ends,
and all others are served as before.

Method: the limit of the running process that serves the clients is set to what it has mapped, so that nothing large can be
allocated; see test_no_means.py. Of native/remoting/connection.c."""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from tests.actors.fronts import serving
from tests.actors.remoting_client import CLUSTER, PULL, Remote, records
from tests.actors.test_no_means import without
from tests.trees import actors, indexed, small_broker
from tests.waiting import until

SUCCESS = 0
LARGE = 3 << 20
SIZES: dict[str, Any] = {"log_file_size": 16 << 20, "message_max": 4 << 20, "lane_capacity": 16 << 20}
MESSAGES, EACH = 12, 20_000  # one answer
ASKED = 400  # so many of them are more than sockets hold, and the requests more than the gateway reads at once
CROWD = 20  # for so many there is no memory


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path, listen="127.0.0.1:0", **SIZES) as broker:
        broker.create_topic("t", 2)
        yield broker


class Steady(Remote):
    """The gateway keeps the memory that it has for one who is silent for a second, because the next request has begun: its
    first byte is sent ahead."""

    def __init__(self, listens: str) -> None:
        super().__init__(listens)
        self.socket.sendall(b"\0")

    def frame(self, code: int, body: bytes = b"", *, mark: int = 0, **fields: object) -> bytes:
        frame = super().frame(code, body, mark=mark, **fields)
        assert frame[0] == 0, "of its size"
        return frame[1:] + b"\0"


@pytest.fixture
def other(broker: orbitmq.Broker) -> Iterator[Remote]:
    """A client that is served all the time."""
    with Steady(broker.status().listens) as other:
        assert other.send("t", b"before").code == SUCCESS
        yield other


def gateway(broker: orbitmq.Client) -> int:
    return actors(broker)[serving()].pid


def ends(remote: Remote) -> bool:
    """The connection was closed by the broker. Whole answers may come before."""
    with suppress(ConnectionError):
        while remote.socket.recv(1 << 20):
            pass
    return True


def test_a_large_request(broker: orbitmq.Broker, other: Remote) -> None:
    """Also one of which only a part comes. The same request is served once there is memory again."""
    pid = gateway(broker)
    with without("mappings", pid), Remote(broker.status().listens) as one, Remote(broker.status().listens) as part:
        with suppress(OSError):
            one.put(310, bytes(LARGE), **one.send_fields("t", 0))
        with suppress(OSError):
            part.socket.sendall(part.frame(310, bytes(LARGE), **part.send_fields("t", 0))[: LARGE // 2])
        assert ends(one) and ends(part)
        assert other.send("t", b"meanwhile").code == SUCCESS
    with Remote(broker.status().listens) as again:
        assert again.send("t", bytes(LARGE)).code == SUCCESS
    assert other.send("t", b"behind").code == SUCCESS
    assert gateway(broker) == pid, "nobody died of it"


def test_answers_that_nobody_reads(broker: orbitmq.Broker, other: Remote) -> None:
    """There is room for some of them. The others' connections end, and an answer of which only a part could be kept is not
    followed by something else: the client gets whole answers, a part of one, and the end."""
    with broker.producer() as producer:
        producer.send_batch("t", [bytes(EACH)] * MESSAGES, queue=1)
    indexed(broker)
    pid, names = gateway(broker), broker.status().listens
    with ExitStack() as stack:
        crowd = [stack.enter_context(Remote(names)) for _ in range(CROWD)]
        ended = select.poll()
        for each in crowd:
            ended.register(each.socket, 0)  # that it is reset, and nothing else
            assert each.ask(CLUSTER).code == SUCCESS  # there is room for what it sends
            assert other.send("t", b"before").code == SUCCESS
        with without("mappings", pid):
            for each in crowd:
                with suppress(OSError):
                    each.socket.sendall(each.frame(PULL, **each.pull_fields("t", 1, 0, most=MESSAGES)) * ASKED)
                assert other.send("t", b"meanwhile").code == SUCCESS
            until(lambda: other.send("t", b"meanwhile").code == SUCCESS and ended.poll(0), "connections to end")
        lost = {descriptor for descriptor, _ in ended.poll(0)}
        for each in crowd:
            if each.socket.fileno() in lost:
                with pytest.raises(ConnectionError):
                    while True:
                        said = each.take()
                        assert said.code == SUCCESS and len(records(said.body)) == MESSAGES
    with Remote(names) as again:
        assert again.ask(PULL, **again.pull_fields("t", 1, 0, most=MESSAGES)).code == SUCCESS
    assert gateway(broker) == pid, "nobody died of it"
