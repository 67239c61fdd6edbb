"""The same messages in three places: a topic of ours, ready-made Arrow batches, and a topic of a Kafka broker."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orbitmq
from scripts.benchmark import load
from scripts.benchmark.spark import kafka
from scripts.benchmark.spark.ready_made import DISTINCT, FORMAT, bodies
from scripts.benchmark.spark.session import jars, session
from scripts.benchmark.stage import Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OURS, READY, KAFKA = "ours", "ready-made", "Kafka"
SERVERS = "servers"  # ours, over TCP


@dataclass(frozen=True, slots=True)
class Backlog:
    """`messages` bodies of `body` bytes, each with a key, over load.QUEUES queues. counts: rows of each of OrbitMQ's
    partitions. kafka: address of a broker that has the messages too, or None. servers: of OrbitMQ's gateway, if it has one."""

    store: Path
    topic: str
    body: int
    messages: int
    counts: tuple[int, ...]
    kafka: str | None
    servers: str = ""

    @property
    def places(self) -> tuple[str, ...]:
        return (OURS, READY, KAFKA) if self.kafka else (OURS, READY)

    def frame(self, place: str, columns: Sequence[str]) -> DataFrame:
        """Its rows. A place may have to read more than these columns."""
        read = session().read
        if place == KAFKA:
            options = {"kafka.bootstrap.servers": self.kafka or "", "subscribe": self.topic, "startingOffsets": "earliest"}
            return read.format("kafka").options(**options).load().select(*columns)
        if place == READY:
            return read.format(FORMAT).options(**self._ready_options(columns)).load()
        where = {"servers": self.servers} if place == SERVERS else {"path": str(self.store)}
        return read.format("orbitmq").options(**where, subscribe=self.topic, columns=",".join(columns)).load()

    def _ready_options(self, columns: Sequence[str]) -> dict[str, str]:
        """Gives each partition, and each batch, as many rows as OrbitMQ's source does."""
        from orbitmq.tables.columns import BATCH_BYTES, BATCH_ROWS

        return {
            "columns": ",".join(columns),
            "body": str(self.body),
            "batch": str(max(1, min(BATCH_ROWS, BATCH_BYTES // self.body))),
            "counts": json.dumps(self.counts),
        }


def _partition_counts(store: Path, topic: str) -> tuple[int, ...]:
    from orbitmq.spark.source.batch_reader import OrbitPartition, OrbitReader
    from orbitmq.spark.source.options import parse

    cut = OrbitReader(parse({"path": str(store), "subscribe": topic})).partitions()
    return tuple(sum(piece.count for piece in each.slices) for each in cut if isinstance(each, OrbitPartition))


def send(stage: Stage, topic: str, messages: int, body: int) -> None:
    """Messages with one key each, and a tag; flushed."""
    values = bodies(body)
    with orbitmq.connect(stage.name) as client, client.producer(durability="flushed") as producer:
        for start in range(0, messages, DISTINCT):
            producer.send_batch(topic, values, tags=load.TAG, keys=load.keys_of(start, DISTINCT))


@contextmanager
def backlog(stage: Stage, messages: int, body: int) -> Iterator[Backlog]:
    topic = stage.topic()
    send(stage, topic, messages, body)
    store = stage.folder / "store"
    counts = _partition_counts(store, topic)
    servers = stage.broker.status().listens
    if isinstance(jars(), str):
        yield Backlog(store, topic, body, messages, counts, None, servers)
        return
    with kafka.broker(stage.folder / "kafka", load.QUEUES) as address:
        made = Backlog(store, topic, body, messages, counts, address, servers)
        rows = made.frame(OURS, ("key", "value", "topic", "partition"))
        rows.write.format("kafka").option("kafka.bootstrap.servers", address).save()
        yield made
