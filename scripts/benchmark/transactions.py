"""Transactions of two processes, one after the other in each: a half message, then its commit."""

from __future__ import annotations

from collections.abc import Callable

import orbitmq
from scripts.benchmark import load, processor
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.roles import Role, together
from scripts.benchmark.stage import Stage

SENDERS = 2


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


MEASURES = tuple(
    Measure(
        (name, f"{name}_client_ns", f"{name}_broker_ns"), "1/s", _transactions(durability, messages),
        durability=durability, runs=3,
    )
    for name, durability, messages in (
        ("work_transactions", "appended", 100_000),
        ("work_transactions_flushed", "flushed", 4_000),
    )
)  # fmt: skip
