"""Arrow record batches out of a Reader. C fills the buffers (native/client/columns.c); no Python object is made per message."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from orbitmq.client.several import Several, not_one_text
from orbitmq.errors import SettingError
from orbitmq.native._types import Reader

try:
    import pyarrow as pa
except ImportError as error:  # an extra: everything else works without it
    raise ImportError(f"{error}; Arrow batches need it: pip install 'orbitmq[arrow]'", name=error.name) from error

PAIR = pa.struct([pa.field("key", pa.string(), False), pa.field("value", pa.binary(), False)])

# Name, bit of enum column, type; in the order of the columns in a batch.
COLUMNS: dict[str, tuple[int, Any]] = {
    "topic": (1 << 3, pa.dictionary(pa.int32(), pa.string())),
    "queue": (1 << 4, pa.int32()),
    "offset": (1 << 5, pa.int64()),
    "physical_offset": (1 << 6, pa.int64()),
    "tags": (1 << 1, pa.string()),
    "keys": (1 << 2, pa.string()),
    "body": (1 << 0, pa.binary()),
    "born": (1 << 7, pa.timestamp("ms", "UTC")),
    "stored": (1 << 8, pa.timestamp("ms", "UTC")),
    "flag": (1 << 9, pa.int32()),
    "reconsume_times": (1 << 10, pa.int32()),
    "message_id": (1 << 11, pa.string()),
    "born_host": (1 << 12, pa.string()),
    "store_host": (1 << 13, pa.string()),
    "headers": (1 << 14, pa.list_(PAIR)),
    "properties": (1 << 15, pa.map_(pa.string(), pa.field("value", pa.string(), False))),
}
USUAL = tuple(COLUMNS)[:10]  # the columns of a batch if none are named
# The place of each column's buffers in Reader.columns. A text has offsets, data, then validity. Pairs have starts, validity,
# then names and values as two texts.
_NUMBERS = ("topic", "queue", "offset", "physical_offset", "born", "stored", "flag", "reconsume_times")
_FIXED = {name: 8 + place for place, name in enumerate(_NUMBERS)}
_TEXT = {"body": 0, "tags": 2, "keys": 5, "message_id": 16, "born_host": 18, "store_host": 20}
_NULLABLE = ("tags", "keys", "headers")
_PAIRS = {"headers": 22, "properties": 28}
_VIEWS_BIT = 1 << 16  # bodies where they are stored, instead of body's own bit
_VIEWS = 34  # views, then the bodies that were decompressed

BODY_LIMIT = (1 << 31) - 1  # largest value of a column's 32-bit offsets


def selected(columns: Several[str] | None) -> list[str]:
    """The requested columns (None: USUAL), in the order of COLUMNS. Raises: SettingError: an unknown column."""
    not_one_text(columns, "read columns", "columns")
    for name in columns or ():
        if name not in COLUMNS:
            text = f"could not read column {name!r}: there is no such column; the columns are {', '.join(COLUMNS)}"
            raise SettingError(text, setting="columns", value=name)
    return [name for name in COLUMNS if name in (USUAL if columns is None else columns)]


def schema(columns: Sequence[str] | None = None, *, views: bool = False) -> pa.Schema:
    """The schema of batches with these columns. views: see record_batch. Raises: SettingError: this pyarrow has no views."""
    in_place = {"body": _view_type()} if views else {}
    return pa.schema([(name, in_place.get(name, COLUMNS[name][1])) for name in selected(columns)])


def _view_type() -> Any:
    """Asked before messages are taken: those of a batch that cannot be made would count as delivered."""
    kind = pa.binary_view()
    nothing = pa.py_buffer(b"")
    try:
        pa.Array.from_buffers(kind, 0, [None, nothing, nothing, nothing], 0)
    except ValueError as error:
        text = f"could not give bodies as views: pyarrow {pa.__version__} makes no arrays of them out of buffers"
        hint = "pip install 'pyarrow>=19', or leave `views` out"
        raise SettingError(text, hint=hint, setting="views", value=True) from error
    return kind


@lru_cache(maxsize=16)
def _plan(columns: tuple[str, ...] | None, views: bool) -> tuple[pa.Schema, int]:
    """The schema, and the bits of enum column."""
    bits = {name: _VIEWS_BIT if views and name == "body" else COLUMNS[name][0] for name in selected(columns)}
    return schema(columns, views=views), sum(bits.values())


def record_batch(
    reader: Reader, most: int, columns: Sequence[str] | None = None, *, body_limit: int = BODY_LIMIT, views: bool = False
) -> pa.RecordBatch:
    """The reader's next messages as one batch: at most `most` messages and `body_limit` bytes of bodies, unless a single
    message is larger. Without messages, a batch of no rows.

    keys is the text of KEYS: words separated by one space. Bodies that are stored compressed are decompressed.
    views: bodies are views of the mapped log, which the batch keeps mapped.
    """
    plan, selection = _plan(None if columns is None else tuple(columns), views)
    rows, *counts, found, stretches = reader.columns(selection, most, body_limit)
    buffers = [None if buffer is None else pa.py_buffer(buffer) for buffer in found]
    nulls = dict(zip(_NULLABLE, counts, strict=True))
    arrays = []
    for field in plan:
        if views and field.name == "body":
            mapped = [pa.foreign_buffer(address, size, pin) for pin, address, size in stretches]
            arrays.append(pa.Array.from_buffers(field.type, rows, [None, *buffers[_VIEWS : _VIEWS + 2], *mapped], 0))
        elif field.name in _TEXT:
            place = _TEXT[field.name]
            validity = buffers[place + 2] if field.name in _NULLABLE else None
            pieces = [validity, buffers[place], buffers[place + 1]]
            arrays.append(pa.Array.from_buffers(field.type, rows, pieces, nulls.get(field.name, 0)))
        elif field.name in _PAIRS:
            place = _PAIRS[field.name]
            arrays.append(_pairs(field.type, rows, buffers[place : place + 6], nulls.get(field.name)))
        elif field.name == "topic":
            indices = pa.Array.from_buffers(pa.int32(), rows, [None, buffers[_FIXED["topic"]]], 0)
            arrays.append(pa.DictionaryArray.from_arrays(indices, pa.array(reader.names(), pa.string())))
        else:
            arrays.append(pa.Array.from_buffers(field.type, rows, [None, buffers[_FIXED[field.name]]], 0))
    return pa.RecordBatch.from_arrays(arrays, schema=plan)


def _pairs(kind: Any, rows: int, buffers: Sequence[Any], nulls: int | None) -> Any:
    """A list or a map of names and values. nulls: which rows are None; None if no row can be."""
    starts, validity, *rest = buffers
    count = len(rest[0]) // 4 - 1
    pair = PAIR if nulls is not None else pa.struct([kind.key_field, kind.item_field])
    names, values = (
        pa.Array.from_buffers(pair.field(place).type, count, [None, *rest[2 * place : 2 * place + 2]], 0) for place in (0, 1)
    )
    pairs = pa.Array.from_buffers(pair, count, [None], 0, children=[names, values])
    return pa.Array.from_buffers(kind, rows, [None if nulls is None else validity, starts], nulls or 0, children=[pairs])
