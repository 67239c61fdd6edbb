"""Goal: RocketMQ's own push consumers, unchanged, share a group's queues on OrbitMQ: each message comes to one of them, and
none is missing after members have come and gone and processes of the broker have died.

Method: the judge's consumers visit a broker of OrbitMQ; local producers send meanwhile. What was not committed when somebody
died comes twice, as with RocketMQ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.store import locked_queues
from orbitmq.store.layout import StoreLayout
from tests.interop.judge import Judge
from tests.interop.letters import of_rocketmq
from tests.interop.ours import SMALL_FILES, broker_on
from tests.trees import kill
from tests.waiting import until

NAME = "judged"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with broker_on(tmp_path / "store", SMALL_FILES, name=NAME, listen="127.0.0.1:0") as broker:
        broker.create_topic("orders", queues=4)
        yield broker


def send(broker: orbitmq.Client, begin: int, count: int) -> list[str]:
    bodies = [f"{number}" for number in range(begin, begin + count)]
    with broker.producer() as producer:
        for number, body in enumerate(bodies):
            producer.send("orders", body, queue=number % 4, tags="ab"[number % 2])
    return bodies


def came(judge: Judge, member: str) -> list[str]:
    return [of_rocketmq(each).body.decode() for each in judge.ask("came", member=member)]


def test_members_share_the_queues(visitor: Judge, broker: orbitmq.Broker) -> None:
    """With a second member, each gets two of the four queues; when it leaves, the first has all again. Nothing comes twice
    while nobody dies, and both committed where they were."""
    visitor.ask("join", member="one", topic="orders", group="shared", tags="*", broadcast=False)
    seen: Counter[str] = Counter()

    def take(*members: str) -> bool:
        for member in members:
            seen.update(came(visitor, member))
        return set(sent) <= set(seen)

    sent = send(broker, 0, 40)
    until(lambda: take("one"), "the first forty")
    visitor.ask("join", member="two", topic="orders", group="shared", tags="*", broadcast=False)
    begin, shared = 40, False
    while not shared:  # as soon as the clients have shared the queues anew
        sent = send(broker, begin, 40)
        begin += 40
        mine: list[str] = []
        yours: list[str] = []

        def both() -> bool:
            mine.extend(came(visitor, "one"))
            yours.extend(came(visitor, "two"))
            return set(sent) <= {*mine, *yours}

        until(both, "forty more")
        shared = {int(each) % 4 for each in mine}.isdisjoint({int(each) % 4 for each in yours}) and bool(yours)
        seen.update(mine + yours)
    seen.update(of_rocketmq(each).body.decode() for each in visitor.ask("quit", member="two"))
    sent = send(broker, begin, 40)
    until(lambda: take("one"), "the last forty")
    seen.update(of_rocketmq(each).body.decode() for each in visitor.ask("quit", member="one"))
    assert set(seen) == {f"{number}" for number in range(begin + 40)}
    done = {queue: (begin + 40) // 4 for queue in range(4)}
    until(lambda: visitor.committed("orders", "shared") == done, "what the member committed at its end, one-way")
    (group,) = [each for each in broker.groups() if each.name == "shared"]
    assert sum(queue.lag_messages for queue in group.queues if queue.topic == "orders") == 0


def test_tags_and_broadcast(visitor: Judge, broker: orbitmq.Broker) -> None:
    """Each member of a group that broadcasts gets everything that its tags let pass."""
    for member in ("one", "two"):
        visitor.ask("join", member=member, topic="orders", group="all", tags="a", broadcast=True)
    sent = send(broker, 0, 40)
    for member in ("one", "two"):
        seen: list[str] = []
        until(lambda member=member, seen=seen: seen.extend(came(visitor, member)) or len(seen) >= 20, "twenty")  # type: ignore[func-returns-value,misc]
        assert sorted(seen, key=int) == sent[::2]
        visitor.ask("quit", member=member)


def test_deaths(visitor: Judge, broker: orbitmq.Broker) -> None:
    """The gateway, the coordinator and the reput process are killed while a member consumes: everything comes."""
    visitor.ask("join", member="one", topic="orders", group="robust", tags="*", broadcast=False)
    seen: set[str] = set()
    for round_, actor in enumerate(("gateway", "coordinator", "reput", "gateway")):
        sent = send(broker, 100 * round_, 100)
        kill(broker, actor)
        until(lambda sent=sent: seen.update(came(visitor, "one")) or set(sent) <= seen, f"all after the death of {actor}")  # type: ignore[func-returns-value,misc]
    # Before the member quits: its commits have no answers, so the one at its end is lost if its connection died just before,
    # and nobody repeats it.
    done = {queue: 100 for queue in range(4)}
    until(lambda: visitor.committed("orders", "robust") == done, "what the member commits again and again, one-way")
    visitor.ask("quit", member="one")


def shares(store: Path) -> list[int]:
    """How many of the topic's queues each ordered consumer has."""
    held = locked_queues.load(StoreLayout.at(store)).items()
    return sorted(Counter(lock.owner for (_, (topic, _)), lock in held if topic == "orders").values())


def test_in_order(visitor: Judge, broker: orbitmq.Broker, tmp_path: Path) -> None:
    """Ordered consumers lock their queues: while members come and go, and one process of the broker dies, each queue's messages
    come in order."""
    visitor.ask("join", member="one", topic="orders", group="ordered", tags="*", broadcast=False, ordered=True)
    seen: list[int] = []
    for round_ in range(4):
        if round_ == 3:  # after which queues go only from "two" to "one"
            until(lambda: shares(tmp_path / "store") == [2, 2], "each to have two queues")
        sent = send(broker, 100 * round_, 100)
        if round_ == 1:
            visitor.ask("join", member="two", topic="orders", group="ordered", tags="*", broadcast=False, ordered=True)
        if round_ == 2:
            kill(broker, "coordinator")
        if round_ == 3:
            seen += [int(of_rocketmq(each).body) for each in visitor.ask("quit", member="two")]

        def all_of(sent: list[str] = sent, both: bool = round_ in (1, 2)) -> bool:
            # While there are two, queues go only from "one" to "two". So what "two" has got now comes behind what "one" has got
            # a moment later.
            behind = came(visitor, "two") if both else []
            seen.extend(map(int, came(visitor, "one") + behind))
            return {int(each) for each in sent} <= set(seen)

        until(all_of, f"the messages of round {round_}")
    visitor.ask("quit", member="one")
    for queue in range(4):
        first = list(dict.fromkeys(each for each in seen if each % 4 == queue))
        assert first == list(range(queue, 400, 4))


def test_sql92(visitor: Judge, broker: orbitmq.Broker) -> None:
    """A push consumer's filter travels in its heartbeats, and is asked for again when the gateway has died."""
    visitor.ask("join", member="one", topic="orders", group="filtered", sql="price > 10 AND TAGS = 'a'", broadcast=False)
    seen: list[str] = []

    def take(*wanted: str) -> None:
        until(lambda: seen.extend(came(visitor, "one")) or set(wanted) <= set(seen), "what passes")  # type: ignore[func-returns-value]

    for round_ in range(2):
        with broker.producer() as producer:
            for number in range(40):
                body = f"{100 * round_ + number}"
                producer.send("orders", body, queue=number % 4, tags="ab"[number % 2], properties={"price": str(number)})
        take(*(str(100 * round_ + number) for number in range(12, 40, 2)))
        kill(broker, "gateway")
    visitor.ask("quit", member="one")
    assert {int(each) % 100 for each in seen} == set(range(12, 40, 2))
