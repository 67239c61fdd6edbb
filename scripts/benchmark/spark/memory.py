"""The memory of its own that a task's Python process needs for one long partition. The mapped log is not counted: it is in the
page cache, and the kernel takes it back when it wants to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from scripts.benchmark import load
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.spark.backlog import send
from scripts.benchmark.spark.session import session
from scripts.benchmark.stage import Stage

FEW, MANY = 1_000_000, 5_000_000
LOOK_S = 0.01


def _descendants(pid: int) -> list[int]:
    """Processes below this one."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has ended
            parents.setdefault(parent, []).append(int(path.name))
    found = [pid]
    for each in found:  # grows while it is walked
        found += parents.get(each, [])
    return found[1:]


def _own_mb(pid: int) -> float:
    """Resident memory of a process that is not a mapped file, MB."""
    try:
        lines = (Path("/proc") / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1000


@contextmanager
def _peak() -> Iterator[list[float]]:
    """The most that any of Spark's Python processes needs while the work runs, MB."""
    java = int(session().sparkContext._jvm.ProcessHandle.current().pid())  # type: ignore[union-attr]
    peak = [0.0]
    over = Event()

    def watch() -> None:
        while True:
            peak[0] = max([peak[0], *map(_own_mb, _descendants(java))])
            if over.wait(LOOK_S):
                return

    thread = Thread(target=watch, name="memory", daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


@contextmanager
def _long_queue(stage: Stage) -> Iterator[str]:
    topic = stage.topic(1)
    send(stage, topic, MANY, load.SMALL.size)
    yield topic


def _needed(stage: Stage, topic: str, rows: int) -> float:
    ending = json.dumps({topic: {"0": rows}})
    options = {"path": str(stage.folder / "store"), "subscribe": topic, "endingOffsets": ending}
    frame = session().read.format("orbitmq").options(**options, maxRecordsPerPartition=str(rows)).load()
    if frame.rdd.getNumPartitions() != 1:
        raise AssertionError(f"{frame.rdd.getNumPartitions()} partitions, expected one")
    with _peak() as peak:
        found = frame.selectExpr("sum(length(value))").collect()[0][0]
    if found != rows * load.SMALL.size:
        raise AssertionError(f"{found} bytes, expected {rows * load.SMALL.size}")
    return peak[0]


def task(stage: Stage) -> tuple[Sample, ...]:
    """All columns of one partition of FEW and then of MANY messages."""
    topic = stage.kept("long", lambda: _long_queue(stage))
    few, many = (_needed(stage, topic, rows) for rows in (FEW, MANY))
    return Sample(few), Sample(many), Sample(many / few)


MEASURES = (
    Measure(
        ("spark_task_1m_memory", "spark_task_5m_memory", "spark_task_5m_share"),
        "MB", task, runs=1, warm=0, durability="flushed", targets=("", "", "<= 1.1 of 1 M"),
    ),
)  # fmt: skip
