"""Throughput from a Python producer through the log to a Python consumer, both live."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import orbitmq
from scripts.benchmark import ceiling, load
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.roles import Role, together
from scripts.benchmark.stage import Stage

MESSAGES = 3_000_000
KEYED_MESSAGES = 1_500_000
FLUSHED_MESSAGES = 1_000_000
IN_FLIGHT = 6  # batches whose receipts are not looked at yet


def produce(name: str, topic: str, messages: int, keyed: bool, durability: str) -> Callable[[], int]:
    """Sends batches of 1,000 from a Python list, and looks at every receipt."""
    producer = orbitmq.connect(name).producer(durability=durability)
    keys = [load.keys_of(start, load.BATCH) for start in range(0, messages, load.BATCH)] if keyed else None

    def act() -> int:
        pending = []
        for number in range(messages // load.BATCH):
            batch_keys = keys[number] if keys else None
            pending.append(producer.send_batch_async(topic, load.BODIES, tags=load.TAG, keys=batch_keys))
            if len(pending) >= IN_FLIGHT:
                pending.pop(0).result()
        for batch in pending:
            batch.result()
        return messages

    return act


def consume(name: str, topic: str, messages: int) -> Callable[[], tuple[int, int]]:
    """Reads every body as bytes, counts them and sums their checksums."""
    consumer = orbitmq.connect(name).consumer(None, topics=[topic], start="latest")

    def act() -> tuple[int, int]:
        count = total = 0
        adler32 = zlib.adler32
        while count < messages:
            bodies = consumer.poll_bodies(8192, timeout=60)
            count += len(bodies)
            total += sum(map(adler32, bodies))
        return count, total

    return act


def run_stream(
    stage: Stage, messages: int, keyed: bool = False, durability: str = "appended", queues: int = load.QUEUES
) -> float:
    """Messages a second, from the producer's start to the consumer's last message."""
    topic = stage.kept_topic(queues)
    consumer = Role(consume, stage.name, topic, messages)
    producer = Role(produce, stage.name, topic, messages, keyed, durability)
    consumed, produced = together(consumer, producer, warm=stage.folder)
    found = consumed[2]
    if found != (messages, load.checksum_of(messages)):
        raise AssertionError(f"consumed {found}, expected {(messages, load.checksum_of(messages))}")
    return messages / ((consumed[1] - produced[0]) / 1e9)


def _beside_ceiling(messages: int, **how: Any) -> Callable[[Stage], tuple[Sample, ...]]:
    """A run of OrbitMQ's, with run_stream's arguments, and then one of the ceiling's."""

    def run(stage: Stage) -> tuple[Sample, ...]:
        value = run_stream(stage, messages, **how)
        return (Sample(value, ceiling.throughput(messages, load.BODY_BYTES, load.BATCH, stage.folder)),)

    return run


stream_batch = _beside_ceiling(MESSAGES)
stream_keyed = _beside_ceiling(KEYED_MESSAGES, keyed=True)
stream_batch_flushed = _beside_ceiling(FLUSHED_MESSAGES, durability="flushed")

MEASURES = (
    Measure(("stream_batch",), "messages/s", stream_batch, targets=(">= 3 M and >= 50 % of the ceiling",)),
    Measure(("stream_keyed",), "messages/s", stream_keyed, targets=(">= 1.5 M",)),
    Measure(("stream_batch_flushed",), "messages/s", stream_batch_flushed, durability="flushed", targets=(">= 1.5 M",)),
)
