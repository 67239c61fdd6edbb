"""Goal: who looks after a broker sees its groups and clients, and can move, stop and delete groups, with members at work; what
was acknowledged holds after every death. Method: real trees, whose coordinator, or all of whose processes, are killed; asked
through client/admin/administration.py, answered by actors/coordinator/administration.py and actors/groups/group_configs.py."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import orbitmq
from orbitmq import aio
from orbitmq.client.admin.group_reset import GroupMove
from orbitmq.errors import (
    Fenced,
    GroupInUse,
    NoPermission,
    OffsetOutOfRange,
    SettingError,
    UnknownGroup,
    UnknownQueue,
    UnknownTopic,
)
from orbitmq.store.config import load_groups, load_offsets
from orbitmq.store.layout import StoreLayout
from tests.trees import SMALL, actors, kill, small_broker
from tests.waiting import WATCHDOG_S, dead, until

EACH = 10


def fill(broker: orbitmq.Client, topic: str = "t", queues: int = 2) -> None:
    broker.create_topic(topic, queues)
    with broker.producer() as producer:
        for queue in range(queues):
            producer.send_batch(topic, [b"%d.%d" % (queue, n) for n in range(EACH)], queue=queue, durability="flushed")
    until(lambda: sum(queue.max_offset for each in broker.status().topics for queue in each.queues) >= EACH * queues, "reput")


def read(consumer: orbitmq.Consumer, count: int) -> list[bytes]:
    got: list[bytes] = []
    while len(got) < count:
        batch = consumer.poll_bodies(count - len(got), WATCHDOG_S)
        assert batch, f"{len(got)} of {count} came"
        got += batch
    return got


def begin(broker: orbitmq.Client, group: str = "g") -> None:
    """A group without members that has read all."""
    with broker.consumer(group, ["t"]) as consumer:
        read(consumer, 2 * EACH)
        consumer.commit()
    until(lambda: not broker.group(group).members, "the member to leave")


def offsets(broker: orbitmq.Client, group: str = "g") -> list[int]:
    return [queue.committed for queue in broker.group(group).queues]


def kill_tree(broker: orbitmq.Broker) -> None:
    pids = [each.pid for each in actors(broker).values() if each.pid > 0]
    os.kill(broker.pid, signal.SIGKILL)
    until(lambda: all(map(dead, pids)), "the tree's death")  # the store is its last process's
    broker.close()


def after(end: str, broker: orbitmq.Broker, folder: Path) -> orbitmq.Broker:
    """The broker that goes on: after the death of the "coordinator", of the whole "tree", or a "stop"."""
    if end == "coordinator":
        kill(broker, "coordinator")
        return broker
    kill_tree(broker) if end == "tree" else broker.close()
    return orbitmq.Broker(folder, **SMALL)


def test_what_is_shown(tmp_path: Path) -> None:
    """groups(), group() and clients() tell what status() tells, and who has what."""
    with small_broker(tmp_path) as broker:
        fill(broker)
        until(lambda: not broker.status().sessions, "the end of the producer that filled it")
        assert broker.groups() == []
        with broker.consumer("g", ["t"]) as consumer, broker.producer():
            read(consumer, EACH)
            consumer.commit()
            (group,) = broker.groups()
            assert group.retries is None and replace(group, retries=0) == broker.group("g")
            assert (group,) == broker.status().groups
            assert group.lag_messages == EACH and not group.paused
            (member,) = group.members
            assert (member.pid, member.queues) == (os.getpid(), (("t", 0), ("t", 1)))
            (client,) = broker.clients()
            assert (client.pid, client.uid, client.groups) == (os.getpid(), os.geteuid(), ("g",))
            assert (client.producers, client.consumers) == (1, 1) and client.connections >= 1 and "python" in client.command
        with pytest.raises(UnknownGroup) as caught:
            broker.group("h")
        assert caught.value.group == "h" and caught.value.hint


def test_members_go_on_where_the_group_was_reset_to(tmp_path: Path) -> None:
    """Backwards and forwards, while a member has messages in hand: it continues there, and its late commit raises Fenced."""
    with small_broker(tmp_path) as broker:
        fill(broker)
        with broker.consumer("g", ["t"]) as consumer:
            read(consumer, 4)
            consumer.commit()
            in_hand = read(consumer, 2 * EACH - 4)
            assert in_hand
            before = offsets(broker)
            moves = broker.reset_group("g", "earliest")
            assert moves == [GroupMove("t", queue, before[queue], 0) for queue in range(2)]
            with pytest.raises(Fenced) as caught:
                consumer.commit()
            assert caught.value.queues
            assert offsets(broker) == [0, 0]
            assert len(read(consumer, 2 * EACH)) == 2 * EACH
            consumer.commit()
            broker.reset_group("g", 7, topic="t", queue=1)
            assert sorted(read(consumer, EACH - 7)) == [b"1.%d" % n for n in range(7, EACH)], "only this queue was moved"
            broker.reset_group("g", "earliest")
            broker.reset_group("g", "latest")
            assert consumer.poll(0) is None and offsets(broker) == [EACH, EACH]


def test_a_waiting_member_gets_what_it_was_reset_to(tmp_path: Path) -> None:
    async def work(name: str) -> None:
        async with aio.connect(name) as client:
            consumer = await client.consumer("g", ["t"], start="latest")
            waiting = asyncio.ensure_future(consumer.poll(timeout=WATCHDOG_S))
            await asyncio.sleep(0)
            assert [each.name for each in await client.groups()] == ["g"]
            assert [move.after for move in await client.reset_group("g", "-3", topic="t", queue=0)] == [EACH - 3]
            message = await waiting
            assert message is not None and (message.queue, message.offset) == (0, EACH - 3)
            assert (await client.group("g")).members and len(await client.clients()) == 1
            assert (await client.pause_group("g")).paused and not (await client.resume_group("g")).paused
            with pytest.raises(GroupInUse):
                await client.delete_group("g")
            await consumer.close()

    with small_broker(tmp_path) as broker:
        fill(broker)
        asyncio.run(work(broker.name))


def test_where_a_group_can_be_reset_to(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        fill(broker)
        begin(broker)

        def at(to: object, **only: object) -> list[int]:
            return [move.after for move in broker.reset_group("g", to, **only)]  # type: ignore[arg-type]

        assert at("-4") == [EACH - 4, EACH - 4]
        assert at("+1") == [EACH - 3, EACH - 3]
        assert at("-100") == [0, 0] and at("+100") == [EACH, EACH], "as far as there are messages"
        assert at("3") == at(3) == [3, 3]
        assert at(EACH) == [EACH, EACH], "the end is an offset too"
        now = datetime.now(UTC)
        assert at(now - timedelta(days=1)) == [0, 0]
        assert at((now - timedelta(days=1)).isoformat()) == [0, 0] == at("2020-01-01")
        assert at("latest", dry_run=True) == [EACH, EACH] and offsets(broker) == [0, 0]
        for wrong in ("", "soon", "+", "-x", "1.5", -1, True, 2.5, None, "٣", "9" * 5000, "-" + "9" * 5000, datetime.min):
            with pytest.raises(SettingError) as bad:
                at(wrong)
            assert "earliest" in bad.value.message
        with pytest.raises(OffsetOutOfRange) as caught:
            at(EACH + 1)
        assert (caught.value.minimum, caught.value.maximum, caught.value.offset) == (0, EACH, EACH + 1)
        with pytest.raises(UnknownQueue):
            at(1, topic="t", queue=2)
        with pytest.raises(SettingError, match="topic"):
            at(1, queue=1)
        with pytest.raises(UnknownTopic):
            at(1, topic="nothing")
        with pytest.raises(UnknownGroup):
            broker.reset_group("h", "earliest")
        with broker.producer() as producer:
            producer.send("t", b"x", queue=0)
        until(lambda: broker.group("g").queues[0].lag_messages == EACH + 1, "reput")
        assert at(EACH + 1) == [EACH + 1, EACH], "a shorter queue goes on at its end"
        with pytest.raises(OffsetOutOfRange):
            at(EACH + 1, topic="t", queue=1)
        assert at(0) == [0, 0]
        broker.create_topic("u", 1)
        with pytest.raises(SettingError, match="no offset there"):
            at("+1", topic="u")
        assert broker.reset_group("g", "latest", topic="u") == [GroupMove("u", 0, None, 0)]
        assert offsets(broker) == [0, 0, 0]


@pytest.mark.parametrize("end", ["coordinator", "tree", "stop"])
def test_what_was_changed_outlives(tmp_path: Path, end: str) -> None:
    """A reset, a pause and a deletion are kept, whoever is killed after they were acknowledged."""
    broker = orbitmq.Broker(tmp_path, **SMALL)
    fill(broker)
    for group in ("g", "paused", "deleted"):
        begin(broker, group)
    broker.reset_group("g", 3)
    broker.pause_group("paused")
    broker.delete_group("deleted")
    with after(end, broker, tmp_path) as broker:
        assert offsets(broker) == [3, 3]
        assert [(each.name, each.paused) for each in broker.groups()] == [("g", False), ("paused", True)]
        with broker.consumer("deleted", ["t"]) as consumer:
            assert len(read(consumer, 2 * EACH)) == 2 * EACH, "it begins where a new group would"
        with broker.consumer("paused", ["t"], start="earliest") as consumer:
            broker.reset_group("paused", "earliest")
            assert consumer.poll(0) is None and consumer.assignment == []
            broker.resume_group("paused")
            assert len(read(consumer, 2 * EACH)) == 2 * EACH


def test_a_deleted_group_is_in_no_file(tmp_path: Path) -> None:
    """Also if its offsets had been written, and a snapshot with them was about to be."""
    layout = StoreLayout.at(tmp_path)
    with small_broker(tmp_path, offsets_interval_s=1) as broker:
        fill(broker)
        begin(broker)
        until(lambda: ("t", "g") in load_offsets(layout), "the offsets to be written")
        begin(broker, "other")
        broker.delete_group("g")
        with pytest.raises(UnknownGroup):
            broker.delete_group("g")
        until(lambda: ("t", "other") in load_offsets(layout), "the next offsets to be written")
        assert ("t", "g") not in load_offsets(layout) and set(load_groups(layout)[0]) == {"other"}
        kill_tree(broker)
    with small_broker(tmp_path) as broker:
        assert [each.name for each in broker.groups()] == ["other"]


def test_a_group_with_members_is_not_deleted(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        fill(broker)
        with broker.consumer("g", ["t"]) as consumer:
            with pytest.raises(GroupInUse) as caught:
                broker.delete_group("g")
            assert (caught.value.members, caught.value.pids) == (1, [os.getpid()]) and caught.value.hint
            assert len(read(consumer, 2 * EACH)) == 2 * EACH
            consumer.commit()


def test_a_pause_lets_members_commit(tmp_path: Path) -> None:
    """A member keeps its queues until it has committed what it got; then it gets nothing until the group is resumed. No message
    comes twice."""
    with small_broker(tmp_path) as broker:
        fill(broker)
        with broker.consumer("g", ["t"], revoke_timeout=WATCHDOG_S) as consumer:
            got = read(consumer, 5)
            assert broker.pause_group("g").paused
            assert consumer.poll(0) is None
            consumer.commit()
            until(lambda: not any(member.queues for member in broker.group("g").members), "the queues to go")
            assert sum(offsets(broker)) == 5
            assert broker.pause_group("g").paused, "a second time changes nothing"
            broker.resume_group("g")
            got += read(consumer, 2 * EACH - 5)
            assert sorted(got) == sorted(b"%d.%d" % (queue, n) for queue in range(2) for n in range(EACH))
            consumer.commit()


def test_a_store_that_is_only_read(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        fill(broker)
        begin(broker)
    with small_broker(tmp_path, read_only=True) as broker:
        broker.reset_group("g", "earliest")
        assert offsets(broker) == [0, 0], "positions are what a read-only broker writes"
        for change in (broker.pause_group, broker.resume_group, broker.delete_group):
            with pytest.raises(NoPermission):
                change("g")
        assert offsets(broker) == [0, 0]
