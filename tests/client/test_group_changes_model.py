"""Goal: a group is where its last commit or reset has put it, whoever did what when: members read from there, what they got
before a reset cannot be committed after it, a paused group reads nothing, and a deleted one is forgotten. Method: real
consumers over the real registry, moved at random, with a coordinator that dies at its crash points; the model keeps one offset
a queue."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from orbitmq.actors.sessions.caller import OPERATOR
from orbitmq.client.consumer.consumer import Consumer
from orbitmq.errors import Fenced, GroupInUse
from orbitmq.shm.topic_table import QueueKey
from orbitmq.store.commits import settle
from orbitmq.store.config import load_offsets
from tests.client.registry_broker import RegistryBroker

REVOKE_S = 2.0
POINTS = ["group_registry_raised", "group_registry_assigned", "group_registry_stored", "group_registry_rang",
          "group_registry_reset", "group_registry_forgotten", "group_registry_unstored", "group_configs_stored"]  # fmt: skip
DEATHS = st.none() | st.sampled_from(POINTS)  # of the coordinator, in the change that comes next


class Changes(RuleBasedStateMachine):
    @initialize(queues=st.integers(1, 4))
    def begin(self, queues: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="orbitmq-model-"))
        self.broker = RegistryBroker(self.folder / "store")
        self.slot = self.broker.add_topic("t", queues)
        self.sent = [0] * queues
        self.at: dict[QueueKey, int] = {}
        self.paused = False
        self.members: list[Consumer] = []
        self.next: dict[tuple[int, QueueKey, int], int] = {}  # by member's slot, queue, and since when it has the queue
        self.snapshot()
        self.send(3)

    @rule(count=st.integers(1, 4))
    def send(self, count: int) -> None:
        for queue in range(len(self.sent)):
            for _ in range(count):
                self.broker.append("t", self.slot + queue, b"x")
            self.sent[queue] += count
        self.broker.publish()

    @precondition(lambda self: len(self.members) < 3)
    @rule(revoke=st.sampled_from([0.0, REVOKE_S]))
    def join(self, revoke: float) -> None:
        self.members.append(Consumer(self.broker, "g", ["t"], revoke_timeout=revoke, max_poll_interval=None))
        self.share()

    @precondition(lambda self: self.members)
    @rule(data=st.data(), most=st.integers(1, 8))
    def read(self, data: st.DataObject, most: int) -> None:
        self.read_with(data.draw(st.sampled_from(self.members)), most)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        self.commit_with(data.draw(st.sampled_from(self.members)))

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.end(data.draw(st.sampled_from(self.members)))

    @rule(data=st.data(), alone=st.booleans(), die=DEATHS)
    def reset(self, data: st.DataObject, alone: bool, die: str | None) -> None:
        """One queue, or more. alone: if the coordinator dies, so does the client: it is done or not done, as a whole."""
        self.broker.die_at = die
        held = self.held()
        queues = data.draw(st.sets(st.integers(0, len(self.sent) - 1), min_size=1))
        offsets = {("t", queue): data.draw(st.integers(0, self.sent[queue])) for queue in sorted(queues)}
        told = self.broker.done(lambda: self.broker.registry.reset("g", offsets), repeat=not alone)
        if told is not None:
            assert {queue: after for queue, (_, after) in told.items()} == offsets
        elif {queue: self.committed().get(queue) for queue in offsets} != offsets:
            return  # it was not done, as the invariant makes sure
        elif any(held.get(queue, 0) == since for queue, since in self.held().items() if queue in offsets):
            return  # the group was there before, and the members go on with what they have
        self.at |= offsets
        for place in [place for place in self.next if place[1] in offsets]:
            del self.next[place]
        self.share()

    @rule(paused=st.booleans(), alone=st.booleans(), die=DEATHS)
    def pause(self, paused: bool, alone: bool, die: str | None) -> None:
        self.broker.die_at = die
        self.broker.done(lambda: self.broker.registry.pause(OPERATOR, "g", paused), repeat=not alone)
        self.paused = self.broker.registry.paused("g")
        assert alone or self.paused == paused
        self.share()

    def share(self) -> None:
        """Queues that members get now, and in which the group has no offset yet."""
        if self.members and not self.paused:
            for queue in range(len(self.sent)):
                self.at.setdefault(("t", queue), 0)

    @rule(close=st.booleans(), die=DEATHS)
    def delete(self, close: bool, die: str | None) -> None:
        while close and self.members:
            self.end(self.members[-1])
        self.broker.die_at = die
        try:
            self.broker.done(lambda: self.broker.registry.delete("g"))
        except GroupInUse:
            assert self.members
        else:
            assert not self.members
            self.at, self.paused = {}, False

    @rule()
    def snapshot(self) -> None:
        self.taken = (self.broker.offset_table, self.broker.offset_table.take())

    @rule()
    def persist(self) -> None:
        """The snapshot of this coordinator's life, however old it is."""
        table, taken = self.taken
        if table is self.broker.offset_table:
            self.broker.done(lambda: self.broker.registry.persist(taken))

    @rule(seconds=st.sampled_from([1.0, REVOKE_S + 0.5]))
    def wait(self, seconds: float) -> None:
        self.broker.pass_time(seconds)

    @rule()
    def coordinator_dies(self) -> None:
        self.broker.start_coordinator()

    @invariant()
    def the_group_is_where_it_was_put(self) -> None:
        if hasattr(self, "folder"):
            assert self.committed() == self.at
            assert self.broker.registry.paused("g") == self.paused
            assert all(group.paused == self.paused for group in self.broker.registry), "the assignment fits"
            assert self.at or not load_offsets(self.broker.layout), "what is forgotten is in no file"

    # ---- what they do

    def held(self) -> dict[QueueKey, int]:
        """Since when the members have had their queues."""
        group = self.broker.registry.find("g")
        return {} if group is None else {queue: group.since[queue] for queue in group.owners()}

    def committed(self) -> dict[QueueKey, int]:
        return {(topic, queue): offset for topic, queue, offset in self.broker.ask("committed", group="g")}

    def end(self, member: Consumer) -> None:
        self.members.remove(member)
        slot = slot_of(member)
        member.close()
        self.broker.client_gone(slot)

    def read_with(self, member: Consumer, most: int) -> None:
        messages = member.poll_batch(most, 0)
        assert not (self.paused and messages), "the group is paused"
        since = {place.key: place.since for place in member._assignment.places}
        for message in messages:
            key = (message.topic, message.queue)
            place = (slot_of(member), key, since[key])
            assert message.offset == self.next.get(place, self.at[key]), "a queue begins where the group is, and goes on"
            self.next[place] = message.offset + 1

    def commit_with(self, member: Consumer) -> None:
        try:
            member.commit()
        except Fenced as error:
            assert error.queues
        for place in member._assignment.places:
            self.at[place.key] = self.next.get((slot_of(member), place.key, place.since), self.at[place.key])

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        try:
            self.pause(False, alone=False, die=None)
            while self.members:
                self.end(self.members[-1])
            self.join(0.0)
            (last,) = self.members
            expected = sum(self.sent) - sum(self.at.values())
            got = 0
            while messages := last.poll_batch(1000, 0):
                got += len(messages)
            assert got == expected
        finally:
            shutil.rmtree(self.folder)


def slot_of(member: Consumer) -> int:
    assert member._handle is not None
    return member._handle.slot


TestChanges = Changes.TestCase
TestChanges.settings = hypothesis_settings(max_examples=50, stateful_step_count=30, deadline=None)


def test_a_pause_that_was_cut_short(tmp_path: Path) -> None:
    """Coordinator and client die when the file says that the group is paused, and its members still have their queues."""
    broker = RegistryBroker(tmp_path / "store")
    slot = broker.add_topic("t", 1)
    broker.append("t", slot, b"x")
    broker.publish()
    member = Consumer(broker, "g", ["t"])
    for paused, count in ((True, 0), (False, 1)):
        broker.die_at = "group_configs_stored"
        broker.done(lambda paused=paused: broker.registry.pause(OPERATOR, "g", paused), repeat=False)
        assert broker.die_at is None
        assert len(member.poll_batch(5, 0)) == count
    member.close()


def test_a_reset_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that only consumerOffset.json knows is reset in one queue. From then on the coordinator's memory has all of its
    offsets; if there is no room for them, the reset is refused, not forgotten by the successor."""
    broker = RegistryBroker(tmp_path / "store")
    name, queues = "t" * 100, 60
    broker.add_topic(name, queues)
    for queue in range(queues):
        broker.offset_table.set("g", (name, queue), 0)
    broker.offset_table.store(broker.offset_table.take())
    reserve = os.posix_fallocate

    def full(descriptor: int, begin: int, size: int) -> None:
        if size > 4096:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        reserve(descriptor, begin, size)

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        broker.registry.reset("g", {(name, 7): 1})
    assert broker.offset_table.get("g", (name, 7)) == 0


@pytest.mark.parametrize("point", ["group_registry_unstored", "group_registry_forgotten"])
def test_a_deletion_that_was_cut_short(tmp_path: Path, point: str) -> None:
    """All processes die when a group is half deleted. It is as it was, with the reset that the file does not have, or has no
    offsets; never where it was before that reset."""
    broker = RegistryBroker(tmp_path / "store")
    broker.add_topic("t", 1)
    broker.offset_table.set("g", ("t", 0), 5)
    broker.registry.persist(broker.offset_table.take())
    broker.registry.reset("g", {("t", 0): 2})
    broker.die_at = point
    broker.done(lambda: broker.registry.delete("g"), repeat=False)
    assert broker.deaths == 1
    settle(broker.layout)
    assert load_offsets(broker.layout).get(("t", "g"), {}) == ({} if point == "group_registry_forgotten" else {0: 2})


def test_a_deletion_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group is still there, and where it was is written again."""
    broker = RegistryBroker(tmp_path / "store")
    broker.add_topic("t", 1)
    broker.offset_table.set("g", ("t", 0), 5)
    broker.registry.persist(broker.offset_table.take())

    def refused(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    broker.registry.configs.add(OPERATOR, "g")
    with monkeypatch.context() as patch, pytest.raises(OSError, match="Input/output"):
        patch.setattr("orbitmq.actors.groups.group_configs.store_groups", refused)
        broker.registry.delete("g")
    assert broker.registry.names() == ["g"]
    broker.registry.remember()
    settle(broker.layout)
    assert load_offsets(broker.layout)["t", "g"] == {0: 5}


def test_a_group_that_cannot_be_written_down_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If its maker is another user than the broker's, the file alone says whose it is."""

    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    broker = RegistryBroker(tmp_path / "store")
    broker.add_topic("t", 1)
    session = broker.made[broker.open_session(queue_capacity=8).slot, 1]
    session.user = 12_345
    with monkeypatch.context() as patched:
        patched.setattr("orbitmq.actors.groups.group_configs.store_groups", full)
        with pytest.raises(OSError, match="No space"):
            broker.registry.join(session, "g", ["t"], "earliest")
        assert not broker.registry.knows("g") and broker.registry.find("g") is None
    broker.registry.join(session, "g", ["t"], "earliest")
    assert broker.registry.maker("g") == 12_345
