"""Consume, transform, produce, of one process: messages of one topic go to another one, in atomic batches of 100. Exactly once,
the batches commit the offsets too; beside it, a plain commit follows each batch, which is at least once."""

from __future__ import annotations

from collections.abc import Callable

import orbitmq
from scripts.benchmark import load, processor
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.roles import Role, together
from scripts.benchmark.stage import Stage

BATCH = 100
MESSAGES = 200_000


def _pass_on(name: str, source: str, target: str, exact: bool) -> Callable[[], int]:
    client = orbitmq.connect(name)
    producer, consumer = client.producer(), client.consumer("exact" if exact else "plain", [source])
    passed = 0

    def act() -> int:
        nonlocal passed
        while passed < MESSAGES:
            bodies = consumer.poll_bodies(BATCH)
            with producer.batch() as batch:
                if exact:
                    batch.commit(consumer)
                for body in bodies:
                    batch.send(target, body)
            if not exact:
                consumer.commit()
            passed += len(bodies)
        return passed

    return act


def _passing(exact: bool) -> Callable[[Stage], tuple[Sample, ...]]:
    def run(stage: Stage) -> tuple[Sample, ...]:
        source, target = stage.topic(), stage.topic()
        with stage.broker.producer() as producer:
            bodies = [load.SMALL.bodies[n % len(load.SMALL.bodies)] for n in range(1000)]
            for _ in range(MESSAGES // len(bodies)):
                producer.send_batch(source, bodies)
        actors = set(processor.actors(stage.broker).values())
        role = Role(_pass_on, stage.name, source, target, exact)
        ran = sum(map(processor.ran_ns, actors))
        ((begin, end, _),) = together(role, warm=stage.folder)
        ran = sum(map(processor.ran_ns, actors)) - ran
        stored = sum(queue.max_offset for queue in stage.broker.topic(target).queues)
        assert stored == MESSAGES, f"{stored} of {MESSAGES} messages were passed on"
        return Sample(MESSAGES / ((end - begin) / 1e9)), Sample(role.ran_ns / MESSAGES), Sample(ran / MESSAGES)

    return run


MEASURES = tuple(
    Measure((name, f"{name}_client_ns", f"{name}_broker_ns"), "1/s", _passing(exact), runs=3)
    for name, exact in (("work_exact", True), ("work_exact_plain", False))
)
