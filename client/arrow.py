"""Arrow record batches out of a Reader: buffers filled in C (native/columns.c), no object a message."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from orbitmq.errors import SettingError
from orbitmq.native._fast import Reader

try:
    import pyarrow as pa
except ImportError as error:  # an extra: everything else works without
    raise ImportError(f"{error}; Arrow batches need it: pip install 'orbitmq[spark]'", name=error.name) from error

# Name, bit of enum column, type; in the order in which the columns stand in a batch.
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
}
# Where each stands among the buffers of Reader.columns; texts: offsets, data, then validity.
_FIXED = {"topic": 8, "queue": 9, "offset": 10, "physical_offset": 11, "born": 12, "stored": 13, "flag": 14}
_TEXT = {"body": 0, "tags": 2, "keys": 5}

BODY_LIMIT = (1 << 31) - 1  # what the 32-bit offsets of a column reach


def selected(columns: Sequence[str] | None) -> list[str]:
    """The columns asked for, all for None, in the order of COLUMNS. Raises: SettingError: an unknown one."""
    for name in columns or ():
        if name not in COLUMNS:
            raise SettingError(f"could not read column {name!r}: there are {', '.join(COLUMNS)}", column=name)
    return [name for name in COLUMNS if columns is None or name in columns]


def schema(columns: Sequence[str] | None = None) -> pa.Schema:
    """Of the batches with these columns."""
    return pa.schema([(name, COLUMNS[name][1]) for name in selected(columns)])


@lru_cache(maxsize=16)
def _plan(columns: tuple[str, ...] | None) -> tuple[pa.Schema, int]:
    """The schema, and the bits of enum column."""
    return schema(columns), sum(COLUMNS[name][0] for name in selected(columns))


def record_batch(
    reader: Reader, most: int, columns: Sequence[str] | None = None, *, body_limit: int = BODY_LIMIT
) -> pa.RecordBatch:
    """The reader's next messages as one batch: at most `most`, and of at most `body_limit` bytes of bodies unless one alone is
    larger; a batch of no rows when there are none.

    keys is the text of KEYS, words separated by one space; bodies that are stored compressed arrive decompressed.
    """
    plan, selection = _plan(None if columns is None else tuple(columns))
    rows, tags_null, keys_null, found = reader.columns(selection, most, body_limit)
    buffers = [None if buffer is None else pa.py_buffer(buffer) for buffer in found]
    nulls = {"tags": tags_null, "keys": keys_null}
    arrays = []
    for field in plan:
        if field.name in _TEXT:
            place = _TEXT[field.name]
            validity = None if field.name == "body" else buffers[place + 2]
            pieces = [validity, buffers[place], buffers[place + 1]]
            arrays.append(pa.Array.from_buffers(field.type, rows, pieces, nulls.get(field.name, 0)))
        elif field.name == "topic":
            indices = pa.Array.from_buffers(pa.int32(), rows, [None, buffers[_FIXED["topic"]]], 0)
            arrays.append(pa.DictionaryArray.from_arrays(indices, pa.array(reader.names(), pa.string())))
        else:
            arrays.append(pa.Array.from_buffers(field.type, rows, [None, buffers[_FIXED[field.name]]], 0))
    return pa.RecordBatch.from_arrays(arrays, schema=plan)
