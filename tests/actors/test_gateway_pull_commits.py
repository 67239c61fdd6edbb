"""Goal: an offset that a consumer commits with a pull counts as one that it commits by itself.

Method: the requests of consumers over the socket; what the group has committed is looked at through OrbitMQ's own client too.
Of native/remoting/gateway/gateway_commit.c and remoting/offsets.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from tests.actors.remoting_client import PULL, SUBSCRIPTION, Remote
from tests.actors.test_gateway_members import commit, offset
from tests.trees import indexed, kill, small_broker
from tests.waiting import until

COMMITS = 1
QUEUES = 4
SUCCESS = 0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker:
        broker.create_topic("t", QUEUES)
        with broker.producer() as producer:
            for number in range(40):
                producer.send("t", b"x", queue=number % QUEUES)
        indexed(broker)
        yield broker


def pull(remote: Remote, to: int, queue: int = 0, group: str = "g", flag: int = COMMITS, **others: object) -> int:
    """Returns the code of the answer."""
    fields = {**remote.pull_fields("t", queue, 0, most=1), "consumerGroup": group, "commitOffset": to}
    return remote.ask(PULL, **{**fields, "sysFlag": SUBSCRIPTION | flag, **others}).code


def test_it_is_committed(broker: orbitmq.Broker, remote: Remote) -> None:
    """At once for whoever asks through the gateway; soon for local tools. Only if the pull says that it commits."""
    assert commit(remote, 1) == SUCCESS
    assert pull(remote, 3) == SUCCESS and offset(remote) == 3
    assert pull(remote, 7, flag=0) == SUCCESS and offset(remote) == 3
    assert pull(remote, 2) == SUCCESS and offset(remote) == 2, "downwards as well"
    assert pull(remote, -1) == SUCCESS and offset(remote) == 2, "a consumer that knows none"
    assert pull(remote, 5) == SUCCESS
    until(lambda: broker.group("g").queues[0].lag_messages == 5, "the gateway's look")


def test_the_newest_counts(broker: orbitmq.Broker, remote: Remote) -> None:
    """Method: a model. Pulls and commits to queues of several groups, in any order, on one connection."""
    rng = random.Random(1)
    wanted: dict[tuple[str, int], int] = {}
    for number in range(5):
        assert commit(remote, 0, group=f"g{number}") == SUCCESS
    for _ in range(400):
        group, queue, to = f"g{rng.randrange(5)}", rng.randrange(QUEUES), rng.randrange(11)
        if rng.random() < 0.2:
            assert commit(remote, to, queue=queue, group=group) == SUCCESS
        else:
            assert pull(remote, to, queue, group) == SUCCESS
        wanted[group, queue] = to
    for (group, queue), to in wanted.items():
        assert offset(remote, group=group, queue=queue) == to


def test_what_cannot_be_committed(broker: orbitmq.Broker, remote: Remote) -> None:
    """Goal: the pull is answered, and the others' offsets are committed."""
    with broker.consumer("local", ["t"], start="earliest") as consumer:
        assert consumer.poll_batch(1, timeout=10)
        for group in ("local", "no group!", "", "g" * 300):
            assert pull(remote, 4, group=group) == SUCCESS
        assert commit(remote, 1) == SUCCESS
        assert pull(remote, 1 << 62) == SUCCESS and pull(remote, 6, queue=1) == SUCCESS
        assert (offset(remote), offset(remote, queue=1)) == (10, 6), "not beyond the end of the queue"
        consumer.commit()
        assert broker.group("local").queues[0].lag_messages >= 9


def test_a_pull_begins_no_group(broker: orbitmq.Broker, remote: Remote) -> None:
    """Goal: whoever invents groups costs the broker nothing; what finds no room is left out, and what comes later is not.
    Method: pulls of more groups than there is room for, between which nothing rare has the gateway look."""
    assert commit(remote, 1, group="known") == SUCCESS
    fields = {**remote.pull_fields("t", 0, 0, most=1), "commitOffset": 4, "sysFlag": SUBSCRIPTION | COMMITS}
    groups = ["known", *(f"g{number}" for number in range(1100))]
    remote.socket.sendall(b"".join(remote.frame(PULL, **{**fields, "consumerGroup": group}) for group in groups))
    assert {remote.take().code for _ in groups} == {SUCCESS}
    assert offset(remote, group="known") == 4 and offset(remote, group="g0") == 0
    assert [group.name for group in broker.groups()] == ["known"]
    assert pull(remote, 5, group="known") == SUCCESS
    # A front has told the lead of so many before that its line may still be full; then it tells the lead of this one soon.
    until(lambda: offset(remote, group="known") == 5, "what came later")


def test_deaths(broker: orbitmq.Broker, remote: Remote) -> None:
    """Goal: what the coordinator has was kept. What only a killed gateway knew is committed with a later pull."""
    assert commit(remote, 1) == SUCCESS
    assert pull(remote, 3) == SUCCESS and offset(remote) == 3
    kill(broker, "coordinator")
    until(lambda: offset(remote) == 3, "a successor")
    kill(broker, "gateway")
    with Remote(broker.status().listens) as again:
        assert offset(again) == 3
        assert pull(again, 8) == SUCCESS and offset(again) == 8


def test_a_stop(tmp_path: Path) -> None:
    """Goal: a clean stop loses none."""
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker:
        broker.create_topic("t", 1)
        with broker.producer() as producer, Remote(broker.status().listens) as remote:
            for _ in range(9):
                producer.send("t", b"x")
            indexed(broker)
            assert commit(remote, 1) == SUCCESS and pull(remote, 7) == SUCCESS
    with small_broker(tmp_path, listen="127.0.0.1:0") as broker, Remote(broker.status().listens) as remote:
        assert offset(remote) == 7
