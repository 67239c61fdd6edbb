"""Goal: whoever speaks RocketMQ's protocol is answered as RocketMQ answers, from the log and into the log; and no client, no
kill and no bytes make the gateway lose, double or invent a message.

Method: a client made of the readable model of the protocol, beside OrbitMQ's own client on the same topics. RocketMQ's Java
client judges in tests/interop/test_remote.py. Of actors/gateway/gateway.py; also of actors/listener.py,
actors/gateway/remote_loop.py, actors/supervisor/spec.py, store/settings/listen_address.py and remoting/name_server.py.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.errors import SettingError
from tests.actors.held_port import held_port
from tests.actors.remoting_client import (
    CLUSTER,
    HEARTBEAT,
    MAX_OFFSET,
    MIN_OFFSET,
    ONE_WAY,
    PULL,
    QUERY_OFFSET,
    ROUTE,
    SEND,
    SEND_V2,
    UNREGISTER,
    Remote,
    body_of,
    damaged,
    records,
)  # fmt: skip
from tests.native.remoting_model import BINARY, JSON
from tests.trees import actors, everything, indexed, kill, small_broker, stored
from tests.waiting import dead, until

SUCCESS, SYSTEM_ERROR, NOT_SUPPORTED, ILLEGAL, NO_PERMISSION, NO_TOPIC = 0, 1, 3, 13, 16, 17
NOT_FOUND, RETRY, MOVED, BAD_FILTER = 19, 20, 21, 23


@pytest.fixture(params=[JSON, BINARY], ids=["json", "binary"])
def remote(broker: orbitmq.Broker, request: pytest.FixtureRequest) -> Iterator[Remote]:
    with Remote(broker.status().listens, request.param) as remote:
        yield remote


# ---- the tree


def test_nobody_listens_unless_asked(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        assert "gateway" not in actors(broker) and broker.status().listens == ""


def test_the_address_is_remembered_and_shown(tmp_path: Path) -> None:
    """A start without the setting listens again; port 0 is any port, and the status names the one that it got."""
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker:
        assert actors(broker)["gateway"].state == "running"
        assert int(broker.status().listens.removeprefix("127.0.0.1:")) > 0
    with small_broker(tmp_path) as broker, Remote(broker.status().listens) as remote:
        assert remote.ask(HEARTBEAT, b"{}").code == SUCCESS


def test_an_address_that_is_taken(tmp_path: Path) -> None:
    """The start fails and names address and reason; nothing is left."""
    with held_port() as port:
        address = f"127.0.0.1:{port}"
        refusal = pytest.raises(SettingError, match=f"cannot set listen to '{address}': .*in use")
        with socket.create_server(("127.0.0.1", port)), refusal as caught:  # the server sets SO_REUSEADDR, too
            small_broker(tmp_path, listen=address).__enter__()
        assert caught.value.name == "listen"
        with small_broker(tmp_path, listen=address) as broker:
            assert broker.status().listens == address


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1", "127.0.0.1:70000", ":9876", "::1:9876", "1.2.3.4:x"])
def test_an_address_that_is_none(tmp_path: Path, address: str) -> None:
    with pytest.raises(SettingError, match="cannot set listen to"):
        small_broker(tmp_path, listen=address).__enter__()


# ---- answers


def test_routes(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """The route names this broker, at the address that the client reached. What does not exist has none."""
    address = broker.status().listens
    brokers = {"brokerAddrs": {"0": address}, "brokerName": broker.name, "cluster": "DefaultCluster"}
    queues = {"brokerName": broker.name, "perm": 6, "readQueueNums": 2, "topicSysFlag": 0, "writeQueueNums": 2}
    said = remote.ask(ROUTE, topic=topic)
    assert said.code == SUCCESS and b" " not in said.body
    assert json.loads(said.body) == {"brokerDatas": [brokers], "filterServerTable": {}, "queueDatas": [queues]}
    assert remote.ask(ROUTE, topic="absent").code == NO_TOPIC
    assert remote.ask(ROUTE).code == SYSTEM_ERROR
    said = remote.ask(CLUSTER)
    assert json.loads(said.body)["clusterAddrTable"] == {"DefaultCluster": [broker.name]}
    broker.delete_topic(topic)
    assert remote.ask(ROUTE, topic=topic).code == NO_TOPIC
    assert remote.send(topic, b"late", c="none").code == NO_TOPIC


def test_routes_for_other_versions(topic: str, remote: Remote) -> None:
    """Older clients get the numbers of brokers without quotes, as from RocketMQ; some understand nothing else. Those of
    RocketMQ 5 get what it adds, without which some of them read nothing."""
    for code in (ROUTE, CLUSTER):
        remote.version = 401
        standard = remote.ask(code, topic=topic).body
        assert b'"brokerAddrs":{"0":"127.0.0.1:' in standard
        remote.version = 400
        assert remote.ask(code, topic=topic, acceptStandardJsonOnly="true").body == standard
        assert remote.ask(code, topic=topic).body == standard.replace(b'{"0":', b"{0:")
        remote.version = 413
        more = b'"cluster":"DefaultCluster","enableActingMaster":false}'
        assert remote.ask(code, topic=topic).body == standard.replace(b'"cluster":"DefaultCluster"}', more)


@pytest.mark.usefixtures("topic")
def test_what_is_not_supported_is_said(remote: Remote) -> None:
    said = remote.ask(12345)
    assert said.code == NOT_SUPPORTED and "12345" in (said.remark or "")
    assert remote.ask(UNREGISTER, clientID="c").code == SUCCESS


def test_sends_and_pulls(broker: orbitmq.Broker, remote: Remote, topic: str, group: str) -> None:
    """Both forms of a send; receipts name the true places; what is read is what was sent, by us and through the gateway."""
    rng = random.Random(remote.form)
    sent = []
    for number in range(60):
        body, queue, unique = rng.randbytes(rng.choice([0, 1, 200, 20_000])), rng.randrange(2), f"ID{number}"
        properties = f"UNIQ_KEY\1{unique}\2WAIT\1true\2TAGS\1{'ab'[number % 2]}\2colour\1blue\2".encode()
        if number % 2:
            said = remote.send(topic, body, queue, properties, h=7)
        else:
            fields = {"producerGroup": group, "topic": topic, "queueId": queue, "sysFlag": 0, "bornTimestamp": 5, "flag": 7}
            said = remote.ask(SEND, body, properties=properties, **fields)
        assert said.code == SUCCESS and said.fields["transactionId"] == unique and said.body == b""
        assert said.fields["TRACE_ON"] == "true" and said.fields["queueId"] == str(queue)
        born_ms = 1_700_000_000_123 if number % 2 else 5
        sent.append((body, queue, int(said.fields["queueOffset"]), said.fields["msgId"], born_ms))
    assert [(bytes(each), each.queue, each.offset, each.id, each.born_ms) for each in stored(broker, topic)] == sent
    for number, each in enumerate(stored(broker, topic)):
        own = {name: value for name, value in each.properties.items() if name != "__CRC32#"}
        assert own == {"UNIQ_KEY": f"ID{number}", "colour": "blue", "TAGS": "ab"[number % 2]} and each.flag == 7
    for queue in range(2):
        found, offset = [], 0
        while (said := remote.pull(topic, queue, offset)).code == SUCCESS:
            found += [body_of(record) for record in records(said.body)]
            offset = int(said.fields["nextBeginOffset"])
            assert b"__CRC32#" not in said.body
        assert said.code == NOT_FOUND
        assert found == [body for body, number, *_ in sent if number == queue]
        assert remote.ask(MAX_OFFSET, topic=topic, queueId=queue).fields == {"offset": str(len(found))}
        assert remote.ask(MIN_OFFSET, topic=topic, queueId=queue).fields == {"offset": "0"}


def test_a_one_way_send(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """It is stored, and only what asks for an answer gets one; also of what Python answers."""
    remote.put(SEND_V2, b"one-way", mark=ONE_WAY, **remote.send_fields(topic, 0))
    remote.put(HEARTBEAT, b"{}", mark=ONE_WAY)
    remote.put(SEND_V2, b"refused", mark=ONE_WAY, **remote.send_fields("absent", 0, c="none"))
    assert remote.send(topic, b"then").fields["queueOffset"] == "1"
    indexed(broker)
    assert [bytes(message) for message in stored(broker, topic)] == [b"one-way", b"then"]


def test_any_queue(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """A negative queue id leaves the choice to the broker."""
    assert {remote.send(topic, b"x", -1).fields["queueId"] for _ in range(4)} == {"0", "1"}


REFUSED: list[tuple[dict[str, Any], int]] = [
    ({"b": "absent", "c": "none"}, NO_TOPIC),
    ({"b": "x" * 200}, SYSTEM_ERROR),
    ({"b": "a b"}, SYSTEM_ERROR),
    ({"b": "absent", "d": "x"}, SYSTEM_ERROR),
    ({"e": 2}, SYSTEM_ERROR),
    ({"e": "two"}, SYSTEM_ERROR),
    ({"b": "read_only"}, NO_PERMISSION),
    ({"f": 8}, ILLEGAL),
    ({"f": 0x401}, ILLEGAL),
    ({"h": 1 << 40}, ILLEGAL),
    ({"i": b"TIMER_OUT_MS\0013\2"}, ILLEGAL),
    ({"i": b"TRAN_MSG\1true\2DELAY\0011\2"}, ILLEGAL),
    ({"i": b"REAL_TOPIC\1t\2"}, ILLEGAL),
    ({"i": b"TRAN_MSG\1true\2", "a": "g" * 256}, ILLEGAL),
    ({"i": b"TRAN_MSG\1true\2", "a": ""}, ILLEGAL),
    ({"f": 12}, ILLEGAL),
    ({"i": b"k\1" + b"v" * 33_000 + b"\2"}, ILLEGAL),
]


@pytest.mark.parametrize(("change", "code"), REFUSED, ids=[f"{change}"[:40] for change, _ in REFUSED])
def test_refused_sends(broker: orbitmq.Broker, remote: Remote, change: dict[str, Any], code: int, topic: str) -> None:
    """The code and a reason; nothing is stored, and the connection goes on."""
    broker.create_topic("read_only", 1)
    broker.set_permissions("read_only", read=True, write=False)
    said = remote.ask(SEND_V2, b"body", **remote.send_fields(topic, 0, **change))
    assert (said.code, bool(said.remark)) == (code, True), said
    assert remote.send(topic, b"good").fields["queueOffset"] == "0"
    indexed(broker)
    assert [bytes(message) for message in stored(broker, topic)] == [b"good"]


def test_a_send_to_the_halves(broker: orbitmq.Broker, remote: Remote) -> None:
    """Their topic is there once a transaction has begun."""
    said = remote.ask(SEND_V2, b"body", **remote.send_fields("RMQ_SYS_TRANS_HALF_TOPIC", 0))
    assert (said.code, bool(said.remark)) == (NO_PERMISSION, True), said
    assert remote.send("t", b"good").fields["queueOffset"] == "0"
    assert [bytes(message) for message in stored(broker)] == [b"good"]


def test_a_message_that_is_passed_on(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """A client may send on what it had from a broker: what brokers have noted on it is left out. What clients note for each
    other stays."""
    notes = b"CLUSTER\1c\2MIN_OFFSET\0010\2MAX_OFFSET\0019\2__CRC32#\1x\2ATOMIC\0010:2\2MSG_REGION\1r\2TRACE_ON\1true\2"
    assert remote.send(topic, b"x", 0, notes + b"__SHARDINGKEY\1s\2INSTANCE_ID\1i\2colour\1blue\2").code == SUCCESS
    indexed(broker)
    (message,) = stored(broker, topic)
    own = {name: value for name, value in message.properties.items() if name != "__CRC32#"}
    assert own == {"__SHARDINGKEY": "s", "INSTANCE_ID": "i", "colour": "blue"}


def test_too_large_a_message(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    most = broker.status().message_max
    for size in (most, 3 * most):
        assert remote.send(topic, bytes(size)).code == ILLEGAL
    assert remote.send(topic, bytes(most - 200)).code == SUCCESS


def test_a_durable_topic(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """The answer comes when the message is on the disk."""
    safe = f"{topic}-safe"
    broker.create_topic(safe, 1, durability="flushed")
    for _ in range(5):
        said = remote.send(safe, b"x" * 100)
        assert broker.status().positions.flushed > int(said.fields["msgId"][16:], 16)


def test_where_a_pull_begins(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """The table of RocketMQ's answers by offset."""
    for number in range(3):
        remote.send(topic, b"%d" % number)
    indexed(broker)
    table = [(0, SUCCESS, 3), (2, SUCCESS, 3), (3, NOT_FOUND, 3), (4, MOVED, 3), (99, MOVED, 3), (-1, MOVED, 0)]
    for offset, code, following in table:
        said = remote.pull(topic, 0, offset)
        assert (offset, said.code, said.fields["nextBeginOffset"]) == (offset, code, str(following))
        assert (said.fields["minOffset"], said.fields["maxOffset"], said.fields["suggestWhichBrokerId"]) == ("0", "3", "0")
    assert [(remote.pull(topic, 1, offset).code) for offset in (0, 5)] == [NOT_FOUND, MOVED]
    assert len(records(remote.pull(topic, 0, 0, most=2).body)) == 2
    assert len(records(remote.pull(topic, 0, 0, most=0).body)) == 3
    assert remote.pull(topic, 2, 0).code == SYSTEM_ERROR
    assert remote.pull("absent", 0, 0).code == NO_TOPIC
    assert remote.ask(PULL, **{**remote.pull_fields(topic, 0, 0), "expressionType": "SQL92"}).code == BAD_FILTER
    assert remote.ask(QUERY_OFFSET, consumerGroup="nobody", topic=topic, queueId=0).fields == {"offset": "0"}
    assert remote.ask(QUERY_OFFSET, consumerGroup="nobody", topic=topic, queueId=2).fields == {"offset": "0"}


def test_the_offset_of_a_group(broker: orbitmq.Broker, remote: Remote, topic: str, group: str) -> None:
    """What a local member has committed."""
    for _ in range(4):
        remote.send(topic, b"x", 1)
    indexed(broker)
    with broker.consumer(group, topics=[topic], start="earliest") as consumer:
        assert len(consumer.poll_batch(3, timeout=10)) == 3
        consumer.commit()
    assert remote.ask(QUERY_OFFSET, consumerGroup=group, topic=topic, queueId=1).fields == {"offset": "3"}


def test_tags(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    for number in range(40):
        remote.send(topic, b"%d" % number, 0, b"TAGS\1" + b"abcd"[number % 4 :][:1])
    indexed(broker)
    said = remote.pull(topic, 0, 0, tags=" b|| d ")
    assert [int(body_of(each)) % 4 for each in records(said.body)] == [1, 3] * 8
    said = remote.pull(topic, 0, int(said.fields["nextBeginOffset"]), tags="nothing")
    assert (said.code, said.fields["nextBeginOffset"]) == (RETRY, "40")
    assert remote.pull(topic, 0, 0, tags="||".join(map(str, range(65)))).code == BAD_FILTER


def test_held_pulls(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """One that finds nothing new is answered when something comes, or when its time is over; others do not wait for it."""
    first = remote.put(PULL, **remote.pull_fields(topic, 0, 0, suspend_ms=200_000))
    second = remote.put(PULL, **remote.pull_fields(topic, 1, 0, suspend_ms=10))
    said = remote.take()
    assert (said.opaque, said.code) == (second, NOT_FOUND)
    assert remote.send(topic, b"elsewhere", 1).code == SUCCESS
    with broker.producer() as producer:
        producer.send(topic, b"news", queue=0)
    said = remote.take()
    assert (said.opaque, said.code) == (first, SUCCESS)
    assert [body_of(each) for each in records(said.body)] == [b"news"]


def test_a_stop_answers_held_pulls(tmp_path: Path) -> None:
    """With what a client expects of a pull that found nothing; then the connection is closed."""
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker:
        broker.create_topic("t", 1)
        remote = Remote(broker.status().listens)
        held = remote.put(PULL, **remote.pull_fields("t", 0, 0, suspend_ms=200_000))
        assert remote.ask(HEARTBEAT, b"{}").code == SUCCESS
    said = remote.take()
    assert (said.opaque, said.code) == (held, NOT_FOUND)
    with pytest.raises(ConnectionError):
        remote.take()
    remote.socket.close()


# ---- connections


def test_frames_in_pieces_and_in_heaps(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """However TCP cuts the stream, each request is answered once, and sends of a connection keep their order."""
    frame = remote.frame(SEND_V2, b"slowly", **remote.send_fields(topic, 0))
    for at in range(len(frame)):
        remote.socket.sendall(frame[at : at + 1])
    assert remote.take().fields["queueOffset"] == "0"
    heap = b"".join(remote.frame(SEND_V2, b"%d" % number, **remote.send_fields(topic, 0)) for number in range(500))
    remote.socket.sendall(heap)
    assert [int(remote.take().fields["queueOffset"]) for _ in range(500)] == list(range(1, 501))
    indexed(broker)
    assert [bytes(message) for message in stored(broker, topic)] == [b"slowly", *(b"%d" % number for number in range(500))]


def test_more_than_the_ring_holds(broker: orbitmq.Broker, remote: Remote, topic: str) -> None:
    """Sends that find no room in the submission ring wait for it, on their own connection; the others are served."""
    size = broker.status().message_max - 300
    frames = [remote.frame(SEND_V2, bytes([number]) * size, **remote.send_fields(topic, 0)) for number in range(60)]
    sending = threading.Thread(target=lambda: [remote.socket.sendall(frame) for frame in frames])
    sending.start()
    with Remote(broker.status().listens) as other:
        for _ in range(20):
            assert other.ask(HEARTBEAT, b"{}").code == SUCCESS
            assert other.send(topic, b"small", 1).code == SUCCESS
    assert [int(remote.take().fields["queueOffset"]) for _ in range(60)] == list(range(60))
    sending.join()


def test_who_does_not_read_is_not_served(broker: orbitmq.Broker, remote: Remote) -> None:
    """Answers that nobody takes stop that connection's requests, not the gateway; when they are taken, all of them come."""
    for _ in range(20):
        remote.send("t", bytes(20_000))
    indexed(broker)
    asked = 1000
    frames = b"".join(remote.frame(PULL, **remote.pull_fields("t", 0, 0)) for _ in range(asked))
    sending = threading.Thread(target=remote.socket.sendall, args=(frames,))
    sending.start()
    with Remote(broker.status().listens) as other:
        assert other.send("t", b"served", 1).code == SUCCESS
        sending.join()
        assert other.send("t", b"served", 1).code == SUCCESS
    pid = actors(broker)["gateway"].pid
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert resident < 150 << 20  # the answers have 280 MB in all
    for _ in range(asked):
        said = remote.take()
        assert said.code == SUCCESS and len(said.body) > 200_000
    assert actors(broker)["gateway"].pid == pid


BAD = [
    b"\0\0\0\3abc",
    b"\xff" * 20,
    b"\x16\x03\x01" + bytes(50),
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\0\0\0\x20\0\0\0\x30" + bytes(30),
    b"\0\0\0\x0c\0\0\0\x08notajson",
    b"\0\0\0\x0c\1\0\0\x08notajson",
    b"\0\0\0\x0c\2\0\0\x08notajson",
]


@pytest.mark.parametrize("data", BAD, ids=range(len(BAD)))
def test_who_sends_nonsense_is_cut_off(broker: orbitmq.Broker, data: bytes, topic: str) -> None:
    """That connection is closed; others do not notice."""
    with Remote(broker.status().listens) as good, Remote(broker.status().listens) as bad:
        pid = actors(broker)["gateway"].pid
        bad.socket.sendall(data)
        with pytest.raises(ConnectionError):
            bad.take()
        assert good.send(topic, b"x").code == SUCCESS
        assert actors(broker)["gateway"].pid == pid


@pytest.mark.parametrize("seed", range(3))
def test_damaged_requests(broker: orbitmq.Broker, seed: int) -> None:
    """Requests of every kind with bytes changed, lost and doubled: the gateway lives, and stores only whole messages."""
    rng = random.Random(seed)
    listens = broker.status().listens
    pid = actors(broker)["gateway"].pid
    for number in range(300):
        with Remote(listens, number % 2) as remote:
            fields: dict[int, dict[str, object]] = {
                SEND_V2: remote.send_fields("t", 0, b"KEYS\1k\2TAGS\1x\2"),
                PULL: remote.pull_fields("t", 0, 0),
                ROUTE: {"topic": "t"},
                QUERY_OFFSET: {"consumerGroup": "g", "topic": "t", "queueId": 0},
            }
            code = rng.choice(list(fields))
            remote.socket.sendall(damaged(rng, remote.frame(code, b"body", **fields[code])))
            remote.socket.shutdown(socket.SHUT_WR)
            try:
                while True:
                    assert remote.take().opaque >= -(1 << 31)
            except ConnectionError:
                pass
    with Remote(listens) as remote:
        assert remote.send("t", b"good", 1).code == SUCCESS
    assert actors(broker)["gateway"].pid == pid
    indexed(broker)
    assert all(len(message) <= 5 * 9 + 4 for message in stored(broker))


def test_many_connections(broker: orbitmq.Broker) -> None:
    """They come, stay and go; what they used is used again."""
    listens = broker.status().listens
    for _ in range(3):
        crowd = [Remote(listens) for _ in range(150)]
        for each in crowd:
            assert each.ask(HEARTBEAT, b"{}").code == SUCCESS
        for each in crowd:
            each.socket.close()
    descriptors = Path(f"/proc/{actors(broker)['gateway'].pid}/fd")
    until(lambda: len(list(descriptors.iterdir())) < 40, "the connections' end")


# ---- deaths


def test_a_killed_gateway(broker: orbitmq.Broker) -> None:
    """Clients see closed connections, and the next gateway listens at the same address. Each message that was acknowledged is
    in the log once, at its place."""
    listens = broker.status().listens
    rng = random.Random(5)
    acknowledged: dict[bytes, tuple[int, int]] = {}
    number = 0
    for _ in range(6):
        with Remote(listens) as remote:
            names = {}
            for _ in range(rng.randrange(1, 200)):
                number += 1
                queue = number % 2
                names[remote.put(SEND_V2, b"%d" % number, **remote.send_fields("t", queue))] = b"%d" % number
            try:
                for _ in range(rng.randrange(len(names))):
                    said = remote.take()
                    acknowledged[names[said.opaque]] = int(said.fields["queueId"]), int(said.fields["queueOffset"])
                kill(broker, "gateway")
                while True:
                    said = remote.take()
                    acknowledged[names[said.opaque]] = int(said.fields["queueId"]), int(said.fields["queueOffset"])
            except ConnectionError:
                pass
    with Remote(listens) as remote:
        assert remote.send("t", b"last").code == SUCCESS
    until(lambda: not any(dead(each.pid) for each in broker.status().sessions), "what the last gateway had taken")
    rows = everything(broker, "t")
    found = {body: (queue, offset) for body, queue, offset, _ in rows}
    assert len(found) == len(rows), "something is stored twice"
    assert acknowledged and all(found.get(body) == place for body, place in acknowledged.items())


@pytest.mark.parametrize("victim", ["writer", "handler 0", "handler 1", "reput", "coordinator", "flush"])
def test_the_others_deaths(broker: orbitmq.Broker, victim: str) -> None:
    """Whoever else dies, sends are answered once, in order, and pulls go on."""
    with Remote(broker.status().listens) as remote:
        remote.socket.sendall(b"".join(remote.frame(SEND_V2, b"%d" % n, **remote.send_fields("t", 0)) for n in range(300)))
        kill(broker, victim)
        assert [int(remote.take().fields["queueOffset"]) for _ in range(300)] == list(range(300))
        offset = 0
        while offset < 300:
            said = remote.pull("t", 0, offset, suspend_ms=1000)
            assert said.code in (SUCCESS, NOT_FOUND)
            offset = int(said.fields["nextBeginOffset"])


def test_the_tree_s_death_ends_the_gateway(tmp_path: Path) -> None:
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker:
        pid = actors(broker)["gateway"].pid
        listens = broker.status().listens
        os.kill(broker.pid, signal.SIGKILL)
        until(lambda: dead(pid), "the gateway's end")
        with pytest.raises(OSError, match="refused"):
            Remote(listens)
