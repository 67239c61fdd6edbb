"""The columns of a topic as a table: their types, and how they come out of a Reader, in whole batches.

    key              binary             the message's keys as stored, one space between them; null without any
    value            binary             the body
    topic            string
    partition        int                queue
    offset           bigint             queue offset
    timestamp        timestamp          when it was stored
    timestampType    int                1: timestamp is the time of the log
    headers          array<struct<key:string,value:binary>>  the sender's own properties; null without any
    tags             string             null without one
    keys             array<string>      the keys one by one; null without any
    message_id       string             RocketMQ's offset message id
    physical_offset  bigint             byte of the CommitLog
    born_timestamp   timestamp          when its producer made it
    born_host        string             its producer's address and port
    store_host       string             its broker's
    reconsume_times  int                how often it was sent back
    flag             int                the producer's
    properties       map<string,string> all that was sent beside the body

The first eight are those of Spark's Kafka source, in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orbitmq.client.several import Several, not_one_text
from orbitmq.errors import SettingError

if TYPE_CHECKING:
    import pyarrow as pa

    from orbitmq.native._types import Reader

BATCH_ROWS = 8_192  # a batch of small bodies is still in the cache when Spark's process sends it on
BATCH_BYTES = 16 << 20  # of bodies in one batch; only a single body may be larger


@dataclass(frozen=True, slots=True)
class Column:
    """sql: its type, as SQL and Spark write it. source: the column of client.arrow from which it is made, or None. nullable:
    whether it may be null."""

    sql: str
    source: str | None
    nullable: bool = False


COLUMNS: dict[str, Column] = {
    "key": Column("binary", "keys", True),
    "value": Column("binary", "body"),
    "topic": Column("string", "topic"),
    "partition": Column("int", "queue"),
    "offset": Column("bigint", "offset"),
    "timestamp": Column("timestamp", "stored"),
    "timestampType": Column("int", None),
    "headers": Column("array<struct<key:string,value:binary>>", "headers", True),
    "tags": Column("string", "tags", True),
    "keys": Column("array<string>", "keys", True),
    "message_id": Column("string", "message_id"),
    "physical_offset": Column("bigint", "physical_offset"),
    "born_timestamp": Column("timestamp", "born"),
    "born_host": Column("string", "born_host"),
    "store_host": Column("string", "store_host"),
    "reconsume_times": Column("int", "reconsume_times"),
    "flag": Column("int", "flag"),
    "properties": Column("map<string,string>", "properties"),
}
LOG_APPEND_TIME = 1  # as Kafka numbers it


def chosen(columns: Several[str] | None) -> tuple[str, ...]:
    """The columns that an argument `columns` names; None: all but headers. Raises: SettingError."""
    not_one_text(columns, "read columns", "columns")
    if columns is None:
        return tuple(name for name in COLUMNS if name != "headers")
    names = tuple(columns)
    for position, name in enumerate(names):
        why = "there is no such column" if name not in COLUMNS else "it is named twice" if name in names[:position] else None
        if why:
            hint = f"the columns are {', '.join(COLUMNS)}"
            raise SettingError(f"could not read column {name!r}: {why}", hint=hint, setting="columns", value=name)
    if not names:
        text = "could not read: the list of columns is empty"
        raise SettingError(text, hint="name at least one", setting="columns", value=columns)
    return names


def schema(names: Sequence[str]) -> pa.Schema:
    """Arrow's schema of these columns. Spark refuses batches of another one."""
    import pyarrow as pa

    types = {
        "binary": pa.binary(),
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "array<string>": pa.list_(pa.field("element", pa.string())),
        "array<struct<key:string,value:binary>>": pa.list_(
            pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
        ),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }
    return pa.schema([pa.field(name, types[COLUMNS[name].sql], COLUMNS[name].nullable) for name in names])


def batches(reader: Reader, names: Sequence[str], rows: int = BATCH_ROWS, size: int = BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    """Everything the reader has, in batches of at most `rows` rows and `size` bytes of bodies, unless a single body is larger.
    So a task needs the same memory whatever its range is.

    Raises: CorruptRecord; StoreError: a file cannot be mapped.
    """
    import pyarrow as pa

    from orbitmq.client.consumer.arrow import record_batch

    wanted = schema(names)
    # One column has to say how many rows there are, and this one costs nothing.
    sources = sorted({source for name in names if (source := COLUMNS[name].source)}) or ["queue"]
    while True:
        batch = record_batch(reader, rows, sources, body_limit=size)
        if batch.num_rows == 0:
            if not reader.ready():
                return
            continue
        arrays = [_made(name, batch, wanted.field(name).type) for name in names]
        yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _made(name: str, batch: Any, kind: Any) -> Any:
    import pyarrow as pa

    source = COLUMNS[name].source
    if source is None:
        return pa.repeat(pa.scalar(LOG_APPEND_TIME, kind), batch.num_rows)
    array = batch.column(source)
    make = _MAKERS.get(name)
    return make(array, kind) if make else array if array.type.equals(kind) else array.cast(kind)


def _split(array: Any, kind: Any) -> Any:
    """Keys one by one. Another producer may have put several spaces between two, or bytes that are not UTF-8; only functions
    for ASCII accept those."""
    import pyarrow.compute as pc

    clean = pc.ascii_trim(array, " ")
    if pc.any(pc.match_substring(clean, "  ")).as_py():
        clean = pc.replace_substring_regex(clean, " +", " ")
    return pc.split_pattern(clean, " ").cast(kind)


def _key(array: Any, kind: Any) -> Any:
    from orbitmq.tables import carried

    return carried.keys_read(array, kind)


def _headers(array: Any, kind: Any) -> Any:
    from orbitmq.tables import carried

    return carried.headers_read(array, kind)


_MAKERS: dict[str, Callable[[Any, Any], Any]] = {"keys": _split, "key": _key, "headers": _headers}
