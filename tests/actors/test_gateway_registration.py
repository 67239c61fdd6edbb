"""Goal: name servers know where the broker is and which topics it has, as long as it lives and no longer
(remoting/registration.py, remoting/outgoing.py).

Method: a broker with a gateway, and name servers that this test plays, which keep what they are told. RocketMQ's own is in
tests/interop/test_cluster.py."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.errors import SettingError
from orbitmq.shm.reply_topic import REPLY_TOPIC
from tests.actors.remoting_client import ROUTE, Remote
from tests.trees import actors, kill, small_broker
from tests.waiting import WATCHDOG_S, until


class NameServer:
    """Answers registrations. refuses: with an error. told: each request, as (code, fields, body)."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.refuses = False
        self.told: list[tuple[int, dict[str, str], dict[str, Any]]] = []
        self.connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            try:
                while head := stream.read(8):
                    size, header_size = struct.unpack(">II", head)
                    header = json.loads(stream.read(header_size))
                    body = stream.read(size - 4 - header_size)
                    fields = header["extFields"]
                    if body:
                        assert int(fields["bodyCrc32"]) == zlib.crc32(body) & 0x7FFFFFFF
                    refuses = self.refuses  # the test may change it at any time
                    code = 1 if refuses else 0
                    said = {"code": code, "flag": 1, "opaque": header["opaque"], "remark": "not now" if code else None}
                    answer = json.dumps(said).encode()
                    connection.sendall(struct.pack(">II", 4 + len(answer), len(answer)) + answer)
                    if not refuses:
                        self.told.append((header["code"], fields, json.loads(body) if body else {}))
            except OSError:
                pass

    def topics(self) -> dict[str, Any]:
        """As it was told last."""
        if not self.told or not self.told[-1][2]:
            return {}
        table: dict[str, Any] = self.told[-1][2]["topicConfigSerializeWrapper"]["topicConfigTable"]
        return table

    def close(self) -> None:
        self._listener.close()
        for connection in self.connections:
            connection.close()


@pytest.fixture
def server() -> Iterator[NameServer]:
    made = NameServer()
    yield made
    made.close()


@pytest.fixture
def other() -> Iterator[NameServer]:
    made = NameServer()
    yield made
    made.close()


def test_from_the_start_to_the_end(tmp_path: Path, server: NameServer, other: NameServer) -> None:
    with small_broker(tmp_path, listen="127.0.0.1:0", namesrv=f"{server.address};{other.address}") as broker:
        for each in (server, other):
            until(lambda: each.told, "a registration")
            code, fields, _ = each.told[0]
            assert code == 103 and fields["brokerAddr"] == broker.status().listens and fields["brokerName"] == broker.name
            assert fields["brokerId"] == "0" and fields["clusterName"] == "DefaultCluster"
            assert each.topics()["TBW102"]["perm"] == 7
        broker.create_topic("orders", queues=3)
        until(lambda: "orders" in server.topics() and "orders" in other.topics(), "the new topic")
        topic = server.topics()["orders"]
        assert (topic["readQueueNums"], topic["writeQueueNums"], topic["perm"], topic["topicName"]) == (3, 3, 6, "orders")
        broker.grow_topic("orders", 5)
        until(lambda: server.topics()["orders"]["readQueueNums"] == 5, "more queues")
        versions = [body["topicConfigSerializeWrapper"]["dataVersion"] for _, _, body in server.told]
        assert len({json.dumps(each) for each in versions}) == len(versions)
        assert len(server.connections) == 1
    until(lambda: server.told[-1][0] == 104 and other.told[-1][0] == 104, "the broker to take itself out")
    assert server.told[-1][1]["brokerAddr"] == server.told[0][1]["brokerAddr"]


def test_topics_that_are_made_later(tmp_path: Path, server: NameServer) -> None:
    """Goal: mqadmin finds the groups of local programs by the name server, and consumers send there what they give back: topics
    of retries are registered as soon as there is the group, and may be written. So is the topic of replies."""
    with small_broker(tmp_path, listen="127.0.0.1:0", namesrv=server.address) as broker:
        broker.create_topic("orders", queues=3)
        assert REPLY_TOPIC not in [topic.name for topic in broker.status().topics]
        with broker.consumer("desk", ["orders"], start="earliest"), Remote(broker.status().listens) as remote:
            until(lambda: "%RETRY%desk" in server.topics(), "a group's topic of retries")
            promised = {name: server.topics()[name] for name in ("%RETRY%desk", REPLY_TOPIC)}
            assert [(each["perm"], each["readQueueNums"]) for each in promised.values()] == [(6, 1), (6, 8)]
            before = len(server.told)
            assert remote.ask(ROUTE, topic="%RETRY%desk").code == remote.ask(ROUTE, topic=REPLY_TOPIC).code == 0
            broker.create_topic("more", queues=1)
            until(lambda: "more" in server.topics() and len(server.told) > before, "the next registration")
            assert {name: server.topics()[name] for name in promised} == promised, "also once they are there"


def test_a_gateway_that_dies(tmp_path: Path, server: NameServer) -> None:
    with small_broker(tmp_path, listen="127.0.0.1:0", namesrv=server.address) as broker:
        until(lambda: server.told, "a registration")
        kill(broker, "gateway")
        until(lambda: len(server.connections) == 2 and len(server.told) >= 2, "a registration of the next one")
        assert server.told[0][1] == {**server.told[-1][1], "bodyCrc32": server.told[0][1]["bodyCrc32"]}


def test_a_name_server_that_comes_later_and_goes(tmp_path: Path, server: NameServer, other: NameServer) -> None:
    """Goal: it holds up nothing, and is told as soon as it answers."""
    server.refuses = True
    with small_broker(tmp_path, listen="127.0.0.1:0", namesrv=f"{server.address};{other.address}") as broker:
        until(lambda: other.told, "a registration with the other one")
        until(lambda: server.connections, "a try")
        assert not server.told
        server.refuses = False
        until(lambda: server.told, "a registration")
        server.connections[-1].shutdown(socket.SHUT_RDWR)
        before = len(server.told)
        until(lambda: len(server.told) > before, "another registration")
        assert actors(broker)["gateway"].epoch == 1


@pytest.mark.parametrize(
    "said",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", struct.pack(">II", 1 << 30, 4), struct.pack(">II", 8, 4) + b"[1]]"],
    ids=range(3),
)
def test_a_server_that_speaks_otherwise(tmp_path: Path, server: NameServer, said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WATCHDOG_S)
        strange = f"127.0.0.1:{listener.getsockname()[1]}"
        with small_broker(tmp_path, listen="127.0.0.1:0", namesrv=f"{strange};{server.address}") as broker:
            for _ in range(2):  # it is tried again
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(said)
                    connection.recv(1)
            until(lambda: server.told, "a registration with the other one")
            assert actors(broker)["gateway"].epoch == 1


@pytest.mark.parametrize(
    ("listen", "advertise", "shown"),
    [
        ("0.0.0.0:0", "", "127.0.0.1"),
        ("127.0.0.1:0", "broker.example:0", "broker.example"),
        ("127.0.0.1:0", "10.0.0.7:555", "10.0.0.7:555"),
    ],
)
def test_the_address_that_is_told(tmp_path: Path, server: NameServer, listen: str, advertise: str, shown: str) -> None:
    with small_broker(tmp_path, listen=listen, namesrv=server.address, advertise=advertise) as broker:
        until(lambda: server.told, "a registration")
        port = broker.status().listens.rpartition(":")[2]
        assert server.told[0][1]["brokerAddr"] == (shown if ":" in shown else f"{shown}:{port}")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"namesrv": "a:9876"}, "no client could reach this broker"),
        ({"listen": "127.0.0.1:0", "namesrv": "a"}, "it must end with a port"),
        ({"listen": "127.0.0.1:0", "namesrv": "a:9876;b:0"}, "a name server has a port above 0"),
        ({"listen": "127.0.0.1:0", "advertise": "a:b"}, "it must end with a port"),
        ({"listen": "127.0.0.1:0", "namesrv": 5}, "it must be a text"),
    ],
)
def test_addresses_that_are_none(tmp_path: Path, settings: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingError, match=why):
        small_broker(tmp_path, **settings).__enter__()


def test_a_broker_that_is_killed(tmp_path: Path, server: NameServer) -> None:
    """Goal: the connection ends with it, by which the name server forgets it."""
    with small_broker(tmp_path, listen="127.0.0.1:0", namesrv=server.address) as broker:
        until(lambda: server.told, "a registration")
        os.kill(broker.pid, signal.SIGKILL)
        ended = server.connections[0]
        until(lambda: ended.fileno() < 0, "the end of the connection")
