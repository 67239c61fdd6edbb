"""Goal: a commit counts exactly if its member still had the queue, whichever process dies, and nothing else moves a group's
offsets. Method: the coordinator's parts in this process, over real segments and sessions; members write their words through the
client's own code."""

from __future__ import annotations

import mmap
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.actors.groups.group_registry import GROUPS_MAX, GroupRegistry
from orbitmq.actors.groups.groups import Group
from orbitmq.actors.groups.offsets import Offsets
from orbitmq.actors.sessions.descriptor_store import DescriptorKeeper, DescriptorStore
from orbitmq.actors.sessions.process_id import process_of
from orbitmq.actors.sessions.sessions import Session, Sessions
from orbitmq.actors.supervisor.ground import core_settings
from orbitmq.actors.supervisor.segments import Segments
from orbitmq.actors.topics.topic_registry import TopicRegistry
from orbitmq.actors.tree import Tree
from orbitmq.client.connection.session import SessionHandle
from orbitmq.native._core import ffi, lib
from orbitmq.native._types import PullHold
from orbitmq.store.settings.tree_settings import tree_settings
from tests.trees import SMALL

QUEUES = 4
HELD = 100  # messages in each queue


class Coordinator:
    """One life of the coordinator, without its socket."""

    def __init__(self, tree: Tree, keeper: DescriptorKeeper) -> None:
        self.topics = TopicRegistry(tree.settings.layout, tree.topics)
        self.topics.load()
        self.offsets = Offsets(tree.settings.layout)
        self.offsets.load()
        self.groups = GroupRegistry(tree, self.topics, self.offsets)
        self.groups.load()
        self.sessions = Sessions(tree, keeper, lambda *_: None, lambda *_: None, self.groups.leave)
        self.groups.sessions = self.sessions
        assert self.sessions.restore() == []
        self.groups.resume()

    def committed(self) -> dict[int, int]:
        self.groups.collect()
        return {queue: offset for (_, queue), offset in self.offsets.of_group("g").items()}


class World:
    """A tree without processes, and the members that live on it."""

    def __init__(self, store: Path) -> None:
        self.settings = tree_settings(str(store), SMALL)
        self.settings.layout.open(self.settings.files)
        generation = int.from_bytes(os.urandom(3), "big") + 1
        self.segments = Segments(self.settings, generation, core_settings(self.settings))
        self.tree = self.segments.tree(self.settings, os.getpid())
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.keeper = DescriptorKeeper(theirs)
        self.line = theirs
        self.store = DescriptorStore()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()
        self.coordinator = Coordinator(self.tree, self.keeper)
        self.fill("t", QUEUES)

    def fill(self, topic: str, queues: int) -> None:
        """The topic with messages in every queue."""
        made = self.coordinator.topics.create(topic, queues)
        for queue in range(queues):
            lib.queue_recovered(self.tree.topics, made.first_slot + queue, 0, HELD, 0)

    def open_session(self) -> Session:
        pidfd = os.pidfd_open(os.getpid())
        try:
            myself = process_of(os.getpid(), pidfd)
            assert myself is not None
            sizes = {"window": 0, "sq_capacity": 0, "queue_capacity": 64, "message_max": 0}
            session, memfd = self.coordinator.sessions.open(myself, pidfd, **sizes)
            os.close(memfd)
            assert self.coordinator.sessions.offer(session)
            return session
        finally:
            os.close(pidfd)

    def coordinator_dies(self) -> None:
        self.coordinator = Coordinator(self.tree, self.keeper)

    def close(self) -> None:
        self.line.close()
        self.thread.join()
        self.segments.remove()

    def _serve(self) -> None:
        while self.store.serve(self.ours):
            pass


class Member:
    def __init__(self, world: World, start: str = "earliest") -> None:
        self.world = world
        self.session = world.open_session()
        shape = self.session.shape
        tree = world.tree
        handle = SessionHandle(
            address=int(ffi.cast("uintptr_t", self.session.pointer)),
            size=int(lib.session_size(shape)),
            control_address=int(ffi.cast("uintptr_t", tree.control)),
            topics_address=int(ffi.cast("uintptr_t", tree.topics)),
            wake_address=int(ffi.cast("uintptr_t", tree.wake)),
            supervisor_fd=-1,
            slot=shape.slot,
            epoch=shape.epoch,
            window=0,
            sq_capacity=0,
            message_max=shape.message_max,
            queue_capacity=64,
            pid=os.getpid(),
            generation=tree.generation,
            close=lambda: None,
        )
        self.hold = PullHold(handle)
        answer = world.coordinator.groups.join(self.session, "g", ["t"], start)
        words = world.coordinator.groups.words_descriptor(self.session)
        self.hold.words(mmap.mmap(words, 0))
        os.close(words)
        self._take(answer)

    def refresh(self) -> None:
        self._take(self.world.coordinator.groups.assignment(self.session, "g"))

    def commit(self, offset: int) -> bool:
        """Commits the same offset in each of its queues; True if it counts."""
        return self.hold.commit([offset] * len(self.queues))

    def _take(self, answer: dict[str, Any]) -> None:
        self.queues = [queue for _, queue, _, _ in answer["queues"]]
        self.starts = {queue: start for _, queue, _, start in answer["queues"]}
        self.hold.join(answer["group"], answer["epoch"])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_commit_counts(world: World) -> None:
    member = Member(world)
    assert world.coordinator.committed() == dict.fromkeys(range(QUEUES), 0)
    assert member.commit(7)
    assert world.coordinator.committed() == dict.fromkeys(range(QUEUES), 7)
    assert member.commit(3), "going back is a commit like any other"
    assert world.coordinator.committed() == dict.fromkeys(range(QUEUES), 3)


def test_past_the_end_counts_nothing(world: World) -> None:
    member = Member(world)
    member.commit(HELD)
    member.commit(HELD + 1)
    assert set(world.coordinator.committed().values()) <= {0, HELD}
    member.commit(HELD)
    assert set(world.coordinator.committed().values()) == {HELD}


def test_fenced_commit_does_not_count(world: World) -> None:
    """The first member commits, a second joins, the first commits again without looking: the second begins at the first commit,
    and the late one changes nothing."""
    first = Member(world)
    assert first.commit(10)
    second = Member(world)
    assert second.starts == dict.fromkeys(second.queues, 10)
    assert not first.commit(20)
    assert set(world.coordinator.committed().values()) == {10}
    first.refresh()
    assert sorted(first.queues + second.queues) == list(range(QUEUES))
    # Words of the epoch before are in places where the new assignment has others; they do not count.
    assert set(world.coordinator.committed().values()) == {10}
    assert first.commit(30)
    assert world.coordinator.committed() == {queue: 30 if queue in first.queues else 10 for queue in range(QUEUES)}


def test_last_commit_of_a_closed_session_counts(world: World) -> None:
    first, second = Member(world), Member(world)
    first.refresh()
    assert first.commit(40)
    world.coordinator.sessions.close(first.session)
    second.refresh()
    assert second.queues == list(range(QUEUES))
    assert {queue for queue, start in second.starts.items() if start == 40} == set(first.queues)


def test_latest_begins_once(world: World) -> None:
    """A group that starts at the end does so once: what comes afterwards is not skipped by the next member, nor in a new
    queue."""
    first = Member(world, start="latest")
    assert first.starts == dict.fromkeys(range(QUEUES), HELD)
    topic = world.coordinator.topics.get("t")
    for queue in range(QUEUES):
        lib.queue_recovered(world.tree.topics, topic.first_slot + queue, 0, HELD + 50, 0)
    second = Member(world, start="latest")
    assert second.starts == dict.fromkeys(second.queues, HELD)
    world.fill("t", QUEUES + 1)
    world.coordinator.groups.topic_changed("t")
    second.refresh()
    first.refresh()
    assert (first.starts | second.starts)[QUEUES] == 0


def test_epoch_never_looks_like_no_commit(world: World) -> None:
    """Offset words contain the low 16 bits of an epoch, and 0 there means none."""
    while lib.group_raise_epoch(world.tree.control, 0) < 0xFFFE:
        pass
    member = Member(world)
    assert lib.group_epoch(world.tree.control, 0) == 0xFFFF
    Member(world)
    assert lib.group_epoch(world.tree.control, 0) == 0x10001
    member.refresh()
    assert member.commit(5)
    assert set(world.coordinator.committed()[queue] for queue in member.queues) == {5}


def test_successor_knows_what_was_never_written(world: World) -> None:
    """Commits since the last write are in the sessions; those of members that have gone are in the groups' file."""
    gone, stays = Member(world), Member(world)
    gone.refresh()
    assert gone.commit(11)
    world.coordinator.sessions.close(gone.session)
    stays.refresh()
    only_stays = set(stays.queues) - set(gone.queues)
    world.coordinator_dies()
    assert world.coordinator.committed() == {queue: 0 if queue in only_stays else 11 for queue in range(QUEUES)}
    assert stays.hold.current()
    assert stays.commit(12)
    world.coordinator_dies()
    assert world.coordinator.committed() == dict.fromkeys(range(QUEUES), 12)
    assert stays.hold.current(), "nobody's epoch moved"


def test_rebalance_cut_short(world: World) -> None:
    """The coordinator dies between raising the epoch and writing the assignment: the words of the epoch before still count."""
    member = Member(world)
    assert member.commit(21)
    raised = lib.group_raise_epoch(world.tree.control, 0)
    assert not member.commit(22)
    world.coordinator_dies()
    assert lib.group_epoch(world.tree.control, 0) > raised
    assert not member.hold.current()
    member.refresh()
    # The late commit's words carry the epoch that its member knew, and were there before anybody read them.
    assert set(member.starts.values()) in ({21}, {22})


def test_the_file_comes_back(world: World) -> None:
    """As it is, because recovery has lowered what points past the end of a queue. In a store that is opened for reading only it
    has not, so the offset is lowered here."""
    offsets = world.coordinator.offsets
    offsets.set("g", ("t", 0), 5)
    offsets.set("g", ("t", 1), HELD + 9)
    offsets.set("other", ("unknown", 3), 77)
    world.coordinator.groups.persist(offsets.take())
    for whole, end in ((None, HELD + 9), (world.coordinator.topics, HELD)):
        fresh = Offsets(world.settings.layout)
        fresh.load(whole)
        assert fresh.of_group("g") == {("t", 0): 5, ("t", 1): end}
        assert fresh.of_group("other") == {("unknown", 3): 77}
    text = (world.settings.layout.config / "consumerOffset.json").read_text()
    assert '"t@g":{' in text and "0:5" in text, "RocketMQ's keys are bare numbers"


def test_full_table_of_groups_reuses_empty_ones(world: World) -> None:
    """Groups without members give up their place; their offsets stay."""
    member = Member(world)
    assert member.commit(9)
    groups = world.coordinator.groups
    groups.leave(member.session)
    for index in range(1, GROUPS_MAX):
        groups._groups[f"filler-{index}"] = Group(f"filler-{index}", index)
    other = world.open_session()
    answer = groups.join(other, "newcomer", ["t"], "earliest")
    assert answer["group"] == 0
    assert world.coordinator.committed() == dict.fromkeys(range(QUEUES), 9)
    answer = groups.join(member.session, "g", ["t"], "earliest")
    assert {start for _, _, _, start in answer["queues"]} == {9}
