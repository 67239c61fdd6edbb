"""Delayed messages: how late they come on an idle machine and when many are due at once, and what waiting ones cost."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from random import Random

import orbitmq
from orbitmq.store.delays import DELAY_TOPIC
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.stage import Stage

SINGLE = 100
CROWD = 100_000
CROWD_AHEAD_S = 8  # more than it takes to send them
PENDING = 1_000_000
LEVEL_MS = {1: 1000}


def _late(broker: orbitmq.Client, topic: str, count: int, waited: dict[bytes, int]) -> list[float]:
    """Milliseconds between the due time and the store timestamp of the delivered message, of each."""
    late: list[float] = []
    with broker.consumer(None, [topic]) as consumer:
        while len(late) < count:
            for message in consumer.poll_batch(1000, timeout=60):
                late.append(message.stored_ms - waited[bytes(message)] - LEVEL_MS[1])
    return late


def _waiting(broker: orbitmq.Client, since: int, count: int) -> dict[bytes, int]:
    """Store timestamps of waiting messages by body."""
    found: dict[bytes, int] = {}
    with broker.consumer(None, [DELAY_TOPIC]) as consumer:
        consumer.seek(DELAY_TOPIC, 0, since)
        while len(found) < count:
            batch = consumer.poll_batch(1000, timeout=60)
            found |= {bytes(message): message.stored_ms for message in batch if message.queue == 0}
    return found


def _p(late: list[float], q: float) -> float:
    return sorted(late)[min(len(late) - 1, int(q * len(late)))]


def idle(stage: Stage) -> tuple[Sample, Sample]:
    """One message every 20 ms, a second later each."""
    topic = stage.topic(1)
    with stage.broker.producer() as producer:
        first = producer.send(topic, b"first", delay_level=1).offset
        for n in range(SINGLE):
            time.sleep(0.02)
            producer.send(topic, b"%d" % n, delay_level=1)
    late = _late(stage.broker, topic, SINGLE + 1, _waiting(stage.broker, first, SINGLE + 1))
    assert min(late) >= 0, "a message came early"
    return Sample(_p(late, 0.5)), Sample(_p(late, 0.99))


def crowd(stage: Stage) -> tuple[Sample, Sample]:
    """100,000 messages of 100 bytes that are sent, and so are due, within a second."""
    topic = stage.topic(8)
    bodies = [b"%0100d" % n for n in range(CROWD)]
    with stage.broker.producer() as producer:
        first = producer.send_batch(topic, bodies[:1], delay_level=1)[0].offset
        began = time.monotonic()
        for at in range(1, CROWD, 1000):
            producer.send_batch(topic, bodies[at : at + 1000], delay_level=1)
            left = began + at / CROWD * 0.9 - time.monotonic()
            if left > 0:
                time.sleep(left)
    late = _late(stage.broker, topic, CROWD, _waiting(stage.broker, first, CROWD))
    assert min(late) >= 0, "a message came early"
    return Sample(_p(late, 0.5)), Sample(_p(late, 0.99))


def _late_by_time(broker: orbitmq.Client, topic: str, count: int) -> tuple[Sample, Sample]:
    """How late those came that name their time."""
    late: list[float] = []
    with broker.consumer(None, [topic]) as consumer:
        while len(late) < count:
            batch = consumer.poll_batch(1000, timeout=60)
            late.extend(message.stored_ms - int(message.properties["TIMER_OUT_MS"]) for message in batch)
    assert min(late) >= 0, "a message came early"
    return Sample(_p(late, 0.5)), Sample(_p(late, 0.99))


def timed_idle(stage: Stage) -> tuple[Sample, Sample]:
    """One message every 20 ms, each for a time of its own between 50 ms and a second later."""
    topic = stage.topic(1)
    random = Random(1)
    with stage.broker.producer() as producer:
        for n in range(SINGLE):
            time.sleep(0.02)
            producer.send(topic, b"%d" % n, delay=random.uniform(0.05, 1))
    return _late_by_time(stage.broker, topic, SINGLE)


def timed_crowd(stage: Stage) -> tuple[Sample, Sample]:
    """100,000 messages of 100 bytes that wait, in any order, for times within the same second."""
    topic = stage.topic(8)
    random = Random(1)
    due = time.time() + CROWD_AHEAD_S
    with stage.broker.producer() as producer:
        for n in range(CROWD):
            producer.send_async(topic, b"%0100d" % n, deliver_at=due + random.random())
        producer.flush()
    assert time.time() < due, "they were not sent before the first was due"
    return _late_by_time(stage.broker, topic, CROWD)


def memory(stage: Stage) -> tuple[Sample]:
    """The scheduler's resident memory with a million messages that wait for a level's time."""
    topic = stage.topic(8)
    bodies = [b"%0100d" % n for n in range(10_000)]
    with stage.broker.producer() as producer:
        for _ in range(PENDING // len(bodies)):
            producer.send_batch(topic, bodies, delay_level=18)
    return (_resident(stage),)


def timed_memory(stage: Stage) -> tuple[Sample]:
    """The same, each with a time of its own, in any order, within a year."""
    topic = stage.topic(8)
    random = Random(1)
    with stage.broker.producer() as producer:
        for n in range(PENDING):
            producer.send_async(topic, b"%0100d" % n, delay=random.uniform(3600, 365 * 86400))
        producer.flush()
    return (_resident(stage),)


def _resident(stage: Stage) -> Sample:
    """Once the scheduler has looked at all of them."""
    time.sleep(1)
    (pid,) = (actor.pid for actor in stage.broker.status().actors if actor.name == "scheduler")
    sizes = []
    for _ in range(5):
        time.sleep(0.2)
        status = Path(f"/proc/{pid}/status").read_text()
        sizes.append(int(status.partition("VmRSS:")[2].split()[0]) / 1024)
    return Sample(statistics.median(sizes))


MEASURES = (
    Measure(("delay_idle_p50", "delay_idle_p99"), "ms", idle, targets=("", "<= 5"), runs=3, warm=1),
    Measure(("delay_crowd_p50", "delay_crowd_p99"), "ms", crowd, targets=("", "<= 20"), runs=3, warm=1),
    Measure(("delay_timed_idle_p50", "delay_timed_idle_p99"), "ms", timed_idle, targets=("", "<= 5"), runs=3, warm=1),
    Measure(("delay_timed_crowd_p50", "delay_timed_crowd_p99"), "ms", timed_crowd, targets=("", "<= 20"), runs=3, warm=1),
    Measure(("delay_timed_memory",), "MiB", timed_memory, targets=("< 64",), runs=1, warm=0),
    Measure(("delay_memory",), "MiB", memory, targets=("< 64",), runs=1, warm=0),
)
