"""Goal: a broker of OrbitMQ stands in a cluster beside one of RocketMQ: its name server knows both, and its clients find
the topics of both there, also one that both have (remoting/registration.py).

Method: the judge's broker and name server; a broker of OrbitMQ that joins them; the judge's clients, which ask the name
server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import orbitmq
from tests.interop.judge import Judge
from tests.interop.letters import Letter, _for_judge, of_rocketmq
from tests.interop.ours import SMALL_FILES, broker_on, kill_tree
from tests.trees import indexed
from tests.waiting import until

NAME = "beside"
COUNT = 40


@pytest.fixture
def names(judge: Judge, tmp_path: Path) -> str:
    """The name server's address."""
    judge.start(tmp_path / "theirs", SMALL_FILES)
    return judge.addresses[0]


@pytest.fixture
def broker(tmp_path: Path, names: str) -> Iterator[orbitmq.Broker]:
    with broker_on(tmp_path / "ours", SMALL_FILES, name=NAME, listen="127.0.0.1:0", namesrv=names) as broker:
        yield broker


def cluster(judge: Judge) -> str:
    said = judge.mqadmin("clusterList", "-n", judge.addresses[0])
    assert "#Cluster Name" in said, said  # or nothing that is missing means anything
    return said


def test_a_topic_of_both(judge: Judge, broker: orbitmq.Broker, names: str) -> None:
    """A producer spreads its messages over both brokers, and one consumer gets all."""
    broker.create_topic("orders", queues=4)
    judge.ask("create", topic="orders", queues=4)
    until(lambda: judge.mqadmin("topicRoute", "-n", names, "-t", "orders").count('"brokerName":') == 4, "both in the route")
    bodies = [f"{number}" for number in range(COUNT)]
    judge.ask("sendAnywhere", topic="orders", letters=[_for_judge(Letter("orders", body.encode())) for body in bodies])
    indexed(broker)
    with broker.consumer(None, ["orders"]) as consumer:
        here = [bytes(each).decode() for each in consumer.poll_batch(COUNT, 0.1)]
    assert 0 < len(here) < COUNT
    judge.ask("createGroup", group="shared")
    judge.ask("join", member="all", topic="orders", group="shared", tags="*", broadcast=False)
    came: list[str] = []

    def complete() -> bool:
        came.extend(of_rocketmq(each).body.decode() for each in judge.ask("came", member="all"))
        return len(came) >= COUNT

    until(complete, "every message")
    judge.ask("quit", member="all")
    assert sorted(came) == sorted(bodies)


@pytest.mark.parametrize("end", [orbitmq.Broker.stop_broker, kill_tree])
def test_a_broker_that_ends(judge: Judge, broker: orbitmq.Broker, end: Callable[[orbitmq.Broker], None]) -> None:
    """Goal: clients do not look for it any more, whether it had time to say so or not."""
    until(lambda: NAME in cluster(judge), "the broker in the cluster's list")
    assert broker.status().listens in cluster(judge)
    end(broker)
    until(lambda: NAME not in cluster(judge), "its end to be known")
    assert "judged" in cluster(judge)
