"""Goal: whatever dies, and whenever: what was acknowledged for certain is not handed out again, nothing else is lost, nobody
gets what another worker has in hand before its time is over, and delivery counts never fall. What fails without a delay is in
the log once as a retry, and what fails in its last try once as a dead letter.

Method: random histories on a real tree (actors/dispatcher.py, actors/work/registry.py), with workers in processes of their own
(client/work/answers.py), against a dict. Workers, actors and the whole tree are killed."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import orbitmq
from tests.actors.remote_worker import RemoteWorker
from tests.trees import SMALL, actors, indexed, kill
from tests.waiting import WATCHDOG_S, dead, until

TOPIC, GROUP = "tasks", "toil"
TRIES = 4
LONG_S, SHORT_S = 3600.0, 0.15
TREES_MAX = 4  # that end in one history; starts cost more than all else, and more of them leave little to happen in between


@dataclass
class State:
    """What is known of one message. holder: number of the worker that has it, if any. done: None: perhaps; also of one that was
    put elsewhere. retried: it is a retry now, which comes when it is due. parted: "retry" and "dead" for each time that it
    certainly became one. place: in the log."""

    holder: int | None = None
    deadline: float = 0.0
    deliveries: int = 0
    place: int = 0
    done: bool | None = False
    retried: bool = False
    parted: list[str] = field(default_factory=list)

    def lose(self) -> None:
        """Its worker has it no more."""
        self.holder = None
        if self.deliveries >= TRIES and self.done is False:
            self.done = None  # it may be dead


class WorkModel(RuleBasedStateMachine):
    key_ordered = False

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="orbitmq-work-", dir="/dev/shm"))
        self.broker = self.started()
        self.broker.create_topic(TOPIC, queues=2)
        self.messages: dict[int, State] = {}
        self.workers: dict[int, RemoteWorker] = {}
        self.born = 0
        self.ended = 0
        self.send(40)
        for _ in range(2):
            self.begin_worker(1000, LONG_S)
        self.take(0, 10, WATCHDOG_S)

    def started(self) -> orbitmq.Broker:
        more: dict[str, Any] = {"restarts": 1_000_000, "offsets_interval_s": 0.05, "timeout": WATCHDOG_S}
        return orbitmq.Broker(self.root / "store", **SMALL, **more)

    # ---- messages and workers

    @rule(count=st.integers(1, 40))
    def send(self, count: int) -> None:
        numbers = range(len(self.messages), len(self.messages) + count)
        receipts = self.stored(list(numbers))
        self.messages |= {number: State(place=each.physical_offset) for number, each in zip(numbers, receipts, strict=True)}

    def stored(self, numbers: list[int]) -> list[orbitmq.Receipt]:
        with self.broker.producer() as producer:
            keys = [self.key(number) for number in numbers]
            return producer.send_batch(TOPIC, [b"%d" % number for number in numbers], keys=keys)

    def key(self, number: int) -> str | None:
        return None

    def handed(self, number: int) -> None:
        """A message is handed out."""

    @precondition(lambda self: len(self.workers) < 3)
    @rule(in_hand=st.sampled_from([1, 5, 1000]), visibility=st.sampled_from([SHORT_S, LONG_S, LONG_S]))
    def begin_worker(self, in_hand: int, visibility: float) -> None:
        worker = RemoteWorker(self.broker.name, GROUP, TOPIC, in_hand=in_hand, visibility=visibility, **self.asked())
        self.born += 1
        self.workers[self.born] = worker

    def asked(self) -> dict[str, Any]:
        return {"max_tries": TRIES, "key_ordered": self.key_ordered}

    def some(self, pick: int) -> tuple[int, RemoteWorker]:
        number = sorted(self.workers)[pick % len(self.workers)]
        return number, self.workers[number]

    @precondition(lambda self: self.workers)
    @rule(pick=st.integers(0, 5), most=st.sampled_from([1, 3, 20, 100]), timeout=st.sampled_from([0.0, 0.02, 0.2]))
    def take(self, pick: int, most: int, timeout: float) -> None:
        who, worker = self.some(pick)
        found = worker.take(most, timeout)
        assert found is not None and len(found) <= most
        now = time.monotonic()
        for number, delivery, deadline in found:
            state = self.messages[number]
            self.handed(number)
            assert state.done is not True or state.retried, f"{number} was acknowledged, and came again"
            state.retried = False
            assert state.holder is None or now >= state.deadline, f"{number} is in two hands"
            assert delivery > state.deliveries, f"{number} came for the {delivery}. time after the {state.deliveries}. one"
            state.holder, state.deadline, state.deliveries, state.done = who, deadline, delivery, False

    @precondition(lambda self: self.workers)
    @rule(
        pick=st.integers(0, 5), count=st.integers(1, 100), where=st.integers(0, 100),
        how=st.sampled_from(["ack", "ack", "ack", "give_back", "nack", "nack", "part", "extend"]),
        delay=st.sampled_from([0.0, 0.03]),
        settled=st.booleans(),
    )  # fmt: skip
    def answer(self, pick: int, count: int, where: int, how: str, delay: float, settled: bool) -> None:
        who, worker = self.some(pick)
        mine = sorted(number for number, state in self.messages.items() if state.holder == who)[where % 20 :][:count]
        if not mine:
            return
        if not settled and how == "ack":
            worker.answer("ack", mine)
            for number in mine:  # a later settled would tell; until then it may be done or not
                self.messages[number].done, self.messages[number].deadline = None, 0.0
                self.messages[number].holder = None
            return
        more = (delay,) if how == "nack" else (LONG_S,) if how == "extend" else ()
        refused = worker.answer(("nack" if how == "part" else how) + "+settled", mine, *more)
        assert refused is not None
        for number in set(mine) - set(refused):
            state = self.messages[number]
            if how == "extend":
                state.deadline = time.monotonic() + LONG_S - 60
                continue
            dies = how in ("nack", "part") and state.deliveries >= TRIES
            state.holder, state.done = None, how in ("ack", "part") or dies
            state.deliveries -= how == "give_back"
            state.retried = how == "part" and not dies
            state.parted += ["dead"] if dies else ["retry"] if how == "part" else []
        for number in set(mine) & set(refused):
            state = self.messages[number]
            assert time.monotonic() >= state.deadline, f"{number} was in hand, and the answer was refused"
            state.lose()

    # ---- deaths

    def let_go(self, who: int) -> None:
        for state in self.messages.values():
            if state.holder == who:
                state.lose()

    @precondition(lambda self: self.workers)
    @rule(pick=st.integers(0, 5), kills=st.booleans())
    def end_worker(self, pick: int, kills: bool) -> None:
        who, worker = self.some(pick)
        (worker.kill if kills else worker.close)()
        del self.workers[who]
        self.let_go(who)

    @rule(name=st.sampled_from(["dispatcher", "dispatcher", "dispatcher", "coordinator", "writer", "reput", "notifier"]))
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
        for who, worker in list(self.workers.items()):
            worker.kill()
            del self.workers[who]
            self.let_go(who)
        self.broker.close()
        self.broker = self.started()

    # ---- the end

    def teardown(self) -> None:
        if not hasattr(self, "broker"):  # it could not begin
            shutil.rmtree(getattr(self, "root", ""), ignore_errors=True)
            return
        try:
            for who, worker in self.workers.items():
                worker.close()
                self.let_go(who)
            self.workers.clear()
            self.finish()
        finally:
            self.broker.close()
            shutil.rmtree(self.root)

    def finish(self) -> None:
        """Everything that is not done comes, and nothing else."""
        if not self.messages:
            return
        last = RemoteWorker(self.broker.name, GROUP, TOPIC, in_hand=1000, visibility=LONG_S, **self.asked())
        came: list[int] = []
        missing = {number for number, state in self.messages.items() if state.done is False}
        deadline = time.monotonic() + WATCHDOG_S
        while missing - set(came):
            assert time.monotonic() < deadline, f"{sorted(missing - set(came))[:20]} are lost"
            found = last.take(100, 1.0)
            assert found is not None
            if not found:  # workers that hung or died may have had it for the last time
                missing -= {number for number, kinds in self.parted().items() if "dead" in kinds}
            some = [number for number, _, _ in found]
            came += some
            assert not [number for number in some if self.messages[number].done is True and not self.messages[number].retried]
            if self.key_ordered:  # others wait for these
                self.finish_some(last, some)
        assert len(came) == len(set(came))
        assert last.answer("ack+settled", [] if self.key_ordered else came) == []

        def drained() -> bool:
            while found := last.take(100, 0.1):  # those that perhaps were done
                seen = [self.messages[number] for number, _, _ in found]
                assert all(state.done is None or state.retried or state.deliveries >= TRIES for state in seen)
                came.extend(number for number, _, _ in found)
                last.answer("ack+settled", [number for number, _, _ in found])
            return not sum(queue.lag_messages for queue in self.broker.group(GROUP).queues)

        until(drained, "the end of the lag")
        last.close()
        self.compare(set(came))

    def finish_some(self, last: RemoteWorker, numbers: list[int]) -> None:
        for number in numbers:
            self.handed(number)
        assert last.answer("ack+settled", numbers) == []
        for number in numbers:
            self.messages[number].done = True

    def compare(self, came: set[int]) -> None:
        """The log has each retry and each dead letter that is certain, none twice, and no other message is lost."""

        def found() -> bool:
            there = self.parted()
            return all(kind in there[number] for number, state in self.messages.items() for kind in state.parted)

        until(found, "every retry and dead letter to be in the log")
        there = self.parted()
        for number, state in self.messages.items():
            for kind in ("retry", "dead"):
                assert there[number].count(kind) >= state.parted.count(kind), f"{number}: {there[number]}, {state}"
            assert state.done is not False or number in came or "dead" in there[number], f"{number} is lost: {state}"

    def parted(self) -> dict[int, list[str]]:
        """By message: "retry" and "dead" for each record of the log that was made of it."""
        indexed(self.broker)
        there: dict[int, list[str]] = {number: [] for number in self.messages}
        sources = set()
        for topic, kind in (("SCHEDULE_TOPIC_XXXX", "retry"), (f"%DLQ%{GROUP}", "dead")):
            if topic not in {each.name for each in self.broker.topics()}:
                continue
            with self.broker.consumer(None, [topic]) as consumer:
                while any(consumer.lag().values()):
                    for each in consumer.poll_batch(1000, WATCHDOG_S):
                        assert each.prepared_offset not in sources, f"{bytes(each)!r} was put there twice"
                        sources.add(each.prepared_offset)
                        there[int(bytes(each))].append(kind)
        return there


TestWorkModel = WorkModel.TestCase
TestWorkModel.settings = hypothesis_settings(max_examples=8, stateful_step_count=30, deadline=None)
