"""Goal: in every history of a group each message is delivered at least once, by the member that has its queue; none is
delivered again once its commit has returned; and a member that keeps a queue repeats nothing of it. Method: real consumers over
the real registry, moved at random: they join, read, commit, close, die and hang, time passes, and the coordinator dies at its
crash points."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from orbitmq.client.consumer.consumer import Consumer
from orbitmq.errors import Fenced
from orbitmq.shm.topic_table import QueueKey
from tests.client.registry_broker import RegistryBroker

LIMIT_S = 10.0
REVOKE_S = 3.0
POINTS = ["group_registry_raised", "group_registry_collected", "group_registry_assigned", "group_registry_stored",
          "group_registry_rang", "group_registry_reserved", "commit_files_made", "commit_files_closed"]  # fmt: skip


@dataclass
class Actor:
    """A consumer, and what the model knows about it. hook: what its on_revoked does. orderly: nothing has happened that could
    cost it a queue before its commit."""

    consumer: Consumer
    hook: str
    orderly: bool
    next: dict[tuple[QueueKey, int], int] = field(default_factory=dict)

    @property
    def slot(self) -> int:
        assert self.consumer._handle is not None
        return self.consumer._handle.slot


class RebalanceModel(RuleBasedStateMachine):
    @initialize(queues=st.integers(1, 5))
    def begin(self, queues: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="orbitmq-model-"))
        self.broker = RegistryBroker(self.folder / "store")
        self.slot = self.broker.add_topic("t", queues)
        self.sent = [0] * queues
        self.kept: dict[QueueKey, int] = {}  # commits that have returned
        self.got: set[tuple[QueueKey, int]] = set()
        self.actors: list[Actor] = []
        self.send(3)

    @rule(count=st.integers(1, 4))
    def send(self, count: int) -> None:
        for queue in range(len(self.sent)):
            for _ in range(count):
                self.broker.append("t", self.slot + queue, b"x")
            self.sent[queue] += count
        self.broker.publish()

    @precondition(lambda self: len(self.actors) < 5)
    @rule(
        hook=st.sampled_from(["none", "commit", "nothing"]),
        revoke=st.sampled_from([0.0, REVOKE_S]),
        limit=st.sampled_from([None, LIMIT_S]),
    )
    def join(self, hook: str, revoke: float, limit: float | None) -> None:
        actor: Actor

        def revoked(consumer: Consumer, queues: object) -> None:
            if hook == "commit":
                self.commit_with(actor)

        consumer = Consumer(
            self.broker, "g", ["t"], max_poll_interval=limit, revoke_timeout=revoke,
            on_revoked=None if hook == "none" else revoked, on_lost=lambda consumer, queues: None,
        )  # fmt: skip
        actor = Actor(consumer, hook, orderly=revoke > 0 and hook != "nothing")
        self.actors.append(actor)

    @precondition(lambda self: self.actors)
    @rule(data=st.data(), most=st.integers(1, 6), way=st.sampled_from(["batch", "one", "iterate"]))
    def read(self, data: st.DataObject, most: int, way: str) -> None:
        self.read_with(self.choose(data), most, way)

    @precondition(lambda self: self.actors)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        self.commit_with(self.choose(data))

    @precondition(lambda self: self.actors)
    @rule(data=st.data())
    def read_and_commit(self, data: st.DataObject) -> None:
        actor = self.choose(data)
        self.read_with(actor, 100, "batch")
        self.commit_with(actor)

    @precondition(lambda self: self.actors)
    @rule(data=st.data(), how=st.sampled_from(["close", "die"]))
    def leave(self, data: st.DataObject, how: str) -> None:
        actor = self.choose(data)
        slot = actor.slot
        if how == "close":
            actor.consumer.close()
        self.actors.remove(actor)
        self.broker.client_gone(slot)

    @rule(seconds=st.sampled_from([1.0, REVOKE_S, LIMIT_S + 1]), busy=st.booleans())
    def wait(self, seconds: float, busy: bool) -> None:
        """busy: every member makes a call each second, without reading."""
        for _ in range(int(seconds)):
            for actor in self.actors if busy else ():
                self.broker.called(actor.slot)
            self.broker.pass_time(1.0)
        for actor in self.actors:
            actor.orderly = False

    @rule(point=st.sampled_from(POINTS))
    def coordinator_will_die(self, point: str) -> None:
        self.broker.die_at = point

    @rule()
    def coordinator_dies(self) -> None:
        self.broker.start_coordinator()

    # ---- what they do

    def choose(self, data: st.DataObject) -> Actor:
        return data.draw(st.sampled_from(self.actors))

    def read_with(self, actor: Actor, most: int, way: str) -> None:
        consumer = actor.consumer
        if way == "batch":
            messages = consumer.poll_batch(most, 0)
        elif way == "one":
            messages = [message for message in (consumer.poll(0) for _ in range(most)) if message is not None]
        else:
            messages = []
            if consumer.wait(0):
                for message in consumer:
                    messages.append(message)
                    if len(messages) == most or not consumer._reader.ready():
                        break
        self.broker.called(actor.slot)
        owners = {queue: owner for group in self.broker.registry for queue, owner in group.owners().items()}
        since = {place.key: place.since for place in consumer._assignment.places}
        for message in messages:
            key = (message.topic, message.queue)
            assert owners[key] == f"{actor.slot}.1", "somebody else has it"
            assert message.offset >= self.kept.get(key, 0), "its commit had returned"
            expected = actor.next.get((key, since[key]))
            assert expected in (None, message.offset), "a queue that stays goes on where it was"
            actor.next[key, since[key]] = message.offset + 1
            self.got.add((key, message.offset))

    def commit_with(self, actor: Actor) -> None:
        try:
            actor.consumer.commit()
        except Fenced as error:
            assert not actor.orderly, f"it had all the time: {error}"
        self.broker.called(actor.slot)
        for key, position in actor.consumer._assignment.positions().items():
            assert position >= self.kept.get(key, 0)
            self.kept[key] = position

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        try:
            self.wait(LIMIT_S + 1, busy=False)
            while self.actors:
                actor = self.actors.pop()
                slot = actor.slot
                actor.consumer.close()
                self.broker.client_gone(slot)
            last = Actor(Consumer(self.broker, "g", ["t"]), "none", orderly=True)
            while last.consumer.wait(0):
                self.read_with(last, 1000, "batch")
            assert self.got == {(("t", queue), n) for queue, count in enumerate(self.sent) for n in range(count)}
            self.commit_with(last)
            assert self.broker.ask("committed", group="g") == [["t", queue, count] for queue, count in enumerate(self.sent)]
        finally:
            shutil.rmtree(self.folder)


TestRebalanceModel = RebalanceModel.TestCase
TestRebalanceModel.settings = hypothesis_settings(max_examples=60, stateful_step_count=30, deadline=None)
