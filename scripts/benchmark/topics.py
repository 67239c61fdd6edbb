"""Ten processes send messages of 100 bytes to 1, 10 and 100 topics, a thousand at a time: in one atomic batch, or in one call
of send_batch for each topic. The ceiling is plain files, one for each topic, to which the same processes append with one
write for each call."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import orbitmq
from scripts.benchmark import load, processor
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.roles import Role, together
from scripts.benchmark.stage import Stage

SENDERS = 10
TOGETHER = 1000  # messages of one round
ROUNDS = 20  # of each sender
TOPICS = (1, 10, 100)


def _pieces(topics: int) -> list[list[bytes]]:
    """The bodies of one round, by topic."""
    each = TOGETHER // topics
    return [load.SMALL.bodies[at : at + each] for at in range(0, TOGETHER, each)]


def _batches(name: str, topics: list[str]) -> Callable[[], int]:
    producer = orbitmq.connect(name).producer()
    producer.send(topics[0], b"its session is open")
    pieces = list(zip(topics, _pieces(len(topics)), strict=True))

    def act() -> int:
        for _ in range(ROUNDS):
            for topic, bodies in pieces:
                producer.send_batch(topic, bodies, tags=load.TAG)
        return ROUNDS * TOGETHER

    return act


def _atomic(name: str, topics: list[str]) -> Callable[[], int]:
    producer = orbitmq.connect(name).producer()
    producer.send(topics[0], b"its session is open")
    pieces = list(zip(topics, _pieces(len(topics)), strict=True))

    def act() -> int:
        for _ in range(ROUNDS):
            with producer.batch() as batch:
                for topic, bodies in pieces:
                    for body in bodies:
                        batch.send(topic, body, tags=load.TAG)
        return ROUNDS * TOGETHER

    return act


def _files(folder: Path, topics: int) -> Callable[[], int]:
    files = [os.open(folder / f"plain-{n}", os.O_WRONLY | os.O_CREAT | os.O_APPEND) for n in range(topics)]
    pieces = list(zip(files, _pieces(topics), strict=True))

    def act() -> int:
        for _ in range(ROUNDS):
            for file, bodies in pieces:
                os.write(file, b"".join([len(body).to_bytes(4, "big") + body for body in bodies]))
        return ROUNDS * TOGETHER

    return act


def _timed(stage: Stage, roles: list[Role]) -> tuple[float, float]:
    """Messages a second, and the senders' processor time for each, in ns."""
    found = together(*roles, warm=stage.folder)
    messages = sum(count for _, _, count in found)
    seconds = (max(end for _, end, _ in found) - min(begin for begin, _, _ in found)) / 1e9
    return messages / seconds, sum(role.ran_ns for role in roles) / messages


def _measure(sender: Callable[[str, list[str]], Callable[[], int]], count: int) -> Callable[[Stage], tuple[Sample, ...]]:
    def run(stage: Stage) -> tuple[Sample, ...]:
        topics = stage.kept("topics", lambda: nullcontext([stage.topic(1) for _ in range(count)]))
        before = _stored(stage, topics)
        actors = set(processor.actors(stage.broker).values())
        roles = [Role(sender, stage.name, topics) for _ in range(SENDERS)]
        ran = sum(map(processor.ran_ns, actors))
        rate, client = _timed(stage, roles)
        ran = sum(map(processor.ran_ns, actors)) - ran
        stored = _stored(stage, topics) - before - SENDERS
        assert stored == SENDERS * ROUNDS * TOGETHER, f"{stored} messages were stored"
        plain, plain_client = _timed(stage, [Role(_files, stage.folder, count) for _ in range(SENDERS)])
        return Sample(rate, plain), Sample(client, plain_client), Sample(ran / stored)

    return run


def _stored(stage: Stage, topics: list[str]) -> int:
    return sum(queue.max_offset for topic in topics for queue in stage.broker.topic(topic).queues)


MEASURES = tuple(
    Measure(
        (f"work_{kind}_{count}", f"work_{kind}_{count}_client_ns", f"work_{kind}_{count}_broker_ns"), "messages/s",
        _measure(sender, count), runs=5,
    )
    for count in TOPICS
    for kind, sender in (("topics", _batches), ("atomic", _atomic))
)  # fmt: skip
