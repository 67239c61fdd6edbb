"""Jobs of a backlog, handed out to two worker processes and acknowledged: in batches, one at a time, by the lowest level."""

from __future__ import annotations

from collections.abc import Callable

import orbitmq
from scripts.benchmark import load, processor
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.roles import Role, together
from scripts.benchmark.stage import Stage
from scripts.benchmark.stream import produce
from scripts.benchmark.work_done import IDLE_S, measured, until

GROUP = "bench"
BATCH = 1000
Act = Callable[[], tuple[int, int]]


def _batches(name: str, topic: str) -> Act:
    worker = orbitmq.connect(name).worker(GROUP, [topic], idle=IDLE_S, signals=False)

    def act() -> tuple[int, int]:
        done = last = 0
        for jobs in worker.batches(BATCH):
            done += len(jobs)
            last = until()
        worker.flush()
        return done, last

    return act


def _each(name: str, topic: str) -> Act:
    worker = orbitmq.connect(name).worker(GROUP, [topic], idle=IDLE_S, signals=False)

    def act() -> tuple[int, int]:
        done = last = 0
        for _ in worker:
            done += 1
            last = until()
        worker.flush()
        return done, last

    return act


def _session(name: str, topic: str) -> Act:
    session = orbitmq.connect(name).work_session(GROUP, [topic])

    def act() -> tuple[int, int]:
        done = last = 0
        while found := session.take(BATCH, IDLE_S):
            session.ack(found)
            done += len(found)
            last = until()
        assert session.settled(60) == [], "the broker has refused acknowledgements"
        return done, last

    return act


def _work(how: Callable[[str, str], Act], messages: int) -> Callable[[Stage], tuple[Sample, ...]]:
    def run(stage: Stage) -> tuple[Sample, ...]:
        topic = stage.topic()
        together(Role(produce, stage.name, topic, load.SMALL, messages, False, "appended"))
        (dispatcher,) = processor.actors(stage.broker, ["dispatcher"]).values()
        found = measured(dispatcher, messages, [(how, stage.name, topic)] * 2, warm=stage.folder)
        left = stage.broker.group(GROUP).lag_messages
        assert left == 0, f"{left} jobs were not acknowledged"
        return tuple(map(Sample, found))

    return run


MEASURES = tuple(
    Measure(
        (name, f"{name}_worker_ns", f"{name}_dispatcher_ns"), "jobs/s", _work(how, messages), targets=(target, "", ""), runs=5
    )
    for name, how, messages, target in (
        ("work_batches", _batches, 1_000_000, ">= 500 k"),
        ("work_each", _each, 200_000, ">= 50 k"),
        ("work_session", _session, 1_000_000, ""),
    )
)
