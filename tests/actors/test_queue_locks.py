"""Goal: a queue is locked for one owner at a time, or read by a member, and stays so until its owner lets it go or its lease
is over, whoever dies. Method: histories of owners, moments and deaths beside a dict, with a clock of the test's own; then real
trees, whose processes are killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import orbitmq
from orbitmq import aio
from orbitmq.actors.groups.queue_locks import LOCKS_MAX, QueueLocks
from orbitmq.actors.sessions.caller import OPERATOR, Caller
from orbitmq.errors import Full, GroupNameError, SettingError, UnknownQueue, UnknownTopic
from orbitmq.shm.topic_table import QueueKey
from orbitmq.store.layout import StoreLayout
from tests.actors.test_group_changes import EACH, after, fill, read
from tests.trees import SMALL, small_broker
from tests.waiting import WATCHDOG_S, until

QUEUES: list[QueueKey] = [("t", 0), ("t", 1), ("u", 0)]
STRANGER = Caller(12345, False)


class Locks(RuleBasedStateMachine):
    """until: by group and queue, the owner and the end of its lease."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.layout = StoreLayout.at(Path(self.folder.name))
        self.layout.own.mkdir()
        self.now = 1_000_000
        self.until: dict[tuple[str, QueueKey], tuple[str, int]] = {}
        # Locks that were given back when their lease was over: the file may still have them, and a successor reads it.
        self.in_file: dict[tuple[str, QueueKey], str] = {}
        self.die()

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule()
    def die(self) -> None:
        self.locks = QueueLocks(self.layout, clock_ns=lambda: self.now * 1_000_000)

    def free(self, group: str, queue: QueueKey, owner: str) -> bool:
        other, until_ms = self.until.get((group, queue), ("", 0))
        return until_ms <= self.now or other == owner

    @rule(
        group=st.sampled_from("gh"),
        owner=st.sampled_from("ab"),
        queues=st.lists(st.sampled_from(QUEUES), max_size=4),
        lease_ms=st.sampled_from([1000, 60_000]),
        taken=st.sets(st.sampled_from(QUEUES), max_size=1),
    )
    def lock(self, group: str, owner: str, queues: list[QueueKey], lease_ms: int, taken: set[QueueKey]) -> None:
        expected = {queue for queue in queues if self.free(group, queue, owner) and queue not in taken}
        granted = self.locks.lock(OPERATOR, group, owner, queues, lease_ms, taken)
        assert set(granted) == expected and len(granted) == len(expected)
        for queue in granted:
            self.until[group, queue] = owner, self.now + lease_ms
            self.in_file.pop((group, queue), None)

    @rule(group=st.sampled_from("gh"), owner=st.sampled_from("ab"), queues=st.lists(st.sampled_from(QUEUES), max_size=4))
    def unlock(self, group: str, owner: str, queues: list[QueueKey]) -> None:
        mine = {queue for queue in queues if self.until.get((group, queue), ("", 0))[0] == owner}
        live = {queue for queue in mine if self.until[group, queue][1] > self.now}
        left = {queue for queue in queues if self.in_file.get((group, queue)) == owner}
        assert live <= set(self.locks.unlock(OPERATOR, group, owner, queues)) <= mine | left
        self.in_file.update({(group, queue): owner for queue in mine - live})
        for queue in mine:
            del self.until[group, queue]

    @rule(ms=st.sampled_from([1, 999, 1000, 59_000]))
    def wait(self, ms: int) -> None:
        self.now += ms

    @rule()
    def expire(self) -> None:
        over = {group for (group, _), (_, until_ms) in self.until.items() if until_ms <= self.now}
        assert over | {group for group, _ in self.in_file} >= self.locks.expire()

    @invariant()
    def the_same_is_locked(self) -> None:
        for group in "gh":
            live = {queue: held[0] for (name, queue), held in self.until.items() if name == group and held[1] > self.now}
            assert {queue: lock.owner for queue, lock in self.locks.held(group).items()} == live


TestLocks = Locks.TestCase


@pytest.fixture
def locks(tmp_path: Path) -> QueueLocks:
    layout = StoreLayout.at(tmp_path)
    layout.own.mkdir()
    return QueueLocks(layout, 10)


def test_another_user_is_another_owner(locks: QueueLocks) -> None:
    assert locks.lock(OPERATOR, "g", "a", QUEUES, 60_000, ()) == QUEUES
    assert locks.lock(STRANGER, "g", "a", QUEUES, 60_000, ()) == []
    assert locks.unlock(STRANGER, "g", "a", QUEUES) == []


def test_how_many_there_may_be(locks: QueueLocks) -> None:
    """A user has its share, and all together the table."""
    many: list[QueueKey] = [("t", queue) for queue in range(LOCKS_MAX)]
    with pytest.raises(Full, match="queue locks"):
        locks.lock(STRANGER, "g", "a", many[: LOCKS_MAX // 10 + 1], 60_000, ())
    assert len(locks.lock(STRANGER, "g", "a", many[: LOCKS_MAX // 10], 60_000, ())) == LOCKS_MAX // 10
    assert len(locks.lock(STRANGER, "g", "a", many[:1], 60_000, ())) == 1, "renewed"
    with pytest.raises(Full, match="16,384"):
        locks.lock(OPERATOR, "h", "a", many, 60_000, ())


@pytest.mark.parametrize("content", [b"", b"{", b'{"queue_locks": {}, "crc": 0}', b"[]"])
def test_a_file_that_says_nothing(tmp_path: Path, content: bytes) -> None:
    layout = StoreLayout.at(tmp_path)
    layout.own.mkdir()
    layout.queue_locks.write_bytes(content)
    assert QueueLocks(layout).held("g") == {}


def test_owners_and_members(tmp_path: Path) -> None:
    """A queue that a member has is not locked, and a locked one goes to no member until it is free."""
    with small_broker(tmp_path) as broker:
        fill(broker)
        with broker.consumer("g", ["t"]) as member:
            assert len(member.assignment) == 2
            assert broker.lock_queues("g", [("t", 0), ("t", 1)], "far") == []
            assert broker.lock_queues("h", [("t", 0)], "far") == [("t", 0)], "another group's"
        until(lambda: not broker.group("g").members, "the member to leave")
        assert broker.lock_queues("g", [("t", 0)], "far") == [("t", 0)]
        assert broker.lock_queues("g", [("t", 0), ("t", 1)], "near", lease=1.0) == [("t", 1)]
        with broker.consumer("g", ["t"]) as member:
            got = {message.queue for message in member.poll_batch(1, WATCHDOG_S)}
            assert got == {1}, "when its lease is over"
            assert broker.unlock_queues("g", [("t", 0), ("t", 1)], "near") == []
            assert broker.unlock_queues("g", [("t", 0)], "far") == [("t", 0)]
            assert len(read(member, 2 * EACH - 1)) == 2 * EACH - 1


@pytest.mark.parametrize("end", ["coordinator", "tree", "stop"])
def test_locks_outlive(tmp_path: Path, end: str) -> None:
    broker = orbitmq.Broker(tmp_path, **SMALL)
    fill(broker)
    assert broker.lock_queues("g", [("t", 0)], "far") == [("t", 0)]
    with after(end, broker, tmp_path) as broker:
        assert broker.lock_queues("g", [("t", 0)], "near") == []
        with broker.consumer("g", ["t"]) as member:
            assert {message.queue for message in member.poll_batch(1000, WATCHDOG_S)} == {1}
        assert broker.lock_queues("g", [("t", 0)], "far") == [("t", 0)], "renewed"


def test_what_is_refused(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 1)
        for queues, error in (([("u", 0)], UnknownTopic), ([("t", 0), ("t", 1)], UnknownQueue)):
            with pytest.raises(error):
                broker.lock_queues("g", queues, "far")
        with pytest.raises(GroupNameError):
            broker.lock_queues("g g", [("t", 0)], "far")
        for owner, lease in (("", 60.0), ("x" * 256, 60.0), ("far", 0.5), ("far", 1e5)):
            with pytest.raises(SettingError):
                broker.lock_queues("g", [("t", 0)], owner, lease=lease)
        assert broker.lock_queues("g", [("t", 0)], "far") == [("t", 0)], "nothing was locked before"

        async def near() -> list[QueueKey]:
            async with aio.connect(broker.name) as client:
                assert await client.unlock_queues("g", [("t", 0)], "near") == []
                return await client.lock_queues("g", [("t", 0)], "near")

        assert asyncio.run(near()) == []
