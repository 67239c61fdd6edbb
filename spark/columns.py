"""The columns of the data source: how Spark and Arrow know them, and how they come out of a Reader, in whole batches.

    key              binary             the message's keys as stored, one space between them; null without any
    value            binary             the body
    topic            string
    partition        int                queue
    offset           bigint             queue offset
    timestamp        timestamp          when it was stored
    tags             string             null without one
    keys             array<string>      the keys one by one; null without any
    born_timestamp   timestamp          when its producer made it
    physical_offset  bigint             byte of the CommitLog
    flag             int                the producer's

The first six are those of Spark's Kafka source, in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from orbitmq.native._fast import Reader

BATCH_ROWS = 8_192  # a batch of small bodies still lies in the cache when Spark's process sends it on
BATCH_BYTES = 16 << 20  # of bodies in one batch; only a single body may be larger


@dataclass(frozen=True, slots=True)
class Column:
    """sql: Spark's type. source: the column of client.arrow that it is made of. nullable: as it says."""

    sql: str
    source: str
    nullable: bool = False


COLUMNS: dict[str, Column] = {
    "key": Column("binary", "keys", True),
    "value": Column("binary", "body"),
    "topic": Column("string", "topic"),
    "partition": Column("int", "queue"),
    "offset": Column("bigint", "offset"),
    "timestamp": Column("timestamp", "stored"),
    "tags": Column("string", "tags", True),
    "keys": Column("array<string>", "keys", True),
    "born_timestamp": Column("timestamp", "born"),
    "physical_offset": Column("bigint", "physical_offset"),
    "flag": Column("int", "flag"),
}


def ddl(names: Sequence[str]) -> str:
    """Spark's schema of these columns."""
    return ", ".join(f"{name} {COLUMNS[name].sql}{'' if COLUMNS[name].nullable else ' not null'}" for name in names)


def schema(names: Sequence[str]) -> pa.Schema:
    """The same as Spark expects it from Arrow, to the letter: it refuses batches of another one."""
    import pyarrow as pa

    types = {
        "binary": pa.binary(),
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "array<string>": pa.list_(pa.field("element", pa.string())),
    }
    return pa.schema([pa.field(name, types[COLUMNS[name].sql], COLUMNS[name].nullable) for name in names])


def batches(reader: Reader, names: Sequence[str], rows: int = BATCH_ROWS, size: int = BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    """All that the reader has, in batches of at most `rows` rows and, unless one body alone is larger, `size` bytes of
    bodies, so that a task needs the same memory whatever its range.

    Raises: CorruptRecord; StoreError: a file that cannot be mapped.
    """
    import pyarrow as pa

    from orbitmq.client.arrow import record_batch

    wanted = schema(names)
    sources = sorted({COLUMNS[name].source for name in names})
    while True:
        batch = record_batch(reader, rows, sources, body_limit=size)
        if batch.num_rows == 0:
            if not reader.ready():
                return
            continue
        arrays = [_made(name, batch.column(COLUMNS[name].source), wanted.field(name).type) for name in names]
        yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _made(name: str, array: Any, kind: Any) -> Any:
    make = _MAKERS.get(name)
    return make(array, kind) if make else array if array.type.equals(kind) else array.cast(kind)


def _split(array: Any, kind: Any) -> Any:
    """Keys one by one. A producer of another make may have put several spaces between two."""
    import pyarrow.compute as pc

    clean = pc.utf8_trim(array, " ")
    if pc.any(pc.match_substring(clean, "  ")).as_py():
        clean = pc.replace_substring_regex(clean, " +", " ")
    return pc.split_pattern(clean, " ").cast(kind)


_MAKERS: dict[str, Callable[[Any, Any], Any]] = {"keys": _split}
