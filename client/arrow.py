"""Arrow record batches out of a Reader: buffers allocated here, filled in C (native/columns.c), no object a message."""

from __future__ import annotations

from collections.abc import Sequence
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
# The place of each in Reader.copy's arguments.
_FIXED = {"topic": 8, "queue": 9, "offset": 10, "physical_offset": 11, "born": 12, "stored": 13, "flag": 14}
_TEXT = {"body": 0, "tags": 2, "keys": 5}


def selected(columns: Sequence[str] | None) -> list[str]:
    """The columns asked for, all for None, in the order of COLUMNS. Raises: SettingError: an unknown one."""
    for name in columns or ():
        if name not in COLUMNS:
            raise SettingError(f"could not read column {name!r}: there are {', '.join(COLUMNS)}", column=name)
    return [name for name in COLUMNS if columns is None or name in columns]


def schema(columns: Sequence[str] | None = None) -> pa.Schema:
    """Of the batches with these columns."""
    return pa.schema([(name, COLUMNS[name][1]) for name in selected(columns)])


def record_batch(reader: Reader, most: int, columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """The reader's next messages, at most `most`, as one batch; one of no rows when there are none.

    keys is the text of KEYS, words separated by one space; bodies that are stored compressed arrive decompressed.
    """
    names = selected(columns)
    selection = 0
    for name in names:
        selection |= COLUMNS[name][0]
    rows, body, tags, keys, tags_null, keys_null, compressed = reader.measure(selection, most)
    plain = reader.peek_bodies(rows) if compressed and "body" in names else None
    sizes = {"body": body, "tags": tags, "keys": keys}
    nulls = {"body": 0, "tags": tags_null, "keys": keys_null}
    addresses = [0] * 15
    buffers: dict[str, list[Any]] = {}

    def allocate(place: int, size: int) -> Any:
        # Arrow pads what it allocates, and an address of 0 would mean "not wanted".
        buffer = pa.allocate_buffer(max(size, 1))
        addresses[place] = buffer.address
        return buffer

    for name in names:
        if name in _TEXT:
            place = _TEXT[name]
            offsets, data = allocate(place, 4 * (rows + 1)), allocate(place + 1, sizes[name])
            validity = None if name == "body" else allocate(place + 2, (rows + 7) // 8)
            buffers[name] = [validity, offsets, data]
        else:
            kind = COLUMNS[name][1]
            width = 4 if name == "topic" else kind.bit_width // 8
            buffers[name] = [None, allocate(_FIXED[name], rows * width)]
    topics = reader.names() if "topic" in names else []
    reader.copy(*addresses)
    arrays = []
    for name in names:
        kind = COLUMNS[name][1]
        if name == "body" and plain is not None:
            arrays.append(pa.array(plain, kind))
        elif name == "topic":
            indices = pa.Array.from_buffers(pa.int32(), rows, buffers[name], 0)
            arrays.append(pa.DictionaryArray.from_arrays(indices, pa.array(topics, pa.string())))
        else:
            arrays.append(pa.Array.from_buffers(kind, rows, buffers[name], nulls.get(name, 0)))
    return pa.RecordBatch.from_arrays(arrays, schema=schema(names))
