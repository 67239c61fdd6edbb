"""Goal: whichever members join, leave or die, a group's queues are a partition of its topics, epochs only grow, and the
coordinator's death costs nobody a queue. Method: bare consumer sessions of this and of other processes, against a real tree. Of
actors/groups/groups.py."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.client.connection.session import SessionHandle
from orbitmq.native._types import PullHold
from orbitmq.store.config import DataVersion, GroupConfig, load_groups, store_groups
from orbitmq.store.layout import StoreLayout
from tests.trees import actors, kill, small_broker
from tests.waiting import until

QUEUES = 7


class Member:
    """A consumer session in the group "g" of topic "t"."""

    def __init__(self, client: orbitmq.Client) -> None:
        self.client = client
        self.handle: SessionHandle = client.connection.open_session(queue_capacity=64)
        self.hold = PullHold(self.handle)
        self.join()

    def join(self) -> None:
        handle, wish = self.handle, {"topics": ["t"], "start": "earliest"}
        answer, words = self.client.connection.ask_for_file(
            "join_group", slot=handle.slot, epoch=handle.epoch, group="g", **wish
        )
        self.hold.words(mmap.mmap(words, 0))
        os.close(words)
        self.take(answer)

    def ask(self, operation: str, **fields: Any) -> Any:
        handle = self.handle
        return self.client.connection.ask(operation, slot=handle.slot, epoch=handle.epoch, group="g", **fields)

    def take(self, answer: dict[str, Any]) -> None:
        self.epoch = answer["epoch"]
        self.queues = [queue for _, queue, _, _ in answer["queues"]]
        self.starts = {queue: start for _, queue, _, start in answer["queues"]}
        self.hold.join(answer["group"], answer["epoch"])

    def refresh(self) -> list[int]:
        """As a consumer does: asks only when the epoch has moved."""
        if not self.hold.current():
            self.take(self.ask("assignment"))
        return self.queues

    def close(self) -> None:
        self.hold.close()
        self.handle.close()


def partition(members: list[Member]) -> list[int]:
    return sorted(queue for member in members for queue in member.refresh())


def owned(client: orbitmq.Client) -> dict[int, list[int]]:
    """Queues by member's pid, as status shows them."""
    for group in client.status().groups:
        if group.name == "g":
            return {member.pid: [queue for _, queue in member.queues] for member in group.members}
    return {}


def test_joins_and_leaves(tmp_path: Path) -> None:
    """One to five members, then down again: always a partition, shares that differ by one, and a higher epoch each time."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", QUEUES)
        members: list[Member] = []
        epoch = 0
        for _ in range(5):
            members.append(Member(broker))
            assert partition(members) == list(range(QUEUES))
            sizes = [len(member.queues) for member in members]
            assert max(sizes) - min(sizes) <= 1
            assert {member.epoch for member in members} == {members[0].epoch}
            assert members[0].epoch > epoch
            epoch = members[0].epoch
        while len(members) > 1:
            members.pop(len(members) // 2).close()
            until(lambda: partition(members) == list(range(QUEUES)), "the queues to be shared out again")
            assert members[0].epoch > epoch
            epoch = members[0].epoch
        members.pop().close()
        until(lambda: owned(broker) == {}, "the group to be empty")


def test_groups_are_named_for_rocketmq(tmp_path: Path) -> None:
    """A group that begins is added to RocketMQ's file, once; the settings that another broker gave one stay."""
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    other = GroupConfig("other", retry_max=3, other={"field": 1})
    store_groups(layout, {"other": other}, DataVersion(5, 1))
    for _ in range(2):
        with small_broker(tmp_path) as broker:
            broker.create_topic("t", QUEUES)
            first, second = Member(broker), Member(broker)
            groups, version = load_groups(layout)
            assert groups == {"other": other, "g": GroupConfig("g")}
            assert version.counter == 6
            first.close()
            second.close()


def test_leave_group_keeps_the_session(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", QUEUES)
        first, second = Member(broker), Member(broker)
        second.ask("leave_group")
        assert partition([first]) == list(range(QUEUES))
        with pytest.raises(errors.Fenced):
            second.ask("assignment")
        second.join()
        assert partition([first, second]) == list(range(QUEUES))


def test_members_die(tmp_path: Path) -> None:
    """Four processes in the group; each is killed in turn, and the others get its queues."""
    program = (
        "import orbitmq, sys\n"
        "from tests.actors.test_groups import Member\n"
        "member = Member(orbitmq.connect(sys.argv[1])); print('joined', flush=True); sys.stdin.read()"
    )
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", QUEUES)
        arguments = [sys.executable, "-c", program, broker.name]
        processes = [subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)]
        try:
            for process in processes:
                assert process.stdout is not None
                assert process.stdout.readline() == b"joined\n"
            assert set(owned(broker)) == {process.pid for process in processes}
            while processes:
                process = processes.pop()
                process.kill()
                process.communicate()
                left = {each.pid for each in processes}
                until(lambda: set(owned(broker)) == left, "the dead member to be forgotten")
                held = sorted(queue for queues in owned(broker).values() for queue in queues)
                assert held == (list(range(QUEUES)) if left else [])
        finally:
            for process in processes:
                process.kill()
                process.communicate()


def test_coordinator_dies(tmp_path: Path) -> None:
    """Its successor knows epoch, members and queues: nobody's assignment moves, and the death of a member in the meantime is
    noticed."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", QUEUES)
        members = [Member(broker) for _ in range(3)]
        partition(members)
        before = [(member.epoch, member.queues) for member in members]
        kill(broker, "coordinator")
        assert sorted(queue for queues in owned(broker).values() for queue in queues)
        assert actors(broker)["coordinator"].epoch == 2
        assert all(member.hold.current() for member in members)
        for member, (epoch, queues) in zip(members, before, strict=True):
            answer = member.ask("assignment")
            assert (answer["epoch"], [queue for _, queue, _, _ in answer["queues"]]) == (epoch, queues)
        members.append(Member(broker))
        assert partition(members) == list(range(QUEUES))


def test_topic_grows(tmp_path: Path) -> None:
    """New queues of a topic are shared out without a request."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", QUEUES)
        members = [Member(broker), Member(broker)]
        broker.create_topic("t", QUEUES + 4)
        assert partition(members) == list(range(QUEUES + 4))


def test_refusals(tmp_path: Path) -> None:
    """Names, topics, starts and sessions that are not valid."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", QUEUES)
        session = broker.connection.open_session(queue_capacity=QUEUES - 1)

        def join(**fields: Any) -> Any:
            asked = {"slot": session.slot, "epoch": session.epoch, "group": "g", "topics": ["t"], "start": "earliest"}
            return broker.connection.ask("join_group", **{**asked, **fields})

        with pytest.raises(errors.SettingError, match="has room for 6"):
            join()
        for name in ("", "x" * 256, "a b", None):
            with pytest.raises(errors.GroupNameError):
                join(group=name)
        with pytest.raises(errors.UnknownTopic, match="orbitmq topic create nothing"):
            join(topics=["nothing"])
        with pytest.raises(errors.SettingError):
            join(start="middle")
        with pytest.raises(errors.BrokerError):
            join(epoch=session.epoch + 1)
        producer = broker.connection.open_session(window=64, sq_capacity=65536)
        with pytest.raises(errors.BrokerError):
            join(slot=producer.slot, epoch=producer.epoch)
        with pytest.raises(errors.ProtocolError):
            broker.connection.ask("make_coffee")
        with pytest.raises(errors.ProtocolError):
            broker.connection.ask("assignment")
