"""Goal: RocketMQ's consumers find out who belongs to their group, hear of every change at once, and keep their offsets at the
broker, where local tools see them and no death loses them.

Method: clients of the readable model of the protocol; random heartbeats and deaths against a plain model. Java's push consumers
are in tests/interop/test_groups.py. Of remoting/consumers.py, remoting/members.py, remoting/offsets.py,
remoting/heartbeat.py and remoting/locks.py.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import orbitmq
from orbitmq.actors.gateway.gateway import Gateway
from orbitmq.remoting import heartbeat
from orbitmq.remoting.consumers import Consumers
from orbitmq.remoting.heartbeat import ConsumerData, Heartbeat, Subscription
from orbitmq.remoting.members import LOOK_S, SILENT_S, Members
from orbitmq.remoting.rare import Rare
from orbitmq.remoting.request import Client, Request
from tests.actors.remoting_client import HEARTBEAT, ONE_WAY, QUERY_OFFSET, ROUTE, UNREGISTER, Remote
from tests.trees import indexed, kill, small_broker
from tests.waiting import until

SUCCESS, SYSTEM_ERROR = 0, 1
COMMIT, MEMBERS, CHANGED, LOCK, UNLOCK = 15, 38, 40, 41, 42


def beat(client_id: str, *groups: str, topic: str = "t") -> bytes:
    subscription = {"topic": topic, "subString": "*", "expressionType": "TAG", "tagsSet": [], "codeSet": [], "subVersion": 1}
    rest = {"consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "subscriptionDataSet": [subscription]}
    consumers = [{"groupName": group, **rest} for group in groups]
    return json.dumps({"clientID": client_id, "consumerDataSet": consumers, "producerDataSet": []}).encode()


def join(remote: Remote, client_id: str, group: str, **how: Any) -> None:
    """It hears of itself, before the answer."""
    opaque = remote.put(HEARTBEAT, beat(client_id, group, **how))
    heard(remote, group)
    said = remote.take()
    assert (said.opaque, said.code) == (opaque, SUCCESS)


def heard(remote: Remote, group: str) -> None:
    asked = remote.asked()
    assert (asked.code, asked.fields) == (CHANGED, {"consumerGroup": group})


def members(remote: Remote, group: str) -> list[str]:
    said = remote.ask(MEMBERS, consumerGroup=group)
    if said.code == SYSTEM_ERROR:
        assert group in (said.remark or "")
        return []
    assert b" " not in said.body
    ids: list[str] = json.loads(said.body)["consumerIdList"]
    return ids


# ---- who belongs to a group


def test_members_come_and_go(broker: orbitmq.Broker, group: str) -> None:
    with Remote(broker.status().listens) as one, Remote(broker.status().listens) as two:
        assert members(one, group) == []
        join(one, "1@a", group)
        assert remote_again(one, "1@a", group), "nothing has changed"
        join(two, "2@b", group)
        heard(one, group)
        assert members(one, group) == members(two, group) == ["1@a", "2@b"]
        join(two, "2@b", group, topic="another")
        heard(one, group)
        with Remote(broker.status().listens) as three:
            join(three, "3@c", group)
            heard(one, group)
            heard(two, group)
        heard(one, group)
        heard(two, group)
        assert members(one, group) == ["1@a", "2@b"]
        two.put(UNREGISTER, clientID="2@b", consumerGroup=group)
        assert two.take().code == SUCCESS
        heard(one, group)
        assert members(two, group) == ["1@a"]


def remote_again(remote: Remote, client_id: str, group: str) -> bool:
    """Another heartbeat is answered, and nothing was told before."""
    return remote.ask(HEARTBEAT, beat(client_id, group)).code == SUCCESS


def test_a_topic_for_retries_is_there(broker: orbitmq.Broker, group: str) -> None:
    """Before the first heartbeat is answered: a client looks for it once."""
    with Remote(broker.status().listens) as remote:
        join(remote, "1@a", group)
        (queues,) = json.loads(remote.ask(ROUTE, topic=f"%RETRY%{group}").body)["queueDatas"]
        assert queues["readQueueNums"] == 1


def test_a_group_without_a_topic_for_retries(broker: orbitmq.Broker, group: str) -> None:
    """It spoils nothing for the others of the same heartbeat, and is a group with members itself."""
    with Remote(broker.status().listens) as remote:
        opaque = remote.put(HEARTBEAT, beat("1@a", "no group!", "x" * 250, group))
        for _ in range(3):
            assert remote.asked().code == CHANGED
        said = remote.take()
        assert (said.opaque, said.code) == (opaque, SYSTEM_ERROR) and "no group!" in (said.remark or "")
        assert members(remote, group) == members(remote, "no group!") == members(remote, "x" * 250) == ["1@a"]
        assert remote.ask(ROUTE, topic=f"%RETRY%{group}").code == SUCCESS


def test_too_many_groups(broker: orbitmq.Broker, group: str) -> None:
    """A heartbeat that names more than a connection may belong to changes nothing."""
    with Remote(broker.status().listens) as remote:
        join(remote, "1@a", group)
        said = remote.ask(HEARTBEAT, beat("1@a", *(f"g{n}" for n in range(heartbeat.GROUPS_MAX + 1))))
        assert said.code == SYSTEM_ERROR and "257 consumer groups" in (said.remark or "") and "256" in (said.remark or "")
        assert members(remote, group) == ["1@a"] and members(remote, "g0") == []
        producers = [{"groupName": f"p{n}"} for n in range(heartbeat.GROUPS_MAX + 1)]
        said = remote.ask(HEARTBEAT, json.dumps({"clientID": "1@a", "producerDataSet": producers}).encode())
        assert said.code == SYSTEM_ERROR and "257 producer groups" in (said.remark or "")
        assert members(remote, group) == ["1@a"]


def test_a_killed_gateway_forgets_its_clients(broker: orbitmq.Broker) -> None:
    """They come again, with their next heartbeat, on connections of their own."""
    with Remote(broker.status().listens) as one:
        join(one, "1@a", "g")
        kill(broker, "gateway")
        with pytest.raises(OSError):
            one.take()
    with Remote(broker.status().listens) as one:
        assert members(one, "g") == []
        join(one, "1@a", "g")
        assert members(one, "g") == ["1@a"]


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Loop:
    """As much of a host as members need. told: to whom, and of which group."""

    def __init__(self) -> None:
        self.told: list[tuple[Client, str]] = []
        self.unsubscribed: list[str] = []
        self.topics = self.filters = self

    def tell(self, client: Client, code: int, fields: Mapping[str, str], body: bytes) -> bool:
        assert code == CHANGED
        self.told.append((client, fields["consumerGroup"]))
        return True

    def name(self, client: Client, client_id: str) -> None:
        pass

    def find(self, name: str) -> object:
        return name

    def subscribe(self, group: str, subscription: Subscription) -> None:
        pass

    def unsubscribe(self, group: str) -> None:
        self.unsubscribed.append(group)


def test_silent_members_leave() -> None:
    """Goal: who sends no heartbeat is no member any more, though nobody asks: others hear of it. Method: a clock by hand."""
    clock, host = Clock(), Loop()
    members_of = Members(host, clock)  # type: ignore[arg-type]
    one, two = Client(1, 1), Client(2, 1)
    for client, groups in ((one, ("g", "alone")), (two, ("g",))):
        body = beat(f"{client.connection}@a", *groups)
        assert members_of.answers[HEARTBEAT](Request(HEARTBEAT, {}, body, "", client)).code == SUCCESS
    host.told.clear()
    for _ in range(int(SILENT_S)):
        clock.now_s += 1
        if clock.now_s == 1060:
            members_of.answers[HEARTBEAT](Request(HEARTBEAT, {}, beat("2@a", "g"), "", two))
        members_of.look()
    assert host.told == []
    clock.now_s += LOOK_S + 1
    members_of.look()
    assert host.told == [(two, "g")] and host.unsubscribed == ["alone"]
    clock.now_s += SILENT_S
    members_of.look()
    assert host.told == [(two, "g")] and host.unsubscribed == ["alone", "g"]


def test_the_gateway_looks_for_silent_members() -> None:
    """In each turn of its loop, whatever comes."""
    looks = []
    gateway: Any = Gateway.__new__(Gateway)
    gateway._memory, gateway.handle, gateway._run = object(), None, lambda handle, limit_ms: 0
    gateway._guard = gateway._door = None
    gateway._leaving = SimpleNamespace(look=lambda: None)
    gateway._paused = SimpleNamespace(look=lambda: None)
    gateway._complain = gateway._commit = lambda: None
    gateway._check_backs = SimpleNamespace(look=lambda: None, pause_s=1.0)
    gateway._rare = SimpleNamespace(look=lambda: looks.append("look"))
    gateway._popping = SimpleNamespace(look=lambda: looks.append("popping"))
    gateway.run(1000)
    assert looks == ["look", "popping"]
    rare: Any = Rare.__new__(Rare)
    rare._members = SimpleNamespace(look=lambda: looks.append("members"))
    rare.look()
    assert looks == ["look", "popping", "members"]


def test_consumers_against_a_model() -> None:
    rng = random.Random(5)
    consumers, model = Consumers(100), dict[tuple[str, Client], tuple[str, str, int]]()
    clients = [Client(number, 1) for number in range(6)]
    for now in range(4000):
        client, deed = rng.choice(clients), rng.random()
        if deed < 0.7:
            groups = rng.sample("abc", rng.randrange(3))
            topic = rng.choice(("t", "u"))
            data = (ConsumerData(group, "CLUSTERING", frozenset({Subscription(topic, "TAG", "*")})) for group in groups)
            changed = consumers.hear(client, Heartbeat(f"id{client.connection // 2}", tuple(data), frozenset()), now)
            wanted = {group for group, each in model if each == client and group not in groups}
            wanted |= {group for group in groups if model.get((group, client), ("", "", 0))[1] != topic}
            for group in "abc":
                model.pop((group, client), None) if group not in groups else None
            model |= {(group, client): (f"id{client.connection // 2}", topic, now) for group in groups}
        elif deed < 0.8:
            changed, wanted = consumers.gone(client), {group for group, each in model if each == client}
            model = {key: each for key, each in model.items() if key[1] != client}
        elif deed < 0.9:
            group = rng.choice("abc")
            changed = {group} if consumers.leave(group, client) else set()
            wanted = {group} if model.pop((group, client), None) else set()
        else:
            changed, wanted = consumers.expire(now), {group for (group, _), each in model.items() if now - each[2] > 100}
            model = {key: each for key, each in model.items() if now - each[2] <= 100}
        assert changed == wanted
        for group in "abc":
            assert set(consumers.clients(group)) == {client for name, client in model if name == group}
            ids = consumers.ids(group)
            assert len(ids) == len(set(ids)) and set(ids) == {each[0] for (name, _), each in model.items() if name == group}


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b"7", b"{}", b'{"consumerDataSet":7}', b'{"consumerDataSet":[7,{},{"groupName":1}]}', b"[" * 99],
)
@pytest.mark.usefixtures("topic")
def test_a_heartbeat_that_says_nothing(broker: orbitmq.Broker, body: bytes) -> None:
    assert heartbeat.read(body).consumers == ()
    with Remote(broker.status().listens) as remote:
        assert remote.ask(HEARTBEAT, body).code == SUCCESS


# ---- offsets


def commit(remote: Remote, offset: int, *, group: str = "g", topic: str = "t", queue: int = 0) -> int:
    return remote.ask(COMMIT, consumerGroup=group, topic=topic, queueId=queue, commitOffset=offset).code


def offset(remote: Remote, *, group: str = "g", topic: str = "t", queue: int = 0) -> int | None:
    said = remote.ask(QUERY_OFFSET, consumerGroup=group, topic=topic, queueId=queue)
    return int(said.fields["offset"]) if said.code == SUCCESS else None


def test_offsets_are_kept(tmp_path: Path) -> None:
    """Over the death of whoever keeps them, and over a restart; and local tools see and move them."""
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker:
        broker.create_topic("t", 2)
        with Remote(broker.status().listens) as remote:
            for _ in range(5):
                remote.send("t", b"x")
            indexed(broker)
            assert offset(remote) == 0, "the queue's first message is there, and the group is new"
            assert commit(remote, 3) == SUCCESS and offset(remote) == 3
            kill(broker, "coordinator")
            until(lambda: offset(remote) == 3, "a successor")
            assert commit(remote, 2) == SUCCESS and offset(remote) == 2, "downwards as well"
            assert commit(remote, 99) == SUCCESS and offset(remote) == 5
            assert commit(remote, -1) == SUCCESS and offset(remote) == 0
            remote.put(COMMIT, mark=ONE_WAY, consumerGroup="g", topic="t", queueId=0, commitOffset=4)
            assert offset(remote) == 4
            assert commit(remote, 1, topic="absent") == commit(remote, 1, queue=2) == SYSTEM_ERROR
            assert commit(remote, 1, group="no group!") == commit(remote, 1 << 80) == SYSTEM_ERROR
            (group,) = broker.groups()
            assert (group.name, group.queues[0].lag_messages) == ("g", 1)
            broker.reset_group("g", 1)
            assert offset(remote) == 1
    with small_broker(tmp_path) as broker, Remote(broker.status().listens) as remote:
        assert offset(remote) == 1


def test_a_group_has_members_of_one_kind(broker: orbitmq.Broker, topic: str, group: str) -> None:
    """While local consumers share a group's queues, nobody else commits for it; afterwards it goes on where they were."""
    place = {"group": group, "topic": topic}
    with Remote(broker.status().listens) as remote:
        for _ in range(5):
            remote.send(topic, b"x")
        indexed(broker)
        with broker.consumer(group, [topic], start="earliest") as consumer:
            consumer.poll_batch(2, timeout=10)
            consumer.commit()
            assert commit(remote, 4, **place) == SYSTEM_ERROR
            assert consumer.committed()[topic, 0] == 2
        assert offset(remote, **place) == 2 and commit(remote, 4, **place) == SUCCESS
        with broker.consumer(group, [topic]) as consumer:
            assert consumer.committed()[topic, 0] == 4


def test_many_members_share_the_work(broker: orbitmq.Broker, group: str) -> None:
    """Goal: what clients work out from the list covers each queue once. Method: as Java's clients do it by default: sorted ids,
    sorted queues, in turn."""
    broker.create_topic("wide", 7)
    with ExitStack() as stack:
        remotes = [stack.enter_context(Remote(broker.status().listens)) for _ in range(3)]
        for number, remote in enumerate(remotes):
            opaque = remote.put(HEARTBEAT, beat(f"{number}@x", group, topic="wide"))
            until(lambda remote=remote, opaque=opaque: _answered(remote, opaque, group), "the answer")  # type: ignore[misc]
        taken: list[int] = []
        for number, remote in enumerate(remotes):
            while remote.has_come:
                heard(remote, group)
            ids = sorted(members(remote, group))
            taken += [queue for queue in range(7) if queue % len(ids) == ids.index(f"{number}@x")]
        assert sorted(taken) == list(range(7))


# ---- locks of queues


def locks(remote: Remote, code: int, owner: str, *queues: int, topic: str = "t", group: str = "g") -> set[int] | None:
    """None: there was no answer, because no coordinator was there."""
    places = [{"brokerName": "any", "queueId": queue, "topic": topic} for queue in queues]
    said = remote.ask(code, json.dumps({"clientId": owner, "consumerGroup": group, "mqSet": places}).encode())
    if said.code != SUCCESS:
        return None
    told = json.loads(said.body)["lockOKMQSet"] if said.body else []
    assert all(each["topic"] == topic for each in told)
    return {each["queueId"] for each in told}


def test_locks_of_queues(broker: orbitmq.Broker) -> None:
    """One owner at a time, over deaths; not of queues that a local member has, and none that do not exist."""
    with Remote(broker.status().listens) as remote:
        assert locks(remote, LOCK, "1@a", 0, 1, 2) == {0, 1}
        assert locks(remote, LOCK, "2@b", 0, 1) == set()
        assert locks(remote, LOCK, "2@b", 0, topic="absent") == set()
        kill(broker, "coordinator")
        assert until(lambda: locks(remote, LOCK, "1@a", 0), "a successor") == {0}
        assert locks(remote, UNLOCK, "2@b", 0) == set()
        assert locks(remote, LOCK, "2@b", 0) == set()
        assert locks(remote, UNLOCK, "1@a", 0) == set()
        assert locks(remote, LOCK, "2@b", 0, 1) == {0}
        with broker.consumer("h", ["t"]):
            assert locks(remote, LOCK, "1@a", 0, 1, group="h") == set()
        for body in (b"", b"[]", b"{}", b'{"mqSet":[7]}', b'{"mqSet":[{"topic":1}]}', b'{"mqSet":7}'):
            assert remote.ask(LOCK, body).code == SYSTEM_ERROR


def _answered(remote: Remote, opaque: int, group: str) -> bool:
    heard(remote, group)
    return remote.take().opaque == opaque
