"""Text columns that are valid UTF-8, as Arrow and Parquet ask for.

Tags, keys and properties hold what a producer sent, and producers of other makes may send any bytes. Spark copes with them;
other readers of Arrow trust a text column, and do what they like with bytes that are none. `valid` puts U+FFFD in their place.
Whole columns are checked in C++; Python objects are made only for a column that has such bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

TEXTS = ("tags", "keys", "headers", "properties")  # what producers send; the other texts are the broker's

def valid(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, with columns in place of those whose text is not valid."""
    import pyarrow as pa

    wrong = {name for name in TEXTS if name in batch.schema.names and not _is_valid(batch.column(name))}
    if not wrong:
        return batch
    columns = [_mended(batch.column(name)) if name in wrong else batch.column(name) for name in batch.schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _is_valid(column: Any) -> bool:
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _mended(column: Any) -> Any:
    import pyarrow as pa

    values = column.cast(_raw(column.type)).to_pylist()
    return pa.array([_text(each, column.type) for each in values], column.type)


def _raw(kind: Any) -> Any:
    """The same type with bytes in place of text."""
    import pyarrow as pa

    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_raw(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_raw(kind.key_type), kind.item_field.with_type(_raw(kind.item_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_raw(field.type)) for field in kind])
    return kind


def _text(value: Any, kind: Any) -> Any:
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_string(kind):
        return value.decode(errors="replace")
    if pa.types.is_list(kind):
        return [_text(each, kind.value_type) for each in value]
    if pa.types.is_map(kind):
        return [(_text(name, kind.key_type), _text(each, kind.item_type)) for name, each in value]
    if pa.types.is_struct(kind):
        return {field.name: _text(value[field.name], field.type) for field in kind}
    return value
