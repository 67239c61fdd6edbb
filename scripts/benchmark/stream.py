"""Throughput from a Python producer through the log to a Python consumer, both live."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Literal

import orbitmq
from scripts.benchmark import ceiling, load
from scripts.benchmark.processor import actors, ran_ns
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.roles import Role, together
from scripts.benchmark.stage import Stage

MESSAGES = 3_000_000
KEYED_MESSAGES = 1_500_000
FLUSHED_MESSAGES = 1_000_000
IN_FLIGHT = 6  # batches whose receipts are not looked at yet


def produce(name: str, topic: str, of: load.Load, messages: int, keyed: bool, durability: str) -> Callable[[], int]:
    """Batches from Python lists; every receipt is looked at."""
    producer = orbitmq.connect(name).producer(durability=durability, message_max=of.message_max)
    keys = [load.keys_of(start, of.batch) for start in range(0, messages, of.batch)] if keyed else None

    def act() -> int:
        pending = []
        for number, bodies in enumerate(of.batches * (messages // len(of.bodies))):
            batch_keys = keys[number] if keys else None
            pending.append(producer.send_batch_async(topic, bodies, tags=load.TAG, keys=batch_keys))
            if len(pending) >= IN_FLIGHT:
                pending.pop(0).result()
        for batch in pending:
            batch.result()
        return messages

    return act


def consume(
    name: str,
    topic: str,
    messages: int,
    start: Literal["earliest", "latest"] = "latest",
    value: Callable[[bytes], int] = zlib.adler32,
) -> Callable[[], tuple[int, int]]:
    """Every body as bytes, counted, and the sum of their values."""
    consumer = orbitmq.connect(name).consumer(None, topics=[topic], start=start)

    def act() -> tuple[int, int]:
        count = total = 0
        while count < messages:
            bodies = consumer.poll_bodies(8192, timeout=60)
            count += len(bodies)
            total += sum(map(value, bodies))
        return count, total

    return act


def run_stream(
    stage: Stage,
    messages: int,
    of: load.Load = load.SMALL,
    keyed: bool = False,
    durability: str = "appended",
    queues: int = load.QUEUES,
) -> tuple[float, float]:
    """Messages a second, from the producer's start to the consumer's last message; and the processor time of all processes
    together, ns a message."""
    expected = (messages, of.checksum(messages))
    topic = stage.kept_topic(queues)
    consumer = Role(consume, stage.name, topic, messages)
    producer = Role(produce, stage.name, topic, of, messages, keyed, durability)
    pids = set(actors(stage.broker).values())  # several may share a process
    before = {pid: ran_ns(pid) for pid in pids}
    consumed, produced = together(consumer, producer, warm=stage.folder)
    ran = consumer.ran_ns + producer.ran_ns + sum(ran_ns(pid) - before[pid] for pid in pids)
    found = consumed[2]
    if found != expected:
        raise AssertionError(f"consumed {found}, expected {expected}")
    return messages / ((consumed[1] - produced[0]) / 1e9), ran / messages


def _beside_ceiling(most: int, of: load.Load, **how: Any) -> Callable[[Stage], tuple[Sample, ...]]:
    """A run of ours, with run_stream's arguments, and then one of the ceiling's."""
    messages = of.messages(most)

    def run(stage: Stage) -> tuple[Sample, ...]:
        rate, ran = run_stream(stage, messages, of, **how)
        return Sample(rate, ceiling.throughput(messages, of.size, of.batch, stage.folder)), Sample(ran)

    return run


STREAM_TARGETS = {"": ">= 3 M and >= 50 % of the ceiling", "_1k": ">= 1.3 M"}
FLUSHED_TARGETS = {"": ">= 1.5 M"}

MEASURES = (
    *(
        Measure(
            ("stream_batch" + of.suffix, f"stream_batch{of.suffix}_cpu_ns"),
            "messages/s",
            _beside_ceiling(MESSAGES, of),
            targets=(STREAM_TARGETS.get(of.suffix, ""), ""),
        )
        for of in load.SIZES
    ),
    Measure(
        ("stream_keyed", "stream_keyed_cpu_ns"),
        "messages/s",
        _beside_ceiling(KEYED_MESSAGES, load.SMALL, keyed=True),
        targets=(">= 1.5 M", ""),
    ),
    *(
        Measure(
            ("stream_batch_flushed" + of.suffix, f"stream_batch_flushed{of.suffix}_cpu_ns"),
            "messages/s",
            _beside_ceiling(FLUSHED_MESSAGES, of, durability="flushed"),
            durability="flushed",
            targets=(FLUSHED_TARGETS.get(of.suffix, ""), ""),
        )
        for of in load.SIZES
    ),
)
