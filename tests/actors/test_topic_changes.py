"""Goal: who looks after topics sees them, grows them, says who may read and write, and purges them; what was acknowledged
holds after every death, and nobody gets a purged message again. Method: real trees, whose coordinator, or all of whose
processes, are killed; asked through client/admin/topic_administration.py, answered by actors/coordinator/administration.py and
actors/topics/purges.py."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import orbitmq
from orbitmq import aio
from orbitmq.client.admin.topic_administration import QueuePurge
from orbitmq.errors import NoPermission, OffsetOutOfRange, SettingError, TopicExists, UnknownQueue, UnknownTopic, UsageError
from orbitmq.store import purged
from orbitmq.store.layout import StoreLayout
from tests.actors.test_group_changes import EACH, fill, kill_tree, read
from tests.trees import SMALL, everything, kill, small_broker
from tests.waiting import WATCHDOG_S, until


def held(broker: orbitmq.Client, topic: str = "t") -> list[tuple[int, int]]:
    return [(queue.min_offset, queue.max_offset) for queue in broker.topic(topic).queues]


def test_describe_and_grow(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        fill(broker)
        assert broker.topic("t") == broker.status().topics[0] and held(broker) == [(0, EACH)] * 2
        with broker.consumer("g", ["t"]) as consumer:
            read(consumer, 2 * EACH)
            assert broker.grow_topic("t", 4).queues == 4 and broker.grow_topic("t", 4).queues == 4
            until(lambda: consumer.poll(0) is None and len(consumer.assignment) == 4, "the queues to come")
        for wrong, error in ((3, TopicExists), (0, SettingError), (100_000, SettingError), (17, TopicExists)):
            with pytest.raises(error):
                broker.grow_topic("t", wrong)
        for call in (broker.topic, lambda name: broker.grow_topic(name, 2), broker.purge_topic):
            with pytest.raises(UnknownTopic):
                call("u")


def test_permissions(tmp_path: Path) -> None:
    """They count at once for senders and groups, survive restarts, and leave the topic's other settings alone."""
    with small_broker(tmp_path) as broker:
        fill(broker)
        with broker.producer() as producer, broker.consumer("g", ["t"]) as consumer:
            read(consumer, 1)
            assert broker.set_permissions("t", read=True, write=False).perm == 4
            with pytest.raises(NoPermission):
                producer.send("t", b"x")
            read(consumer, 1)
            consumer.commit()
            assert broker.create_topic("t", 2).perm == 4, "who makes sure that the topic exists does not open it again"
            assert broker.set_permissions("t", read=False, write=True).perm == 2
            assert consumer.poll(0) is None
            producer.send("t", b"x", queue=0)
            kill(broker, "coordinator")
            assert broker.topic("t").perm == 2
        with pytest.raises(NoPermission):
            broker.consumer("g", ["t"])
    with small_broker(tmp_path) as broker:
        assert broker.topic("t").perm == 2
        broker.set_permissions("t", read=True, write=True)
        with broker.consumer("g", ["t"]) as consumer:
            assert len(read(consumer, 2 * EACH + 1 - 2)) == 2 * EACH - 1


def test_a_purge(tmp_path: Path) -> None:
    """To an offset, a time, the end; one queue or all. Readers go on at the first message that is left."""
    with small_broker(tmp_path) as broker:
        fill(broker)
        consumer = broker.consumer("g", ["t"])
        with consumer:
            assert broker.purge_topic("t", 3, queue=1, dry_run=True) == [QueuePurge(1, 0, 3)]
            assert held(broker) == [(0, EACH)] * 2
            assert broker.purge_topic("t", 3, queue=1) == [QueuePurge(1, 0, 3)]
            assert held(broker) == [(0, EACH), (3, EACH)]
            assert len(read(consumer, 2 * EACH - 3)) == 2 * EACH - 3 and consumer.skipped == 3
        assert broker.purge_topic("t", 2) == [QueuePurge(0, 0, 2), QueuePurge(1, 3, 3)], "what is gone stays gone"
        assert [each.messages for each in broker.purge_topic("t", datetime.now(UTC) - timedelta(days=1))] == [0, 0]
        with broker.producer() as producer:
            message_id = producer.send("t", b"key", keys="k", queue=0).id
        until(lambda: held(broker)[0][1] == EACH + 1, "reput")
        assert broker.find("t", "k") and broker.message(message_id).offset == EACH
        later = datetime.now(UTC) + timedelta(seconds=5)
        assert sum(each.messages for each in broker.purge_topic("t", later)) == 2 * EACH + 1 - 5
        assert held(broker) == [(EACH + 1, EACH + 1), (EACH, EACH)]
        assert broker.find("t", "k") == []
        with pytest.raises(UsageError):
            broker.message(message_id)
        with broker.producer() as producer:
            assert producer.send("t", b"new", queue=1).offset == EACH, "numbers go on"
        until(lambda: held(broker)[1] == (EACH, EACH + 1), "reput")
        assert [each.messages for each in broker.purge_topic("t")] == [0, 1]
        with pytest.raises(OffsetOutOfRange):
            broker.purge_topic("t", EACH + 2)
        with pytest.raises(UnknownQueue):
            broker.purge_topic("t", queue=2)
        for wrong in ("+3", "-3", "soon", "earliest", -1):
            with pytest.raises(SettingError, match="latest"):
                broker.purge_topic("t", wrong)


def test_a_purge_of_what_was_looked_at(tmp_path: Path) -> None:
    """What a dry run has returned can be purged later: that and no more, whatever has come or gone meanwhile."""
    with small_broker(tmp_path) as broker:
        fill(broker)
        looked = broker.purge_topic("t", dry_run=True)
        broker.purge_topic("t", 4, queue=0)
        with broker.producer() as producer:
            producer.send_batch("t", [b"new"] * 3, queue=1)
        until(lambda: held(broker)[1][1] == EACH + 3, "reput")
        assert broker.purge_topic("t", looked, queue=1, dry_run=True) == [QueuePurge(1, 0, EACH)]
        assert broker.purge_topic("t", looked) == [QueuePurge(0, 4, EACH), QueuePurge(1, 0, EACH)]
        assert broker.purge_topic("t", looked) == [QueuePurge(0, EACH, EACH), QueuePurge(1, EACH, EACH)]
        assert held(broker) == [(EACH, EACH), (EACH, EACH + 3)]
        assert broker.purge_topic("t", []) == [] == broker.purge_topic("t", looked[:1], queue=1)
        with pytest.raises(UnknownQueue, match="could not purge queue 2 of 't': it has 2"):
            broker.purge_topic("t", [QueuePurge(2, 0, 5)])
        with pytest.raises(SettingError, match="latest"):
            broker.purge_topic("t", [7])  # type: ignore[list-item]


def test_where_a_purge_may_go(tmp_path: Path) -> None:
    """A queue that ends before the offset is emptied; an offset that no queue has reached is refused."""
    with small_broker(tmp_path) as broker:
        fill(broker)
        with broker.producer() as producer:
            producer.send_batch("t", [b"more"] * 5, queue=1)
        until(lambda: held(broker)[1][1] == EACH + 5, "reput")
        with pytest.raises(OffsetOutOfRange, match="queue 1 ends at 15, and the others before"):
            broker.purge_topic("t", EACH + 6)
        assert held(broker) == [(0, EACH), (0, EACH + 5)]
        assert broker.purge_topic("t", EACH + 3) == [QueuePurge(0, 0, EACH), QueuePurge(1, 0, EACH + 3)]
        assert held(broker) == [(EACH, EACH), (EACH + 3, EACH + 5)]


@pytest.mark.parametrize("end", ["coordinator", "tree", "stop", "queues"])
def test_nobody_gets_what_was_purged(tmp_path: Path, end: str) -> None:
    """Whoever dies, and if all queues are made anew from the log, which still holds the messages."""
    broker = orbitmq.Broker(tmp_path, **SMALL)
    fill(broker)
    broker.purge_topic("t", 7, queue=0)
    broker.purge_topic("t", queue=1)
    if end == "coordinator":
        kill(broker, "coordinator")
        broker.groups()
    else:
        broker.close() if end == "stop" else kill_tree(broker)
        if end == "queues":
            for path in (tmp_path / "consumequeue").glob("*/*/*"):
                path.unlink()
        broker = orbitmq.Broker(tmp_path, **SMALL)
    with broker:
        assert held(broker) == [(7, EACH), (EACH, EACH)]
        assert sorted(body for body, *_ in everything(broker, "t")) == [b"0.%d" % n for n in range(7, EACH)]
        with broker.producer() as producer:
            assert [producer.send("t", b"x", queue=queue).offset for queue in range(2)] == [EACH, EACH]
        until(lambda: held(broker) == [(7, EACH + 1), (EACH, EACH + 1)], "reput")


def test_a_purge_that_was_cut_short(tmp_path: Path) -> None:
    """The file says it, and the coordinator died before the queues did: its successor, and the next start, finish it."""
    layout = StoreLayout.at(tmp_path)
    with small_broker(tmp_path) as broker:
        fill(broker)
        purged.store(layout, purged.Purged(floors={"t": {0: 4}, "gone": {3: 1}}))
        kill(broker, "coordinator")
        broker.groups()
        assert held(broker) == [(4, EACH), (0, EACH)]
        purged.store(layout, purged.Purged(floors={"t": {0: 4, 1: 5}}))
    with small_broker(tmp_path) as broker:
        assert held(broker) == [(4, EACH), (5, EACH)]


def test_a_purge_of_messages_that_a_power_cut_has_cost(tmp_path: Path) -> None:
    """The next messages get their numbers, and are not hidden."""
    layout = StoreLayout.at(tmp_path)
    with small_broker(tmp_path) as broker:
        fill(broker)
    purged.store(layout, purged.Purged(floors={"t": {0: EACH + 5, 9: 3}, "u": {0: 2}}))
    with small_broker(tmp_path) as broker:
        assert purged.load(layout).floors == {"t": {0: EACH, 9: 0}, "u": {0: 0}}
        with broker.producer() as producer:
            producer.send("t", b"x", queue=0)
        until(lambda: held(broker)[0] == (EACH, EACH + 1), "reput")
    with small_broker(tmp_path) as broker:
        assert held(broker)[0] == (EACH, EACH + 1)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        fill(broker)
        broker.purge_topic("t")
    stored = json.loads(StoreLayout.at(tmp_path).purged.read_text())
    stored["purged"]["floors"]["t"]["0"] += 1
    StoreLayout.at(tmp_path).purged.write_text(json.dumps(stored))
    with small_broker(tmp_path) as broker:
        (note,) = broker.status().notes
        assert "purged" in note and broker.status().health.state == "degraded" and held(broker) == [(0, EACH)] * 2


def test_a_store_that_is_only_read(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        fill(broker)
        broker.purge_topic("t", 4)
    with small_broker(tmp_path, read_only=True) as broker:
        assert held(broker) == [(4, EACH)] * 2
        for change in (lambda: broker.purge_topic("t"), lambda: broker.set_permissions("t", read=True, write=False)):
            with pytest.raises(NoPermission, match="read-only"):
                change()


def test_asyncio(tmp_path: Path) -> None:
    async def work(name: str) -> None:
        async with aio.connect(name) as client:
            assert (await client.topic("t")).queues == broker.topic("t").queues
            assert (await client.grow_topic("t", 3)).queues == 3
            assert (await client.set_permissions("t", read=True, write=False)).perm == 4
            waiting = await client.consumer("g", ["t"])
            assert [each.messages for each in await client.purge_topic("t", EACH - 1, queue=0)] == [EACH - 1]
            got: list[bytes] = []
            while len(got) < EACH + 1:
                got += await waiting.poll_bodies(100, timeout=WATCHDOG_S)
            await waiting.close()

    with small_broker(tmp_path) as broker:
        fill(broker)
        asyncio.run(work(broker.name))
