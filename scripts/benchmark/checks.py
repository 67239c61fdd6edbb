"""Check-backs: how many transactions a second one process of a producer group settles that nobody ended, and how late it is
asked about each; on an idle broker, and beside two processes that send as fast as they can."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import orbitmq
from scripts.benchmark import load, processor
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.roles import FORK, Role, together
from scripts.benchmark.stage import Stage

GROUP = "shop"
CROWD = 10_000  # transactions that are due at once
SINGLE = 1_000  # that become due one after the other
SPREAD_S = 2.0
TIMEOUT_S = 4.0  # so long after its begin each is due, and longer than it takes to begin all
SENDERS = 2


def _check(name: str, count: int, over: Any) -> Callable[[], list[float]]:
    """Commits all that it is asked about. Returns how many milliseconds late it was asked, of each."""
    client = orbitmq.connect(name)

    def act() -> list[float]:
        late: list[float] = []
        asked = threading.Event()

        def commit(transaction: orbitmq.OpenTransaction) -> str:
            late.append((time.time() - TIMEOUT_S) * 1000 - transaction.begun_ms)
            if len(late) == count:
                asked.set()
            return "commit"

        with client.check_transactions(GROUP, commit):
            asked.wait(120)
        over.set()
        return late

    return act


def send(name: str, topic: str, over: Any) -> Callable[[], int]:
    """Sends until the event `over` is set."""
    producer = orbitmq.connect(name).producer()

    def act() -> int:
        sent = 0
        while not over.is_set():
            for batch in load.SMALL.batches:
                producer.send_batch(topic, batch, tags=load.TAG)
                sent += len(batch)
        return sent

    return act


def _begin(stage: Stage, topic: str, count: int, spread_s: float) -> None:
    """Transactions that nobody ends, spread over so many seconds."""
    with stage.broker.producer(group=GROUP) as producer:
        began = time.monotonic()
        for number in range(count):
            left = began + number / count * spread_s - time.monotonic()
            if left > 0:
                time.sleep(left)
            producer.transaction(topic, load.SMALL.bodies[number % len(load.SMALL.bodies)], tags=load.TAG)


def _checked(stage: Stage, count: int, spread_s: float, senders: int) -> tuple[list[float], float, float, Role, int]:
    """Lateness of each, seconds of the checks, messages that were sent meanwhile, the checker, and the broker's time."""
    topic, other, over = stage.topic(), stage.topic(), FORK.Event()
    _begin(stage, topic, count, spread_s)
    if not spread_s:
        time.sleep(TIMEOUT_S)  # all are due
    actors = set(processor.actors(stage.broker).values())
    checker = Role(_check, stage.name, count, over)
    roles = [checker, *(Role(send, stage.name, other, over) for _ in range(senders))]
    ran = sum(map(processor.ran_ns, actors))
    (begin, end, late), *sent = together(*roles)
    ran = sum(map(processor.ran_ns, actors)) - ran
    committed = sum(queue.max_offset for queue in stage.broker.topic(topic).queues)
    assert len(late) == committed == count, f"asked about {len(late)} of {count} transactions, {committed} were committed"
    return late, (end - begin) / 1e9, sum(found for _, _, found in sent), checker, ran


def crowd(stage: Stage) -> tuple[Sample, Sample, Sample]:
    _, seconds, _, checker, ran = _checked(stage, CROWD, 0, 0)
    return Sample(CROWD / seconds), Sample(checker.ran_ns / CROWD), Sample(ran / CROWD)


def crowd_sending(stage: Stage) -> tuple[Sample, Sample]:
    _, seconds, sent, _, _ = _checked(stage, CROWD, 0, SENDERS)
    return Sample(CROWD / seconds), Sample(sent / seconds)


def _late(senders: int) -> Callable[[Stage], tuple[Sample, Sample]]:
    def run(stage: Stage) -> tuple[Sample, Sample]:
        late = sorted(_checked(stage, SINGLE, SPREAD_S, senders)[0])
        assert late[0] >= -1, "a transaction was checked before its time"  # both clocks are in whole milliseconds
        return Sample(late[len(late) // 2]), Sample(late[len(late) * 99 // 100])

    return run


SETTINGS = {"transaction_timeout_s": TIMEOUT_S}
MEASURES = (
    Measure(("work_checks", "work_checks_client_ns", "work_checks_broker_ns"), "1/s", crowd, settings=SETTINGS, runs=3),
    Measure(("work_checks_sending", "work_checks_sends"), "1/s", crowd_sending, settings=SETTINGS, runs=3, warm=0),
    Measure(("work_check_late_p50", "work_check_late_p99"), "ms", _late(0), settings=SETTINGS, runs=3, warm=0),
    Measure(
        ("work_check_late_sending_p50", "work_check_late_sending_p99"), "ms", _late(SENDERS),
        settings=SETTINGS, runs=3, warm=0,
    ),
)  # fmt: skip
