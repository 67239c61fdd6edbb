"""Goal: several gateways at one port are one gateway for their clients: each request is answered as one process would answer
it, in the order of the requests, whoever serves the client, and whichever process dies or hangs.

Method: clients of the readable model of the protocol that are placed at the lead or at a front (fronts.py). Modules that
conftest.py names run with clients of a front, too. Deaths at each step are in tests/crash/test_points.py. Also of
actors/gateway/front.py, actors/supervisor/front_ends.py and actors/tree.py.
"""

from __future__ import annotations

import json
import os
import random
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import SettingError
from tests.actors.fronts import FRONT, LEAD, connect_to, holder_of
from tests.actors.remoting_client import (
    HEARTBEAT,
    MAX_OFFSET,
    ONE_WAY,
    PULL,
    ROUTE,
    SEND_V2,
    SUBSCRIPTION,
    SUSPEND,
    Remote,
    body_of,
    records,
)
from tests.actors.remoting_transaction import COMMIT, END, begin
from tests.actors.test_gateway_members import beat, commit, heard, members, offset
from tests.actors.test_gateway_requests import names, text
from tests.actors.test_no_means import without
from tests.trees import actors, everything, indexed, kill, small_broker, stopped
from tests.waiting import until

SUCCESS, SYSTEM_ERROR, NOT_FOUND = 0, 1, 19
CHECK, PUSH, CONSUMER_STATE, CHANGED = 39, 326, 307, 40


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path, listen="127.0.0.1:0", gateways=2) as broker:
        broker.create_topic("t", 2)
        yield broker


class AtFront(Remote):
    connect = staticmethod(partial(connect_to, FRONT))


class AtLead(Remote):
    connect = staticmethod(partial(connect_to, LEAD))


@pytest.fixture
def front(broker: orbitmq.Broker) -> Iterator[Remote]:
    with AtFront(broker.status().listens) as remote:
        yield remote


@pytest.fixture
def lead(broker: orbitmq.Broker) -> Iterator[Remote]:
    with AtLead(broker.status().listens) as remote:
        yield remote


def passed(broker: orbitmq.Broker) -> int:
    """How many frames the front has passed on."""
    return actors(broker)["gateway 1"].counters["passed"]


def bodies(broker: orbitmq.Broker, topic: str, queue: int = 0) -> list[bytes]:
    """Of a queue, in its order."""
    return [body for body, at, *_ in sorted(everything(broker, topic), key=lambda each: each[2]) if at == queue]


def rest(remote: Remote) -> list[int]:
    """The opaques of all answers up to the end."""
    found = []
    with suppress(ConnectionError):
        while True:
            found.append(remote.answered().opaque)
    return found


# ---- the tree


def test_every_address(tmp_path: Path) -> None:
    """Both processes serve at each of them, and routes name the broker's, whoever is asked."""
    with small_broker(tmp_path, gateway=True, name_server_port=0, broker_port=0, gateways=2) as broker:
        broker.create_topic("t", 1)
        _, at, _ = addresses = broker.status().addresses
        for remote in (client(address) for address in addresses for client in (AtFront, AtLead)):
            with remote:
                assert remote.send("t", b"body").code == SUCCESS
                (found,) = json.loads(remote.ask(ROUTE, topic="t").body)["brokerDatas"]
                assert found["brokerAddrs"]["0"] == at


def test_each_process_is_shown(broker: orbitmq.Broker) -> None:
    shown = actors(broker)
    assert [name for name in shown if name.startswith("gateway")] == ["gateway", "gateway 1"]
    assert shown["gateway"].state == shown["gateway 1"].state == "running"
    assert broker.status().listens.count(":") == 1


def test_an_address_of_another_broker(broker: orbitmq.Broker, tmp_path: Path) -> None:
    """Its sockets may share the port with each other, and with nobody else."""
    for gateways in (1, 2):
        with pytest.raises(SettingError, match="in use"):
            small_broker(tmp_path / "other", name="other", listen=broker.status().listens, gateways=gateways).__enter__()


@pytest.mark.parametrize("gateways", [0, 5])
def test_too_many(tmp_path: Path, gateways: int) -> None:
    with pytest.raises(SettingError, match="must be a whole number from 1 to 4"):
        small_broker(tmp_path, gateways=gateways).__enter__()


def test_four(tmp_path: Path) -> None:
    """Clients come to each of them, and all are served."""
    with small_broker(tmp_path, listen="127.0.0.1:0", gateways=4) as broker, ExitStack() as stack:
        broker.create_topic("t", 1)
        for number in range(4):
            place = f"{LEAD} {number}" if number else LEAD
            kind = type("There", (Remote,), {"connect": staticmethod(partial(connect_to, place))})
            remote = stack.enter_context(kind(broker.status().listens))
            assert remote.ask(HEARTBEAT, b"{}").code == SUCCESS
            assert remote.send("t", b"%d" % number).code == SUCCESS
        assert sorted(bodies(broker, "t")) == [b"0", b"1", b"2", b"3"]


# ---- what a front serves


def test_frequent_requests_stay(broker: orbitmq.Broker, front: Remote) -> None:
    assert front.send("t", b"one").code == SUCCESS
    indexed(broker)
    assert front.ask(MAX_OFFSET, topic="t", queueId=0).fields["offset"] == "1"
    assert [body_of(each) for each in records(front.pull("t", 0, 0).body)] == [b"one"]
    half = begin(front, "id", b"half")
    told = {"tranStateTableOffset": half.fields["queueOffset"], "commitLogOffset": int(half.fields["msgId"][16:], 16)}
    before = passed(broker)
    assert front.ask(END, commitOrRollback=COMMIT, producerGroup="shop", transactionId="id", **told).code == SUCCESS
    assert passed(broker) == before
    assert front.ask(HEARTBEAT, b"{}").code == SUCCESS and front.ask(ROUTE, topic="t").code == SUCCESS
    assert passed(broker) == before + 2


def test_a_held_pull_is_woken(broker: orbitmq.Broker, front: Remote, lead: Remote) -> None:
    """Both gateways hold a pull of one queue."""
    for remote in (front, lead):
        remote.put(PULL, **remote.pull_fields("t", 0, 0, suspend_ms=200_000))
        assert remote.ask(MAX_OFFSET, topic="t", queueId=0).code == SUCCESS, "it is held"
    with broker.producer() as producer:
        producer.send("t", b"now", queue=0)
    for remote in (front, lead):
        said = remote.take()
        assert said.code == SUCCESS and body_of(records(said.body)[0]) == b"now"
    assert passed(broker) == 0


def test_large_frames(tmp_path: Path) -> None:
    """To the lead, because the topic is missing; and from it, because it alone knows the subscription."""
    body = random.Random(1).randbytes(3_000_000)
    large = {"log_file_size": 16 << 20, "lane_capacity": 8 << 20}
    with small_broker(tmp_path, listen="127.0.0.1:0", gateways=2, **large) as broker, AtFront(broker.status().listens) as front:
        assert front.send("new", body).code == SUCCESS and passed(broker) == 1
        indexed(broker)
        opaques = [front.put(PULL, **lacking(front.pull_fields("new", 0, 0, suspend_ms=1))) for _ in range(5)]
        assert [front.put(ROUTE, topic="new") for _ in range(5)]
        said = [front.take() for _ in range(10)]
    assert [each.opaque for each in said[:5]] == opaques
    assert all(body_of(records(each.body)[0]) == body for each in said[:5])


def lacking(fields: dict[str, object], suspend_ms: int = 0) -> dict[str, object]:
    """Of a pull that relies on what heartbeats have said."""
    told = {name: value for name, value in fields.items() if name != "subscription"}
    return {**told, "sysFlag": SUSPEND if suspend_ms else 0, "suspendTimeoutMillis": suspend_ms}


# ---- order


def test_in_the_order_of_the_requests(broker: orbitmq.Broker, front: Remote) -> None:
    """Sends, of which some go to the lead: those of requests, whose replies it pushes, and the first to a new topic. Between
    them are others that go there, one-way ones too."""
    rng = random.Random(4)
    sent: dict[str, list[bytes]] = {"t": [], "fresh": []}
    data, wanted = b"", []
    for number in range(300):
        body = b"%d" % number
        match rng.randrange(8):
            case 0:
                data += front.frame(HEARTBEAT, b"{}")
            case 1:
                told = text(names("1@a", f"c{number}"))
                data += front.frame(SEND_V2, body, **front.send_fields("t", 0, told))
                sent["t"].append(body)
            case 2:
                data += front.frame(SEND_V2, body, mark=ONE_WAY, **front.send_fields("fresh", 0))
                sent["fresh"].append(body)
                continue
            case 3:
                data += front.frame(ROUTE, topic="t")
            case _:
                topic = rng.choice(["t", "fresh"])
                data += front.frame(SEND_V2, body, **front.send_fields(topic, 0))
                sent[topic].append(body)
        wanted.append(front._opaque)
    front.socket.sendall(data)
    assert sorted(front.answered().opaque for _ in wanted) == wanted
    assert bodies(broker, "t") == sent["t"] and bodies(broker, "fresh") == sent["fresh"]
    assert passed(broker) > 0


# ---- subscriptions


def subscribed(remote: Remote, client_id: str, expression: str, kind: str = "TAG", group: str = "group") -> None:
    told = {"topic": "t", "subString": expression, "expressionType": kind}
    consumers = [{"groupName": group, "messageModel": "CLUSTERING", "subscriptionDataSet": [told]}]
    remote.until(remote.put(HEARTBEAT, json.dumps({"clientID": client_id, "consumerDataSet": consumers}).encode()))


def pulled(remote: Remote) -> list[bytes]:
    fields = lacking(remote.pull_fields("t", 0, 0))
    opaque = remote.put(PULL, expressionType="SQL92", **fields)
    said = remote.answered()
    assert said.opaque == opaque
    return [body_of(each) for each in records(said.body)]


def test_subscriptions_of_heartbeats(broker: orbitmq.Broker, front: Remote, lead: Remote) -> None:
    """Goal: pulls that rely on them stay at the front, and the newest one counts from its answer on, whoever says it."""
    with broker.producer() as producer:
        producer.send_batch("t", [b"%d" % n for n in range(10)], queue=0, properties=[{"n": str(n)} for n in range(10)])
    indexed(broker)
    for number in range(30):
        subscribed((front, lead)[number % 2], f"{number % 2}@a", f"n = {number % 10}", "SQL92")
        assert pulled(front) == pulled(lead) == [b"%d" % (number % 10)]

    def stays() -> bool:
        before = passed(broker)
        pulled(front)
        return passed(broker) == before

    until(stays, "the front to know the subscription")
    kill(broker, "gateway 1")
    with AtFront(broker.status().listens) as other:
        until(lambda: pulled(other) == [b"9"] and stays_at(broker, other), "the next front to know it")


def stays_at(broker: orbitmq.Broker, remote: Remote) -> bool:
    before = passed(broker)
    pulled(remote)
    return passed(broker) == before


def test_a_subscription_that_is_forgotten(broker: orbitmq.Broker) -> None:
    """With the last member of the group, and with the lead."""
    names = broker.status().listens
    with AtFront(names) as front:
        with AtLead(names) as member:
            subscribed(member, "1@a", "n > 1", "SQL92")
            until(lambda: stays_at(broker, front), "the front to know it")
        until(lambda: asked(front) == 24, "the member to leave")
    with AtFront(names) as front:
        subscribed(front, "1@a", "n > 1", "SQL92")
        kill(broker, "gateway")
    with AtFront(names) as front:
        until(lambda: asked(front) == 24, "the next lead to tell the front what is known")


def asked(remote: Remote) -> int:
    return remote.ask(PULL, expressionType="SQL92", **lacking(remote.pull_fields("t", 0, 0))).code


# ---- clients at different gateways


def test_members_at_both(broker: orbitmq.Broker, front: Remote, lead: Remote) -> None:
    opaque = front.put(HEARTBEAT, beat("1@a", "g"))
    heard(front, "g")
    front.until(opaque)
    opaque = lead.put(HEARTBEAT, beat("2@a", "g"))
    assert {heard(front, "g"), heard(lead, "g")} == {None}
    lead.until(opaque)
    assert members(front, "g") == members(lead, "g") == ["1@a", "2@a"]
    front.socket.close()
    heard(lead, "g")
    assert members(lead, "g") == ["2@a"]


def test_a_reply(broker: orbitmq.Broker, front: Remote, lead: Remote) -> None:
    """To one who asks at a front, from one at the lead, and the other way round."""
    for asker, replier, name in ((front, lead, "1@a"), (lead, front, "2@a")):
        assert asker.send("t", b"?", 0, text(names(name, "c"))).code == SUCCESS
        told = text(names(name, "c")) + b"MSG_TYPE\1reply\2"
        assert replier.ask(325, b"!", **replier.send_fields("DefaultCluster_REPLY_TOPIC", 0, told)).code == SUCCESS
        pushed = asker.asked()
        assert (pushed.code, pushed.body) == (PUSH, b"!")


def test_a_check_back(tmp_path: Path) -> None:
    """A half that was begun at the lead is asked about at a front; its answer ends it there."""
    times = {"transaction_timeout_s": 0.05, "transaction_check_interval_s": 0.05, "transaction_check_max": 1000}
    with small_broker(tmp_path, listen="127.0.0.1:0", gateways=2, **times) as broker, ExitStack() as stack:
        broker.create_topic("t", 2)
        front, lead = (stack.enter_context(kind(broker.status().listens)) for kind in (AtFront, AtLead))
        begin(lead, "id", b"half")
        told = {"clientID": "1@a", "consumerDataSet": [], "producerDataSet": [{"groupName": "shop"}]}
        front.until(front.put(HEARTBEAT, json.dumps(told).encode()))
        asked = front.asked()
        assert asked.code == CHECK
        place = {name: asked.fields[name] for name in ("tranStateTableOffset", "commitLogOffset", "msgId", "transactionId")}
        front.put(END, mark=ONE_WAY, producerGroup="shop", commitOrRollback=COMMIT, fromTransactionCheck="true", **place)
        until(lambda: bodies(broker, "t", 1) == [b"half"], "the message")


def test_a_question_to_a_client(broker: orbitmq.Broker, front: Remote, lead: Remote) -> None:
    for asking, member, number in ((lead, front, 1), (front, lead, 2)):
        member.until(member.put(HEARTBEAT, beat(f"{number}@a", f"g{number}")))
        opaque = asking.put(CONSUMER_STATE, consumerGroup=f"g{number}", clientId=f"{number}@a", jstackEnable="false")
        question = member.next_one()
        assert question.code == CONSUMER_STATE
        member.reply(question.opaque, SUCCESS, b'{"x":1}')
        said = asking.answered()
        assert (said.opaque, said.code, said.body) == (opaque, SUCCESS, b'{"x":1}')


def test_a_commit_with_a_pull(broker: orbitmq.Broker, front: Remote, lead: Remote) -> None:
    """It is there for whoever asks after the pull was answered, at either gateway."""
    with broker.producer() as producer:
        producer.send_batch("t", [b"x"] * 50, queue=0)
    indexed(broker)
    assert commit(front, 0, group="g") == SUCCESS
    for number in range(50):
        fields = {**front.pull_fields("t", 0, 0, most=1), "consumerGroup": "g", "commitOffset": number}
        before = passed(broker)
        assert front.ask(PULL, **{**fields, "sysFlag": SUBSCRIPTION | 1}).code == SUCCESS
        assert passed(broker) == before
        assert offset((front, lead)[number % 2], group="g") == number


# ---- deaths


@pytest.mark.parametrize("name", ["gateway", "gateway 1"])
def test_a_death(broker: orbitmq.Broker, name: str) -> None:
    """Goal: clients of a front see their connections end when it or the lead dies; receipts that came are true, and nothing is
    stored twice. Others go on."""
    listens = broker.status().listens
    for round_ in range(3):
        with AtFront(listens) as front, AtLead(listens) as lead:
            assert lead.ask(HEARTBEAT, b"{}").code == front.ask(HEARTBEAT, b"{}").code == SUCCESS
            first = front._opaque + 1
            data = b""
            for number in range(200):
                told = text(names("1@a", "c")) if number % 5 == 0 else b""
                data += front.frame(SEND_V2, b"%d-%d" % (round_, number), **front.send_fields("t", 0, told))
            front.socket.sendall(data)
            told = [front.answered().opaque for _ in range(20 * round_)]
            kill(broker, name)
            with suppress(ConnectionResetError):
                told += rest(front)
            if name == "gateway 1":
                assert lead.ask(HEARTBEAT, b"{}").code == SUCCESS
        stored = [body for body in bodies(broker, "t") if body.startswith(b"%d-" % round_)]
        assert len(set(stored)) == len(stored)
        assert {b"%d-%d" % (round_, opaque - first) for opaque in told} <= set(stored)
        assert stored == sorted(stored, key=lambda body: int(body.split(b"-")[1])), "in the order of the requests"
    with AtFront(listens) as front:
        assert front.ask(HEARTBEAT, b"{}").code == front.send("t", b"after").code == SUCCESS


def test_members_of_a_front_that_dies(broker: orbitmq.Broker, lead: Remote) -> None:
    with AtFront(broker.status().listens) as front:
        front.until(front.put(HEARTBEAT, beat("1@a", "g")))
        assert members(lead, "g") == ["1@a"]
        kill(broker, "gateway 1")
        until(lambda: members(lead, "g") == [], "the member to leave")
        with pytest.raises(ConnectionError):
            front.ask(HEARTBEAT, b"{}")


def test_who_comes_while_the_lead_is_dead(broker: orbitmq.Broker) -> None:
    """It waits for the next one."""
    with ExitStack() as stack:
        with suppress(ProcessLookupError), stopped(broker, "gateway"):
            remote = hurried(broker, stack)
            opaque = remote.put(HEARTBEAT, b"{}")
            assert remote.send("t", b"meanwhile").code == SUCCESS
            kill(broker, "gateway")
        with remote:
            assert remote.answered().opaque == opaque


def hurried(broker: orbitmq.Broker, stack: ExitStack) -> Remote:
    """A client of the front, while nobody accepts those whom the kernel gives to the lead."""
    remotes = [Remote(broker.status().listens) for _ in range(24)]
    found: Remote = until(lambda: next((each for each in remotes if holder_of(each.socket) == FRONT), None), "one at the front")
    for each in remotes:
        if each is not found:
            stack.enter_context(each)
    return found


# ---- a lead that hangs


def test_a_lead_that_hangs(broker: orbitmq.Broker, front: Remote) -> None:
    """Who wants nothing of it is served. What is passed on to it does not fill the front's memory: its clients are not read."""
    assert front.ask(HEARTBEAT, b"{}").code == SUCCESS
    pid = actors(broker)["gateway 1"].pid
    before = resident(pid)
    with ExitStack() as stack:
        stack.enter_context(stopped(broker, "gateway"))
        for number in range(50):
            assert front.send("t", b"%d" % number).code == SUCCESS
        flood = stack.enter_context(hurried(broker, stack))
        flood.socket.setblocking(False)
        beats, sent = flood.frame(HEARTBEAT, b"{}" + bytes(60_000)), 0
        while stuck(flood.socket, beats * 20):
            sent += 1
            assert sent < 400, "the front reads on and on"
        assert front.send("t", b"last").code == SUCCESS
        assert resident(pid) - before < 32 << 20
    assert front.ask(HEARTBEAT, b"{}").code == SUCCESS
    assert front.send("t", b"x").code == SUCCESS


def stuck(sock: socket.socket, data: bytes) -> bool:
    """False: the other side reads no more: nothing was taken for a while."""
    view = memoryview(data)
    misses = 0
    while view and misses < 50:
        try:
            view = view[sock.send(view) :]
            misses = 0
        except BlockingIOError:
            misses += 1
            select.select([], [sock], [], 0.02)
    return not view


def resident(pid: int) -> int:
    words = Path(f"/proc/{pid}/statm").read_text().split()
    return int(words[1]) * os.sysconf("SC_PAGESIZE")


def test_a_lead_without_memory(tmp_path: Path) -> None:
    """For a large request that a front passes on: the connection of its client ends, and others at the front are served, also
    those who ask for what the lead answers."""
    large = b"{}" + b" " * (3 << 20)
    sizes = {"log_file_size": 16 << 20, "message_max": 4 << 20, "lane_capacity": 16 << 20}
    with small_broker(tmp_path, listen="127.0.0.1:0", gateways=2, **sizes) as broker, AtFront(broker.status().listens) as other:
        broker.create_topic("t", 2)
        pid = actors(broker)["gateway"].pid
        assert other.ask(HEARTBEAT, b"{}").code == SUCCESS
        with without("mappings", pid), AtFront(broker.status().listens) as one:
            with suppress(OSError):
                one.put(HEARTBEAT, large)
            with pytest.raises(ConnectionError):
                one.take()
            assert other.send("t", b"meanwhile").code == SUCCESS
            assert other.ask(HEARTBEAT, b"{}").code == SUCCESS
        with AtFront(broker.status().listens) as again:
            assert again.ask(HEARTBEAT, large).code == SUCCESS
        assert actors(broker)["gateway"].pid == pid, "nobody died of it"


# ---- limits


def test_limits_count_all(tmp_path: Path) -> None:
    """Connections of all gateways count together, and room that is made at one is there at the other."""
    with small_broker(tmp_path, listen="127.0.0.1:0", gateways=2, connections_max=3) as broker, ExitStack() as stack:
        names = broker.status().listens

        def let_in(kind: type[Remote]) -> Remote | None:
            remote = stack.enter_context(kind(names))
            with suppress(OSError):
                remote.ask(HEARTBEAT, b"{}")
                return remote
            return None

        # those that were at another one than wanted take places until their ends are noticed
        remotes = [until(partial(let_in, kind), "a place") for kind in (AtFront, AtLead, AtFront)]
        assert [each.ask(HEARTBEAT, b"{}").code for each in remotes] == [SUCCESS] * 3
        assert let_in(AtFront) is None and let_in(AtLead) is None
        remotes[0].socket.close()
        until(partial(let_in, AtLead), "room")


def test_silence(tmp_path: Path) -> None:
    """A client of a front that asks only what the front serves is not silent, though its relay is; one that is, is closed."""
    with small_broker(tmp_path, listen="127.0.0.1:0", gateways=2, connection_idle_s=4) as broker:
        names = broker.status().listens
        with AtFront(names) as talks, AtFront(names) as silent:
            assert talks.ask(HEARTBEAT, b"{}").code == silent.ask(HEARTBEAT, b"{}").code == SUCCESS
            seen = 0

            def closed() -> bool:
                nonlocal seen
                seen += 1
                assert talks.ask(MAX_OFFSET, topic="t", queueId=0).fields == {"offset": "0"}
                return silent.has_come

            until(closed, "the end of the silent one")
            assert rest(silent) == []
            assert talks.ask(HEARTBEAT, b"{}").code == SUCCESS
