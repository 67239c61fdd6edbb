"""Transactions of two processes, one after the other in each: a half message, then its commit. Then those of one process, also
beside two and eight that send as fast as they can."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import orbitmq
from scripts.benchmark import checks, load, processor
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.roles import FORK, Role, together
from scripts.benchmark.stage import Stage

SENDERS = 2
CROWD = 8
BESIDE = 5_000  # transactions beside sends


def _transact(name: str, topic: str, transactions: int, durability: str) -> Callable[[], int]:
    producer = orbitmq.connect(name).producer(durability=durability)
    producer.transaction(topic, load.SMALL.bodies[0], tags=load.TAG).rollback()  # its sessions are open

    def act() -> int:
        bodies = load.SMALL.bodies
        for number in range(transactions):
            producer.transaction(topic, bodies[number % len(bodies)], tags=load.TAG).commit()
        return transactions

    return act


def _transactions(durability: str, messages: int) -> Callable[[Stage], tuple[Sample, ...]]:
    def run(stage: Stage) -> tuple[Sample, ...]:
        topic = stage.topic()
        actors = set(processor.actors(stage.broker).values())
        roles = [Role(_transact, stage.name, topic, messages // SENDERS, durability) for _ in range(SENDERS)]
        ran = sum(map(processor.ran_ns, actors))
        found = together(*roles, warm=stage.folder)
        ran = sum(map(processor.ran_ns, actors)) - ran
        seconds = (max(end for _, end, _ in found) - min(begin for begin, _, _ in found)) / 1e9
        committed = sum(queue.max_offset for queue in stage.broker.topic(topic).queues)
        assert committed == messages, f"{committed} of {messages} messages were committed"
        client = sum(role.ran_ns for role in roles)
        return Sample(messages / seconds), Sample(client / messages), Sample(ran / messages)

    return run


def _transact_beside(name: str, topic: str, transactions: int, over: Any) -> Callable[[], float]:
    """Returns the median of microseconds that an end took."""
    producer = orbitmq.connect(name).producer()
    producer.transaction(topic, load.SMALL.bodies[0], tags=load.TAG).rollback()

    def act() -> float:
        took = []
        for number in range(transactions):
            begun = producer.transaction(topic, load.SMALL.bodies[number % len(load.SMALL.bodies)], tags=load.TAG)
            began = time.monotonic_ns()
            begun.commit()
            took.append(time.monotonic_ns() - began)
        over.set()
        return statistics.median(took) / 1000

    return act


def _beside(senders: int, transactions: int = BESIDE) -> Callable[[Stage], tuple[Sample, ...]]:
    def run(stage: Stage) -> tuple[Sample, ...]:
        topic, other, over = stage.topic(), stage.topic(), FORK.Event()
        transacting = Role(_transact_beside, stage.name, topic, transactions, over)
        sending = [Role(checks.send, stage.name, other, over) for _ in range(senders)]
        (begin, end, us), *sent = together(transacting, *sending)
        seconds = (end - begin) / 1e9
        committed = sum(queue.max_offset for queue in stage.broker.topic(topic).queues)
        assert committed == transactions, f"{committed} of {transactions} messages were committed"
        found = Sample(transactions / seconds), Sample(us)
        return (*found, Sample(sum(count for _, _, count in sent) / seconds)) if senders else found

    return run


_TWO = (("work_transactions", "appended", 100_000), ("work_transactions_flushed", "flushed", 4_000))
MEASURES = (
    *(
        Measure(
            (name, f"{name}_client_ns", f"{name}_broker_ns"), "1/s", _transactions(durability, messages),
            durability=durability, runs=3,
        )
        for name, durability, messages in _TWO
    ),
    Measure(("work_transactions_one", "work_transactions_one_end_us"), "1/s", _beside(0), runs=3),
    Measure(
        ("work_transactions_sending", "work_transactions_sending_end_us", "work_transactions_sends"), "1/s", _beside(SENDERS),
        runs=3,
    ),
    Measure(
        ("work_transactions_crowd", "work_transactions_crowd_end_us", "work_transactions_crowd_sends"), "1/s",
        _beside(CROWD, 1_000), runs=3,
    ),
)  # fmt: skip
