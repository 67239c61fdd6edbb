"""Goal: a client that closes its sending side gets every receipt and answer that it is owed, and then the end; nobody stays.

Method: clients of the readable model of the protocol that send, shut their sending side down at once and read afterwards, as a
pipe through a network tool does. Of native/remoting/gateway/gateway_owed.c.
"""

from __future__ import annotations

import fcntl
import json
import re
import socket
import ssl
import struct
import termios
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.actors.gateway.remote_loop import WINDOW
from tests.actors.far_end import far_end
from tests.actors.fronts import serving, socket_of
from tests.actors.remoting_client import HEARTBEAT, ONE_WAY, PULL, ROUTE, SEND_V2, Remote, Said, body_of, records
from tests.actors.remoting_kinds import CERTIFICATES
from tests.actors.shared_broker import broker_for
from tests.actors.test_gateway_tls import connections
from tests.trees import actors, indexed, kill, small_broker, stopped
from tests.waiting import until

SUCCESS, SYSTEM_ERROR, NOT_FOUND, CONSUMERS, CONSUMER_STATE, NOT_ONLINE = 0, 1, 19, 203, 307, 206
COMMIT = 15
SENDS = 300
FEW = 100  # requests, which any socket has room for


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[orbitmq.Broker]:
    files = {"tls_cert": str(CERTIFICATES / "first.pem"), "tls_key": str(CERTIFICATES / "first.key")}
    with broker_for(request, listen="127.0.0.1:0", **files) as broker:
        yield broker


@pytest.fixture
def kept(broker: orbitmq.Broker, place: tuple[str, str]) -> str:
    """A topic whose receipts wait for the disk."""
    name = f"kept-{place[1]}"
    broker.create_topic(name, 2, durability="flushed")
    return name


class Pipe:
    """TLS over a socket, of which one direction can end: Python's own waits for the end of the other one."""

    def __init__(self, inner: socket.socket) -> None:
        self._inner = inner
        self._came, self._sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=str(CERTIFICATES / "first.pem"))
        self._tls = context.wrap_bio(self._came, self._sent, server_hostname="127.0.0.1")
        self._until(self._tls.do_handshake)

    def sendall(self, data: bytes) -> None:
        self._tls.write(data)
        self._inner.sendall(self._sent.read())

    def recv(self, size: int) -> bytes:
        try:
            return bytes(self._until(lambda: self._tls.read(size)))
        except ssl.SSLZeroReturnError:
            return b""

    def shutdown(self, how: int) -> None:
        assert how == socket.SHUT_WR
        with suppress(ssl.SSLWantReadError):
            self._tls.unwrap()
        self._inner.sendall(self._sent.read())

    def close(self) -> None:
        self._inner.close()

    def _until(self, step: Callable[[], Any]) -> Any:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self._inner.sendall(self._sent.read())
                some = self._inner.recv(1 << 16)
                self._came.write(some) if some else self._came.write_eof()


class Secure(Remote):
    def __init__(self, listens: str) -> None:
        super().__init__(listens)
        self.socket = Pipe(self.socket)  # type: ignore[assignment]


def finish(remote: Remote) -> None:
    """Sends no more."""
    remote.socket.shutdown(socket.SHUT_WR)


def join(remote: Remote, group: str) -> None:
    """It is a member of the consumer group."""
    data = {"groupName": group, "messageModel": "CLUSTERING", "consumeType": "CONSUME_ACTIVELY"}
    data |= {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": []}
    told = json.dumps({"clientID": "1@a", "consumerDataSet": [data], "producerDataSet": []}).encode()
    remote.until(remote.put(HEARTBEAT, told))


def rest(remote: Remote) -> list[Said]:
    """All answers up to the end."""
    said = []
    while True:
        try:
            said.append(remote.answered())
        except ConnectionError:
            return said


@pytest.mark.parametrize("kind", [Remote, Secure])
def test_receipts(broker: orbitmq.Broker, kind: type[Remote], topic: str, kept: str) -> None:
    """The writer waits for the disk while the client has finished long since."""
    with kind(broker.status().listens) as remote:
        frames = [remote.frame(SEND_V2, b"%d" % n, **remote.send_fields(kept, n % 2)) for n in range(SENDS)]
        remote.socket.sendall(b"".join(frames))
        finish(remote)
        said = rest(remote)
    assert [each.code for each in said] == [SUCCESS] * SENDS
    assert sorted(int(each.fields["queueOffset"]) for each in said if each.fields["queueId"] == "1") == [*range(SENDS // 2)]


def test_all_kinds_of_answers(broker: orbitmq.Broker, topic: str, kept: str) -> None:
    """Of the loop, of the log, of Python; and nothing for what wants no answer."""
    with broker.producer() as producer:
        producer.send(topic, b"one", queue=0)
    indexed(broker)
    with Remote(broker.status().listens) as remote:
        frames = [
            remote.frame(SEND_V2, b"a", **remote.send_fields(kept, 0)),
            remote.frame(PULL, **remote.pull_fields(topic, 0, 0)),
            remote.frame(HEARTBEAT, b"{}"),
            remote.frame(SEND_V2, b"b", mark=ONE_WAY, **remote.send_fields(kept, 0)),
            remote.frame(ROUTE, topic=topic),
            remote.frame(SEND_V2, b"c", **remote.send_fields(kept, 0)),
        ]
        remote.socket.sendall(b"".join(frames) + frames[0][:-1])  # of the last one a part is lost
        finish(remote)
        said = {each.opaque: each.code for each in rest(remote)}
    assert said == dict.fromkeys((1, 2, 3, 5, 6), SUCCESS)
    indexed(broker)
    with Remote(broker.status().listens) as other:
        pulled = records(other.pull(kept, 0, 0).body)
        assert [body_of(each) for each in pulled] == [b"a", b"b", b"c"]


def test_much_that_is_read_late(broker: orbitmq.Broker, topic: str) -> None:
    """More than the sockets hold: it is sent as the client reads it."""
    body = bytes(60_000)
    with broker.producer() as producer:
        for _ in range(32):
            producer.send(topic, body, queue=0)
    indexed(broker)
    with Remote(broker.status().listens) as remote:
        remote.socket.sendall(b"".join(remote.frame(PULL, **remote.pull_fields(topic, 0, 0)) for _ in range(40)))
        finish(remote)
        with Remote(broker.status().listens) as other:
            assert other.ask(HEARTBEAT, b"{}").code == SUCCESS, "others are served meanwhile"
        said = rest(remote)
    assert [each.code for each in said] == [SUCCESS] * 40 and all(len(each.body) > 60_000 for each in said)


def test_held_pulls(broker: orbitmq.Broker, topic: str) -> None:
    """They end at once, also those that come with the end."""
    with Remote(broker.status().listens) as remote:
        remote.put(PULL, **remote.pull_fields(topic, 0, 0, suspend_ms=200_000))
        assert remote.ask(HEARTBEAT, b"{}").code == SUCCESS, "it is held"
        remote.put(PULL, **remote.pull_fields(topic, 1, 0, suspend_ms=200_000))
        finish(remote)
        assert sorted((each.opaque, each.code) for each in rest(remote)) == [(1, NOT_FOUND), (3, NOT_FOUND)]


def test_members_leave(broker: orbitmq.Broker, group: str, kept: str) -> None:
    """Who has finished is no member, whatever it still gets; and questions are not passed on to it."""
    with Remote(broker.status().listens) as member, Remote(broker.status().listens) as asking:
        join(member, group)
        assert asking.ask(CONSUMERS, consumerGroup=group).code == SUCCESS
        asked = asking.put(CONSUMER_STATE, consumerGroup=group, clientId="1@a", jstackEnable="false")
        assert member.next_one().code == CONSUMER_STATE
        member.put(SEND_V2, b"last", **member.send_fields(kept, 0))
        finish(member)
        said = asking.take()
        assert (said.opaque, said.code) == (asked, SYSTEM_ERROR) and "closed its connection" in (said.remark or "")
        assert [each.code for each in rest(member)] == [SUCCESS]
        until(lambda: asking.ask(CONSUMERS, consumerGroup=group).code == NOT_ONLINE, "the member to leave")


def test_who_asked_gets_what_was_passed_on(broker: orbitmq.Broker, group: str) -> None:
    """The one that asks has finished; the consumer answers afterwards."""
    with Remote(broker.status().listens) as member, Remote(broker.status().listens) as asking:
        join(member, group)
        asking.put(CONSUMER_STATE, consumerGroup=group, clientId="1@a", jstackEnable="false")
        finish(asking)
        member.reply(member.next_one().opaque, SUCCESS, b"{}")
        assert [(each.code, each.body) for each in rest(asking)] == [(SUCCESS, b"{}")]


def test_nobody_stays(broker: orbitmq.Broker, kept: str) -> None:
    """Clients that finish with nothing owed, with receipts that they do not read, and that are gone."""
    before = connections(broker)
    with Remote(broker.status().listens) as still:
        assert still.ask(HEARTBEAT, b"{}").code == SUCCESS
        remotes = [Remote(broker.status().listens) for _ in range(30)]
        assert [each.ask(HEARTBEAT, b"{}").code for each in remotes] == [SUCCESS] * 30, "all are there"
        for n, remote in enumerate(remotes):
            if n % 3:
                remote.socket.sendall(remote.frame(SEND_V2, b"x", **remote.send_fields(kept, 0)))
            if n % 3 == 2:
                remote.socket.close()
            else:
                finish(remote)
        until(lambda: connections(broker) == before + 1, "the ends of all connections")
        for remote in remotes:
            remote.socket.close()


def test_one_that_never_reads(tmp_path: Path) -> None:
    """What it is owed is kept no longer than connection_idle_s."""
    with small_broker(tmp_path, listen="127.0.0.1:0", connection_idle_s=0.5) as broker:
        broker.create_topic("t", 1)
        with broker.producer() as producer:
            producer.send("t", bytes(60_000))
        indexed(broker)
        before = connections(broker)

        def asks() -> Remote | None:
            """None: it has stood still for so long that its connection was closed."""
            remote = Remote(broker.status().listens)
            try:
                assert remote.ask(HEARTBEAT, b"{}").code == SUCCESS
                remote.socket.sendall(b"".join(remote.frame(PULL, **remote.pull_fields("t", 0, 0)) for _ in range(500)))
                finish(remote)
            except OSError:
                remote.socket.close()
                return None
            return remote

        with until(asks, "one who has asked for all of it"):
            until(lambda: connections(broker) == before, "the end of who does not read")


@pytest.mark.parametrize("seed", range(3))
def test_a_new_gateway(broker: orbitmq.Broker, seed: int, kept: str) -> None:
    """Killed while it owes: the client sees the end, each message is stored once at most, and those with receipts are."""
    with Remote(broker.status().listens) as remote:
        remote.socket.sendall(b"".join(remote.frame(SEND_V2, b"%d" % n, **remote.send_fields(kept, 0)) for n in range(SENDS)))
        finish(remote)
        said = [remote.take() for _ in range(seed * 20)]
        kill(broker, "gateway")
        with suppress(ConnectionResetError):
            said += rest(remote)
        assert {each.code for each in said} <= {SUCCESS}
    due = {int(each.fields["queueOffset"]): each.opaque - 1 for each in said}
    with broker.consumer(None, topics=[kept], start="earliest") as consumer:
        stored = dict[int, bytes]()
        indexed(broker)
        while some := consumer.poll_batch(timeout=0.0):
            stored |= {each.offset: bytes(each.body) for each in some}
    assert len(set(stored.values())) == len(stored)
    assert {offset: stored.get(offset) for offset in due} == {offset: b"%d" % n for offset, n in due.items()}


def reset(remote: Remote) -> None:
    """Ends the connection as a process does that closes it with answers unread, or dies."""
    remote.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    remote.socket.close()


@pytest.mark.parametrize("how", [reset, lambda remote: remote.socket.close()], ids=["reset", "closed"])
def test_what_was_sent_before_a_reset(broker: orbitmq.Broker, how: Callable[[Remote], None]) -> None:
    """Goal: every request counts that has come, although nobody waits for the answers: those that Python serves, one after the
    other, and those that the loop serves. RocketMQ's Go client commits so when it ends."""
    broker.create_topic("many", 6)
    before = connections(broker)
    with broker.producer() as producer:
        for queue in range(6):
            producer.send_batch("many", [b"x"] * 6, queue=queue)
    indexed(broker)
    for round_ in range(5):
        group = f"g{round_}"
        wanted = {("many", queue): (queue + round_) % 6 + 1 for queue in range(6)}
        with Remote(broker.status().listens) as remote:
            commits = [
                remote.frame(COMMIT, consumerGroup=group, topic=topic, queueId=queue, commitOffset=offset)
                for (topic, queue), offset in wanted.items()
            ]
            sends = [remote.frame(SEND_V2, b"x", **remote.send_fields("t", n % 2)) for n in range(20)]
            remote.socket.sendall(b"".join([*commits[:2], *sends, *commits[2:], *sends]))
            how(remote)
        until(lambda group=group, wanted=wanted: committed(broker, group) == wanted, "the commits")  # type: ignore[misc]
    until(lambda: sum(queue.max_offset for queue in topic_of(broker, "t").queues) == 200, "the messages")
    until(lambda: connections(broker) == before, "the ends")


def watched(broker: orbitmq.Broker) -> set[str]:
    """The sockets that the epoll of the process has that serves the clients."""
    process = Path("/proc") / str(actors(broker)[serving()].pid)
    links: dict[str, str] = {}
    for fd in (process / "fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            links[fd.name] = str(fd.readlink())
    polls = [(process / "fdinfo" / fd).read_text() for fd, link in links.items() if link == "anon_inode:[eventpoll]"]
    known = [links.get(fd, "") for poll in polls for fd in re.findall(r"^tfd:\s*(\d+)", poll, re.M)]
    return {link for link in known if link.startswith("socket:")}


def test_a_reset_while_there_is_no_room(broker: orbitmq.Broker) -> None:
    """Goal: the gateway does not spin over a broken connection whose request waits for room; epoll would tell of it again and
    again. Method: no handler takes the sends, which come a few at a time until there is room for no more; the connection leaves
    epoll, and all that has come of it is stored in the end."""
    before = watched(broker)
    handlers = [name for name in actors(broker) if name.startswith("handler")]
    sent = 0
    with ExitStack() as hanging, Remote(broker.status().listens) as remote:
        for name in handlers:
            hanging.enter_context(stopped(broker, name))
        until(lambda: socket_of(remote.socket) in watched(broker), "the connection")
        while socket_of(remote.socket) in watched(broker):
            assert sent < 2 * WINDOW
            remote.socket.sendall(b"".join(remote.frame(SEND_V2, b"x", **remote.send_fields("t", n % 2)) for n in range(FEW)))
            sent += FEW
            end = partial(far_end, remote.socket)
            until(lambda: not end().unread or socket_of(remote.socket) not in watched(broker), "them to be read")
        until(lambda: fcntl.ioctl(remote.socket, termios.TIOCOUTQ, bytes(4)) == bytes(4), "all to have come")
        reset(remote)
    until(lambda: sum(queue.max_offset for queue in topic_of(broker, "t").queues) == sent, "the messages")
    until(lambda: watched(broker) == before, "the end")


def committed(broker: orbitmq.Broker, group: str) -> dict[tuple[str, int], int]:
    found = [each for each in broker.groups() if each.name == group]
    return {(queue.topic, queue.queue): queue.committed for each in found for queue in each.queues}


def topic_of(broker: orbitmq.Broker, name: str) -> Any:
    return next(topic for topic in broker.status().topics if topic.name == name)
