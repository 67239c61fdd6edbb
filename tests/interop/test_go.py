"""Goal: RocketMQ's Go client, unchanged, sends to OrbitMQ and consumes from it in every way that it has, beside local producers
and consumers on the same topics: each sees what the other wrote.

Method: its process (gopher/main.go) visits a broker of OrbitMQ; what it sends is read with OrbitMQ's client and with itself.
Its clients end right after what is answered, as short programs do. After what is sent one-way they stay until it has come:
if they close a connection while an answer is there that they have not read, their own system throws away what it has not sent
yet."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from tests.actors.remoting_client import Remote
from tests.interop import gopher
from tests.interop.gopher import Gopher, body_of, letters
from tests.interop.ours import SMALL_FILES, broker_on
from tests.waiting import until

NAME = "judged"
QUEUES = 4
MEMBERS, SUCCESS = 38, 0  # the request that lists a group's members, and its answer if it has any


@pytest.fixture(scope="session")
def program() -> Path:
    try:
        return gopher.provide()
    except gopher.GoError as why:
        pytest.skip(f"RocketMQ's Go client cannot judge: {why}")


@pytest.fixture(scope="module")
def process(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gopher]:
    process = Gopher(program, tmp_path_factory.mktemp("gopher"))
    yield process
    process.close()


class Visitor:
    """The Go client, which asks for one topic of one broker."""

    def __init__(self, process: Gopher, names: str, topic: str = "orders") -> None:
        self._process = process
        self._told = {"names": names, "topic": topic}

    def __call__(self, operation: str, **fields: Any) -> Any:
        return self._process.ask(operation, **{**self._told, **fields})

    def send(self, how: str, *sent: dict[str, Any]) -> Any:
        """The receipts. The producer ends at once, as a short program does."""
        receipts = self("send", member="producer", how=how, letters=sent)
        self("leave", member="producer")
        return receipts

    def joins(self, member: str, group: str, **how: Any) -> None:
        self("join", member=member, group=group, **how)

    def takes(self, member: str, count: int) -> list[dict[str, Any]]:
        return list(self("take", member=member, count=count))

    def leaves(self, member: str) -> None:
        self("leave", member=member)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    times: dict[str, Any] = {"transaction_timeout_s": 0.1, "transaction_check_interval_s": 0.2}
    times["transaction_check_max"] = 1_000_000  # on a slow machine nobody may be there to answer for a while
    with broker_on(tmp_path / "store", SMALL_FILES, name=NAME, listen="127.0.0.1:0", **times) as broker:
        broker.create_topic("orders", queues=QUEUES)
        yield broker


@pytest.fixture
def go(process: Gopher, broker: orbitmq.Broker) -> Visitor:
    return Visitor(process, broker.status().listens)


def bodies(shown: list[dict[str, Any]]) -> list[bytes]:
    return [body_of(each) for each in shown]


def stored(broker: orbitmq.Broker, count: int, topic: str = "orders") -> list[Any]:
    """So many messages of the topic, in the order of the log."""
    found: list[Any] = []
    with broker.consumer(None, topics=[topic], start="earliest") as consumer:
        until(lambda: found.extend(consumer.poll_batch(1000, timeout=0.1)) or len(found) >= count, f"{count} messages")
    assert len(found) == count
    return sorted(found, key=lambda message: message.physical_offset)


def ours(broker: orbitmq.Broker, count: int, prefix: str = "local") -> list[bytes]:
    """Sends so many local messages over all queues."""
    made = [f"{prefix} {number}".encode() for number in range(count)]
    with broker.producer() as producer:
        for number, body in enumerate(made):
            producer.send("orders", body, queue=number % QUEUES, tags="ab"[number % 2], properties={"rank": str(number)})
    return made


def committed(broker: orbitmq.Broker, group: str) -> dict[int, int]:
    found = [each for each in broker.groups() if each.name == group]
    return {queue.queue: queue.committed for each in found for queue in each.queues if queue.topic == "orders"}


def is_here(broker: orbitmq.Broker, group: str) -> bool:
    """Whether a Go client of the group is connected. When none is, what it has committed counts."""
    with Remote(broker.status().listens) as remote:
        return remote.ask(MEMBERS, consumerGroup=group).code == SUCCESS


def test_each_way_to_send(go: Visitor, broker: orbitmq.Broker) -> None:
    """One by one, with and without waiting, batches, and messages that come later; with everything that a message can have."""
    more = {"tags": "paid", "keys": "k-1", "properties": {"colour": "blue", "größe": "ü"}}
    large = bytes(range(256)) * 100  # which it compresses
    (first, second) = go.send("sync", *letters(b"first", large, queue=1, **more))
    found = stored(broker, 2)
    for receipt, message, body in zip((first, second), found, (b"first", large), strict=True):
        assert (receipt["id"], receipt["queue"], receipt["offset"]) == (message.id, message.queue, message.offset)
        assert (bytes(message), message.tags, list(message.keys)) == (body, "paid", ["k-1"])
        assert {name: message.properties[name] for name in more["properties"]} == more["properties"]
        assert [each.id for each in broker.find("orders", receipt["unique"])] == [message.id]
    assert found[1].sys_flag & 1 and not found[0].sys_flag & 1
    receipts = go.send("async", *letters(*(b"%d" % n for n in range(50)), queue=2))
    assert sorted(receipt["offset"] for receipt in receipts) == [*range(50)]
    (batch,) = go.send("batch", *letters(b"a", b"b", b"c"))
    together = stored(broker, 55)[-3:]
    assert batch["id"].split(",") == [message.id for message in together] and [*map(bytes, together)] == [b"a", b"b", b"c"]
    go("send", member="producer", how="one-way", letters=letters(*(b"w%d" % n for n in range(20)), queue=3))
    assert [bytes(message) for message in stored(broker, 75)[-20:]] == [b"w%d" % n for n in range(20)]
    go.leaves("producer")
    (waiting,) = go.send("sync", *letters(b"later", level=1))
    (later,) = stored(broker, 76)[75:]
    assert bytes(later) == b"later" and later.id != waiting["id"] and later.properties["DELAY"] == "1"


def test_transactions(go: Visitor, broker: orbitmq.Broker) -> None:
    """Two end at once; about the others the broker asks, and it ends them one-way."""
    ends = ["commit", "rollback", "later commit", "later rollback"]
    go("transact", member="producer", group="shop", letters=letters(*map(str.encode, ends)), ends=ends)
    until(lambda: broker.open_transactions() == [], "the ends")
    go.leaves("producer")
    assert {bytes(message) for message in stored(broker, 2)} == {b"commit", b"later commit"}


def test_push_consumers_beside_local_ones(go: Visitor, broker: orbitmq.Broker) -> None:
    """Each gets what both have sent; filters count; and the group goes on where it was, also with local members."""
    mine = ours(broker, 20)
    theirs = [b"%d" % n for n in range(20)]
    for queue in range(QUEUES):
        go.send("sync", *letters(*theirs[queue::QUEUES], queue=queue, tags="b"))
    go.joins("all", "all")
    go.joins("tags", "tags", tags="a || c")
    go.joins("sql", "sql", sql="rank >= 15")
    everything = go.takes("all", 40)
    assert sorted(bodies(everything)) == sorted(mine + theirs)
    assert sorted(bodies(go.takes("tags", 10))) == sorted(mine[::2])
    assert sorted(bodies(go.takes("sql", 5))) == sorted(mine[15:])
    shown = {body_of(each): each for each in everything}
    for message in stored(broker, 40):
        seen = shown[bytes(message)]
        assert (seen["id"], seen["queue"], seen["offset"]) == (message.id, message.queue, message.offset)
    until(lambda: committed(broker, "all") == dict.fromkeys(range(QUEUES), 10), "the offsets")
    for member in ("all", "tags", "sql"):
        go.leaves(member)
    # What "all" commits once more at its end, one-way, must not come after what the local member commits.
    until(lambda: not is_here(broker, "all"), "the end of its connection")
    rest = ours(broker, 8, "rest")
    with broker.consumer("all", topics=["orders"]) as consumer:
        found: list[bytes] = []
        until(lambda: found.extend(map(bytes, consumer.poll_batch(100, timeout=0.1))) or len(found) >= 8, "the rest")
        consumer.commit()
    assert sorted(found) == sorted(rest)
    last = ours(broker, 8, "last")
    go.joins("again", "all")
    assert sorted(bodies(go.takes("again", 8))) == sorted(last)
    go.leaves("again")


def test_two_members_share(go: Visitor, broker: orbitmq.Broker) -> None:
    """As soon as the second knows the first, each has some of the queues; when one leaves, the other has all. Nothing is
    missing."""
    seen: dict[str, set[bytes]] = {}

    def all_came(sent: list[bytes], *members: str) -> bool:
        for member in members:
            seen.setdefault(member, set()).update(bodies(go("came", member=member)))
        return set(sent) <= set[bytes]().union(*seen.values())

    go.joins("one", "shared")
    waves = (ours(broker, 2 * QUEUES, str(wave)) for wave in range(1000))
    until(partial(all_came, next(waves), "one"), "the first wave")
    go.joins("two", "shared")
    both = False
    while not both:
        seen.clear()
        until(partial(all_came, next(waves), "one", "two"), "a wave")
        both = all(seen.values())
    go.leaves("one")
    del seen["one"]
    alone = False
    while not alone:
        sent = next(waves)
        seen.clear()
        until(lambda: all_came(sent, "two") or len(seen["two"]) >= QUEUES, "what comes to the second")
        alone = set(sent) <= seen["two"]
    go.leaves("two")


def test_in_order(go: Visitor, broker: orbitmq.Broker) -> None:
    """An orderly consumer locks its queues; each comes in its order, what was there before and what is sent meanwhile."""
    for number, wave in enumerate(("first", "second")):
        sent = ours(broker, 40, wave)
        if not number:
            go.joins("member", "ordered", orderly=True)
        came = bodies(go.takes("member", 40))
        for queue in range(QUEUES):
            assert [body for body in came if body in sent[queue::QUEUES]] == sent[queue::QUEUES]
    until(lambda: committed(broker, "ordered") == dict.fromkeys(range(QUEUES), 20), "the offsets")
    go.leaves("member")


def test_everybody_gets_a_broadcast(go: Visitor, broker: orbitmq.Broker) -> None:
    for member in ("one", "two"):
        go.joins(member, "heard", broadcast=True)
    sent = ours(broker, 12)
    for member in ("one", "two"):
        assert sorted(bodies(go.takes(member, 12))) == sorted(sent)
        go.leaves(member)


def test_what_is_given_back_comes_again(go: Visitor, broker: orbitmq.Broker) -> None:
    """After 10 s; a queue whose offset the client could not get in 3 s it takes up later than that."""
    go.joins("member", "tries", fails=2)
    sent = ours(broker, 4)
    came: list[dict[str, Any]] = []

    def first() -> list[dict[str, Any]]:
        return [each for each in came if each["tries"] == 0]

    def again() -> list[dict[str, Any]]:
        """If the answer to what it gives back takes more than 3 s, it also tries the same message once more by itself."""
        return [each for each in came if each["tries"] and each["id"] not in {other["id"] for other in first()}]

    until(lambda: came.extend(go("came", member="member")) or (len(first()) >= 4 and len(again()) >= 2), "all six")
    go.leaves("member")
    assert sorted(bodies(first())) == sorted(sent) and all(each["tries"] == 1 for each in again())
    assert sorted(bodies(again())) == sorted(map(bytes, stored(broker, 2, "%RETRY%tries")))


def test_pull_consumers(go: Visitor, broker: orbitmq.Broker) -> None:
    """From a place of their choice; and from where the group is, which they commit one-way before they end."""
    mine = ours(broker, 40)
    assert bodies(go("pull", group="puller", how=NAME, queue=2, offset=3, count=7)) == mine[2::QUEUES][3:]
    assert sorted(bodies(go("poll", member="first", group="polled", count=40))) == sorted(mine)
    until(lambda: committed(broker, "polled") == dict.fromkeys(range(QUEUES), 10), "the offsets")
    go.leaves("first")
    more = ours(broker, 8, "more")
    assert sorted(bodies(go("poll", member="second", group="polled", count=8))) == sorted(more)
    go.leaves("second")


def test_request_and_reply(go: Visitor, broker: orbitmq.Broker) -> None:
    with broker.consumer("replier", topics=["orders"], start="earliest") as consumer:

        def answered() -> bool:
            found = consumer.poll_batch(1, timeout=0.1)
            for request in found:
                broker.reply(request, bytes(request) + b"!")
            return bool(found)

        with ThreadPoolExecutor(1) as pool:
            reply = pool.submit(partial(go, "ask", letters=letters(b"how much")))
            until(answered, "the request")
            assert body_of({"body": reply.result()}) == b"how much!"


def test_a_body_that_is_not_what_it_says(go: Visitor, broker: orbitmq.Broker) -> None:
    """It comes as it is stored, as it does to local consumers."""
    with Remote(broker.status().listens) as remote:
        remote.send("orders", b"plain", 0, f=1)
        remote.send("orders", b"behind", 0)
    found = go("pull", group="puller", how=NAME, queue=0, offset=0, count=2)
    assert bodies(found) == [bytes(message) for message in stored(broker, 2)] == [b"plain", b"behind"]
