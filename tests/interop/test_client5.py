"""Goal: RocketMQ 5's own Java client for the remoting protocol works with OrbitMQ: what it sends, in batches, after a time and
in transactions, what it pulls, what its push consumers get, and what it pops, also in order, acknowledges and keeps longer.

Method: the client in a JVM of its own (client5/Client5.java) visits a broker of OrbitMQ, beside local programs. A push
consumer in pop mode is RocketMQ's own: an administrator sets the mode of its group, and the broker says which queues it gets.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from tests.interop.client5 import Client5
from tests.interop.ours import SMALL_FILES, broker_on, visiting
from tests.trees import kill
from tests.waiting import WATCHDOG_S, until


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with broker_on(tmp_path / "store", SMALL_FILES, name="five", listen="127.0.0.1:0") as broker:
        broker.create_topic("orders", queues=4)
        yield broker


@pytest.fixture
def visitor(client5: Client5, broker: orbitmq.Broker) -> Iterator[Client5]:
    with visiting(client5, broker):
        yield client5


def bodies(begin: int, count: int) -> list[str]:
    return [f"{number}" for number in range(begin, begin + count)]


def read(broker: orbitmq.Client, count: int) -> list[str]:
    """What a local group gets from the first message on."""
    found: list[str] = []
    with broker.consumer("local", topics=["orders"], start="earliest") as consumer:
        while len(found) < count:
            batch = consumer.poll_batch(100, timeout=WATCHDOG_S)
            assert batch, f"{len(found)} of {count} came"
            found += [bytes(each).decode() for each in batch]
        consumer.commit()
    return found


def send(broker: orbitmq.Client, some: list[str]) -> None:
    with broker.producer() as producer:
        for number, body in enumerate(some):
            producer.send("orders", body, queue=number % 4, tags="a")


def done(broker: orbitmq.Client, group: str, count: int) -> bool:
    """So many messages of the group are done, and none is left."""
    queues = [queue for queue in broker.group(group).queues if queue.topic == "orders"]
    return sum(queue.committed for queue in queues) == count and not sum(queue.lag_messages for queue in queues)


def test_what_it_sends_and_pulls(visitor: Client5, broker: orbitmq.Broker) -> None:
    """One by one, in a batch, after a second, and in transactions of which one is given up. A local consumer gets it all, as a
    lite pull consumer and a push consumer do."""
    assert visitor.ask("send", topic="orders", tags="a", bodies=bodies(0, 5)) == [True] * 5
    assert visitor.ask("send", topic="orders", tags="a", bodies=bodies(5, 5), batch=True) == [True]
    assert visitor.ask("send", topic="orders", tags="a", bodies=["10"], delayMs=1000) == [True]
    ended = visitor.ask("transact", topic="orders", bodies=["11", "no", "12"])
    assert ended == ["COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "COMMIT_MESSAGE"]
    sent = sorted(bodies(0, 13))
    assert sorted(read(broker, 13)) == sent
    assert sorted(visitor.ask("poll", topic="orders", group="lite", count=13)) == sent
    visitor.ask("join", member="push", topic="orders", group="push", tags="*", brokerShares=False)
    came: list[str] = []
    until(lambda: came.extend(each["body"] for each in visitor.ask("came", member="push")) or len(came) >= 13, "what it pushes")
    assert sorted(came) == sent


def test_a_push_consumer_that_pops(visitor: Client5, broker: orbitmq.Broker) -> None:
    """Two members share what there is, one message after the other; what one of them fails comes again, and in the end all is
    done. Both processes that stand between them and the log die meanwhile. What the gateway had handed out comes twice
    then."""
    visitor.ask("popBy", topic="orders", group="popping")
    send(broker, bodies(0, 40))
    for member in ("one", "two"):
        visitor.ask("join", member=member, topic="orders", group="popping", tags="*", brokerShares=True, failing="7")
    came: list[dict[str, Any]] = []

    def have(count: int) -> bool:
        came.extend(each for member in ("one", "two") for each in visitor.ask("came", member=member))
        return len({each["body"] for each in came}) >= count

    until(lambda: have(40), "the first forty")
    assert {each["topic"] for each in came} == {"orders"} and all(each["receipt"] for each in came), "popped, not pulled"
    kill(broker, "dispatcher")
    send(broker, bodies(40, 20))
    until(lambda: have(60), "twenty more")
    kill(broker, "gateway")
    send(broker, bodies(60, 20))
    until(lambda: have(80) and done(broker, "popping", 80), "all eighty to be done")
    assert {each["body"] for each in came} == set(bodies(0, 80))
    again = sorted(each["reconsumed"] for each in came if each["body"] == "7")  # of two members
    assert again[0] == 0 and again[-1] >= 1


def test_pop_by_its_own_calls(visitor: Client5, broker: orbitmq.Broker) -> None:
    """Pop, acknowledge, one and many, and change the invisible time. A receipt that is over is accepted, and of no effect."""
    asked: dict[str, Any] = {"topic": "orders", "group": "calls"}

    def pop(most: int, invisible_ms: int = 60_000, poll_ms: int = 10_000) -> list[dict[str, Any]]:
        told = visitor.ask("pop", **asked, most=most, invisibleMs=invisible_ms, pollMs=poll_ms)
        assert (told["status"], bool(told["messages"])) in (("FOUND", True), ("POLLING_NOT_FOUND", False))
        return list(told["messages"])

    assert pop(1, poll_ms=1) == []
    send(broker, ["slow"])
    (late,) = pop(1, 1)
    (again,) = pop(1)
    assert (late["reconsumed"], again["reconsumed"]) == (0, 1)
    assert visitor.ask("ack", **asked, receipt=late["receipt"]) == "OK"
    assert visitor.ask("change", **asked, receipt=late["receipt"], invisibleMs=5)[0] == "NO_EXIST"
    status, receipt = visitor.ask("change", **asked, receipt=again["receipt"], invisibleMs=60_000)
    assert (status, pop(1, poll_ms=1)) == ("OK", [])
    assert visitor.ask("ack", **asked, receipt=receipt) == "OK"
    assert done(broker, "calls", 1)
    send(broker, bodies(0, 40))
    left = 40
    while left:
        found = pop(32)
        left -= len(found)
        assert visitor.ask("ackAll", **asked, receipts=[each["receipt"] for each in found]) == "OK"
    assert done(broker, "calls", 41)


def test_pop_in_order(visitor: Client5, broker: orbitmq.Broker) -> None:
    """A queue's second batch comes once the first one is done, and what comes again comes first; the client reads how often.
    What was changed is acknowledged by the receipt that the client has made of the answer."""
    asked: dict[str, Any] = {"topic": "orders", "group": "fifo", "inOrder": True}

    def pop(most: int, poll_ms: int = 10_000, attempt: str = "") -> list[tuple[int, int]]:
        """Offsets, and how often they came before; the receipts are kept."""
        told = visitor.ask("pop", **asked, most=most, invisibleMs=60_000, pollMs=poll_ms, attempt=attempt)
        receipts.update({each["offset"]: each["receipt"] for each in told["messages"]})
        return [(each["offset"], each["reconsumed"]) for each in told["messages"]]

    receipts: dict[int, str] = {}
    assert pop(1, 1) == [] and not visitor.ask("notified", **asked, pollMs=1)
    with broker.producer() as producer:
        for number in range(6):
            producer.send("orders", f"{number}", queue=2)
    assert visitor.ask("notified", **asked, pollMs=10_000)
    first = pop(3, attempt="first")
    assert first == [(0, 0), (1, 0), (2, 0)][: len(first)]
    assert pop(3, attempt="first") == first, "who asks again gets the same"
    assert pop(3, 1) == [] and not visitor.ask("notified", **asked, pollMs=1)
    status, receipt = visitor.ask("change", **asked, receipt=receipts[0], invisibleMs=120_000)
    assert status == "OK"
    receipts[0] = receipt
    for offset in range(1, len(first)):
        assert visitor.ask("ack", **asked, receipt=receipts[offset]) == "OK"
    assert pop(3, 1) == []
    assert visitor.ask("change", **asked, receipt=receipts[0], invisibleMs=1)[0] == "OK"
    assert pop(3) == [(0, 1)]
    assert visitor.ask("ackAll", **asked, receipts=[receipts[0]]) == "OK"
    came: list[tuple[int, int]] = []
    while len(came) < 6 - len(first):
        found = pop(2)
        came += found
        assert visitor.ask("ackAll", **asked, receipts=[receipts[offset] for offset, _ in found]) == "OK"
    assert came == [(offset, 0) for offset in range(len(first), 6)]
    assert done(broker, "fifo", 6)
    assert visitor.ask("polls", topic="orders", group="fifo") == 0
