"""Goal: whatever dies, a group with workers is where its last reset has put it: what lies before never comes, nothing behind is
lost, and what was acknowledged for certain since then is not handed out again. Method: random histories on a real tree against
a dict; dispatcher, coordinator and the whole tree are killed."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import orbitmq
from orbitmq.client.work.handed import HandOut
from tests.trees import SMALL, actors, kill
from tests.waiting import WATCHDOG_S, dead, until

QUEUES = 2
TREES_MAX = 4  # that end in one history; starts cost more than all else, and more of them leave little to happen in between
Place = tuple[int, int]  # queue, offset


def place_of(hand_out: HandOut) -> Place:
    return hand_out.message.queue, hand_out.message.offset


class ResetModel(RuleBasedStateMachine):
    @initialize(key_ordered=st.booleans())
    def begin(self, key_ordered: bool) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="orbitmq-reset-", dir="/dev/shm"))
        self.key_ordered = key_ordered
        self.sent = [0] * QUEUES
        self.point = [0] * QUEUES  # where the last reset has put it
        self.done: set[Place] = set()  # acknowledged for certain, since then
        self.ended = 0
        self.start()
        self.broker.create_topic("t", QUEUES)
        self.work()
        self.send(20, 0)
        self.send(20, 1)

    def start(self) -> None:
        self.broker = orbitmq.Broker(self.root / "store", **SMALL, restarts=1_000_000, offsets_interval_s=0.05)

    def work(self) -> None:
        self.worker = self.broker.work_session("g", ["t"], in_hand=1000, key_ordered=self.key_ordered)
        self.hand: list[HandOut] = []

    @rule(count=st.integers(1, 20), queue=st.integers(0, QUEUES - 1))
    def send(self, count: int, queue: int) -> None:
        numbers = range(self.sent[queue], self.sent[queue] + count)
        with self.broker.producer() as producer:
            producer.send_batch("t", [b"x"] * count, queue=queue, keys=[f"{number % 5}" for number in numbers])
        self.sent[queue] += count

    @rule(most=st.sampled_from([1, 5, 100]), timeout=st.sampled_from([0.0, 0.02, 0.2]))
    def take(self, most: int, timeout: float) -> None:
        """Also what was on its way before a reset."""
        self.hand += self.worker.take(most, timeout)

    @rule(where=st.integers(0, 50), count=st.integers(1, 50))
    def ack(self, where: int, count: int) -> None:
        """What is accepted counts; of what was in hand before a reset, nothing is, unless it was handed out again."""
        some = self.hand[where:][:count]
        self.hand = [each for each in self.hand if each not in some]
        self.worker.ack(some)
        refused = set(map(id, self.worker.settled(WATCHDOG_S)))
        accepted = {place_of(each) for each in some if id(each) not in refused}
        assert not [each for each in accepted if each[1] < self.point[each[0]]], "what lies before the reset was accepted"
        self.done |= accepted

    @rule(queue=st.none() | st.integers(0, QUEUES - 1), to=st.sampled_from(["earliest", "latest"]) | st.integers(0, 20))
    def reset(self, queue: int | None, to: str | int) -> None:
        for move in self.broker.reset_group("g", to, topic="t", queue=queue):
            self.point[move.queue] = move.after
            self.done = {each for each in self.done if each[0] != move.queue}

    @rule(name=st.sampled_from(["dispatcher", "dispatcher", "coordinator"]))
    def kill_actor(self, name: str) -> None:
        before = kill(self.broker, name).pid
        until(lambda: actors(self.broker)[name].pid not in (0, before), f"the next {name}")

    @precondition(lambda self: self.ended < TREES_MAX)
    @rule(stops=st.booleans())
    def end_tree(self, stops: bool) -> None:
        self.ended += 1
        if stops:
            self.broker.stop_broker()
        else:
            os.kill(self.broker.pid, signal.SIGKILL)
            until(lambda: dead(self.broker.pid), "the death of the broker")
        self.broker.close()
        self.start()
        self.work()

    def teardown(self) -> None:
        if not hasattr(self, "broker"):  # it could not begin
            shutil.rmtree(getattr(self, "root", ""), ignore_errors=True)
            return
        try:
            self.worker.close()
            self.work()
            wanted = {(queue, at) for queue in range(QUEUES) for at in range(self.point[queue], self.sent[queue])} - self.done
            came: set[Place] = set()

            def all_came() -> bool:
                found = self.worker.take(100, 0.1)
                came.update(map(place_of, found))
                self.worker.ack(found)
                assert self.worker.settled(WATCHDOG_S) == []
                return wanted <= came

            until(all_came, "everything behind the last reset")
            while found := self.worker.take(100, 0.05):
                came.update(map(place_of, found))
                self.worker.ack(found)
            assert came == wanted
            self.worker.close()
        finally:
            self.broker.close()
            shutil.rmtree(self.root)


TestResetModel = ResetModel.TestCase
TestResetModel.settings = hypothesis_settings(max_examples=8, stateful_step_count=25, deadline=None)
