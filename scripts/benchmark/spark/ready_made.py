"""The ceiling of a Python data source: one Arrow batch of the same shape, made once in each task and handed to Spark again and
again.

It contains what Spark and its Python process cost, and nothing else; the rest is OrbitMQ's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from orbitmq.spark import schema as source_schema
from orbitmq.tables import columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

FORMAT = "ready_made"
DISTINCT = 1000


class ReadyMade(DataSource):
    """Options: columns; body: bytes of a value; batch: rows; counts: JSON, the rows of each partition."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return source_schema.ddl(self.options["columns"].split(","))

    def reader(self, schema: StructType) -> DataSourceReader:
        return ReadyMadeReader(dict(self.options))


class ReadyMadeReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._names = options["columns"].split(",")
        self._body = int(options["body"])
        self._batch = int(options["batch"])
        self._counts: list[int] = json.loads(options["counts"])

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(count) for count in self._counts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        made = made_batch(self._names, self._body, self._batch)
        whole, rest = divmod(partition.value, self._batch)
        for _ in range(whole):
            yield made
        if rest:
            yield made.slice(0, rest)


def bodies(size: int) -> list[bytes]:
    """DISTINCT bodies that cannot be compressed."""
    import random

    randbytes = random.Random(size).randbytes
    return [randbytes(size) for _ in range(DISTINCT)]


def made_batch(names: Sequence[str], body: int, rows: int) -> pa.RecordBatch:
    """A batch with the source's own schema, filled like the benchmark's messages."""
    import pyarrow as pa

    wanted = columns.schema(names)
    values = bodies(body)
    data = {
        "key": lambda: [f"key-{row}".encode() for row in range(rows)],
        "value": lambda: [values[row % len(values)] for row in range(rows)],
        "topic": lambda: ["bench"] * rows,
        "partition": lambda: [0] * rows,
        "offset": lambda: range(rows),
        "timestamp": lambda: [1_700_000_000_000_000 + 1000 * row for row in range(rows)],
    }
    arrays = [pa.array(data[name](), wanted.field(name).type) for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)
