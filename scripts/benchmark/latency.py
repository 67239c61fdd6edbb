"""Latency in two forms: from send to receipt, one message at a time; and at a fixed rate, from the intended send time to the
consumer."""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable

from hdrh.histogram import HdrHistogram

import orbitmq
from scripts.benchmark import ceiling, load
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.roles import Role, together
from scripts.benchmark.stage import Stage

RECEIPTS = 20_000
PACED_SECONDS = 3
# The pacer sleeps until this long before a send is due, because a timer wakes it too late, then spins. It does not yield:
# beside a process that computes, a yield costs milliseconds.
SPIN_NS = 150_000
PR_SET_TIMERSLACK = 29
HIGHEST_NS = 10_000_000_000


def histogram() -> HdrHistogram:
    """Nanoseconds up to 10 s, three digits."""
    return HdrHistogram(1, HIGHEST_NS, 3)


def percentiles_us(found: HdrHistogram) -> tuple[float, float]:
    return found.get_value_at_percentile(50) / 1e3, found.get_value_at_percentile(99) / 1e3


def _receipts(name: str, topic: str, messages: int) -> Callable[[], tuple[float, float]]:
    producer = orbitmq.connect(name).producer()

    def act() -> tuple[float, float]:
        found = histogram()
        now, send, bodies = time.monotonic_ns, producer.send, load.SMALL.bodies
        for number in range(messages):
            body = bodies[number % len(bodies)]
            begin = now()
            send(topic, body, tags=load.TAG)
            found.record_value(now() - begin)
        return percentiles_us(found)

    return act


def receipt(stage: Stage) -> tuple[Sample, ...]:
    ((_, _, (p50, p99)),) = together(Role(_receipts, stage.name, stage.topic(), RECEIPTS))
    ceiling_p50, ceiling_p99 = ceiling.latency_us(RECEIPTS, load.SMALL.size, stage.folder)
    return Sample(p50, ceiling_p50), Sample(p99, ceiling_p99)


def _paced(name: str, topic: str, messages: int, rate: int) -> Callable[[], int]:
    producer = orbitmq.connect(name).producer()
    padding = b"x" * (load.SMALL.size - 8)
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)

    def act() -> int:
        now, send, pack = time.monotonic_ns, producer.send_oneway, struct.Struct("<q").pack
        step = 1_000_000_000 // rate
        due = now() + step
        for _ in range(messages):
            while (wait := due - now()) > 0:
                if wait > SPIN_NS:
                    time.sleep((wait - SPIN_NS) / 1e9)
            send(topic, pack(due) + padding, tags=load.TAG)
            due += step
        producer.flush()
        return messages

    return act


def _arrivals(name: str, topic: str, messages: int) -> Callable[[], tuple[float, float]]:
    consumer = orbitmq.connect(name).consumer(None, topics=[topic], start="earliest")

    def act() -> tuple[float, float]:
        found = histogram()
        now, unpack = time.monotonic_ns, struct.Struct("<q").unpack_from
        skip = messages // 20  # the first twentieth warms up
        count = 0
        while count < messages:
            bodies = consumer.poll_bodies(1000, timeout=60)
            arrived = now()
            for body in bodies:
                count += 1
                if count > skip:
                    found.record_value(max(1, arrived - unpack(body)[0]))
        return percentiles_us(found)

    return act


def _end_to_end(stage: Stage, rate: int) -> tuple[Sample, ...]:
    messages = rate * PACED_SECONDS
    topic = stage.topic()
    consumer = Role(_arrivals, stage.name, topic, messages)
    producer = Role(_paced, stage.name, topic, messages, rate)
    consumed, _ = together(consumer, producer)
    p50, p99 = consumed[2]
    return Sample(p50), Sample(p99)


def e2e_1k(stage: Stage) -> tuple[Sample, ...]:
    return _end_to_end(stage, 1_000)


def e2e_100k(stage: Stage) -> tuple[Sample, ...]:
    return _end_to_end(stage, 100_000)


MEASURES = (
    Measure(("receipt_p50_us", "receipt_p99_us"), "us", receipt, targets=("<= 30", "<= 110")),
    Measure(("e2e_1k_p50_us", "e2e_1k_p99_us"), "us", e2e_1k, targets=("<= 60", "<= 130")),
    Measure(("e2e_100k_p50_us", "e2e_100k_p99_us"), "us", e2e_100k),
)
