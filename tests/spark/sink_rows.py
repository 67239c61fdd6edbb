"""Rows for the sink's tests, staged without Spark, and those that a store has."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa

from orbitmq.native._types import Message, Reader
from orbitmq.spark.sink import staging
from orbitmq.spark.sink.columns import Shape
from orbitmq.spark.sink.staging import StagedRows, Staging
from orbitmq.tables import extents

PER_BATCH = 1000


def stage(home: Staging, tasks: int, rows: int, *, topic: str = "t", mark: str = "") -> list[StagedRows]:
    """A file for each task. The body of a row is "<task> <row>", followed by `mark`."""
    job = home.job("job")

    def batches(task: int) -> list[pa.RecordBatch]:
        bodies = [f"{task} {row}{mark}" for row in range(rows)]
        return [pa.record_batch({"value": bodies[at : at + PER_BATCH]}) for at in range(0, rows, PER_BATCH)]

    return [staging.stage(batches(task), Shape(topic, 1 << 20), job, f"0-{task}") for task in range(tasks)]


def messages(store: Path, topic: str = "t") -> list[list[Message]]:
    """By queue, in order."""
    snapshot = extents.of_store(store)
    found = []
    for queue, (begin, end) in sorted(snapshot.topics[topic].items()):
        reader = Reader(
            store=str(snapshot.root), log_file_size=snapshot.log_file_size, queue_file_units=snapshot.queue_file_units
        )
        reader.add_offline(topic, queue, begin, end)
        read: list[Message] = []
        while some := reader.messages(1000):
            read += [Message.from_record(each.record()) for each in some]
        reader.close()
        found.append(read)
    return found


def wrong(store: Path, tasks: int, rows: int, topic: str = "t") -> list[str]:
    """What is wrong: each row must be there once, and those of a task in order within a queue."""
    queues = [[bytes(message.body).decode() for message in queue] for queue in messages(store, topic)]
    times = Counter(body for queue in queues for body in queue)
    expected = {f"{task} {row}" for task in range(tasks) for row in range(rows)}
    faults = [f"{body}: {times[body]} times" for body in sorted(expected | set(times)) if times[body] != (body in expected)]
    for number, queue in enumerate(queues):
        last = [-1] * tasks
        for body in queue:
            task, row = map(int, body.split())
            if row < last[task]:
                faults.append(f"queue {number}: {body} behind row {last[task]}")
            last[task] = row
    return faults


def left(home: Staging) -> list[str]:
    """Staged files."""
    return sorted(path.name for path in home.staged.rglob("*.arrow"))
