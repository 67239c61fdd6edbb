"""What Kafka has and RocketMQ's properties, which are text with unique names, cannot hold: keys that are not text, headers that
are empty, null or not text, and several headers with one name. The sink writes them in an encoding of its own, and the source
decodes it.

    KEYS            "SPARK_KEY:" and the key in base64
    SPARK_HEADERS   all headers of the row in order, a comma before each: name and value in base64, a colon between; only the
                    name if the value is null

Only rows that need it are encoded. Headers of such rows that can be properties are also stored as properties, for readers other
than Spark. This is the one place where Python objects stand for rows, and only in batches with a row that needs it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orbitmq.errors import ColumnError
from orbitmq.shm.property_name import reserved_property

ROW_NAME = "SPARK_ROW"  # the property that names query, batch and row
HEADERS_NAME = "SPARK_HEADERS"
KEY_PREFIX = b"SPARK_KEY:"
_OURS = b"SPARK_"
_SEPARATORS = "[\x01\x02]"

Pair = tuple[bytes, bytes | None]


# ---- the sink ----


def keys_of(key: Any) -> Any:
    """The text of KEYS for each key of a binary column, as large_string; null where the key is."""
    text = _as_text(key)
    if text is not None and not pc.any(_odd_keys(text)).as_py():
        return text
    return pa.array([_key_text(each) for each in key.to_pylist()], pa.large_string())


def _odd_keys(text: Any) -> Any:
    odd = pc.or_(pc.equal(pc.binary_length(text), 0), pc.match_substring_regex(text, _SEPARATORS))
    return pc.or_(odd, pc.starts_with(text, KEY_PREFIX.decode()))


def _key_text(key: bytes | None) -> str | None:
    if key is None:
        return None
    if key and not key.startswith(KEY_PREFIX) and _is_text(key):
        return key.decode()
    return (KEY_PREFIX + b64encode(key)).decode()


def needs_care(headers: Any) -> bool:
    """True if a column of headers has any that cannot be a property, or two with one name in a row."""
    pairs = headers.flatten()
    names, values = (_as_text(pc.struct_field(pairs, place)) for place in (0, 1))
    if names is None or values is None or names.null_count or values.null_count:
        return True
    for text in (names, values):
        bad = pc.or_(pc.equal(pc.binary_length(text), 0), pc.match_substring_regex(text, _SEPARATORS))
        if pc.any(bad).as_py():
            return True
    codes = names.dictionary_encode()
    if any(_is_reserved(name.encode()) for name in codes.dictionary.to_pylist()):
        return True
    rows = pc.cast(pc.list_parent_indices(headers), pa.int64())
    places = pc.add(pc.multiply(rows, len(codes.dictionary) + 1), pc.cast(codes.indices, pa.int64()))
    return bool(pc.count_distinct(places).as_py() < len(places))


def properties_of(headers: Any, counted: Sequence[bytes]) -> Any:
    """The properties string of each row's headers, as large_string; null if the row has none. counted: names that have a
    meaning here too, TAGS or KEYS if no column has it.

    Raises: ColumnError: a header without a name.
    """
    return pa.array([None if row is None else _string(row, counted) for row in _rows(headers)], pa.large_string())


def _string(row: list[Pair], counted: Sequence[bytes]) -> str:
    names = [name for name, _ in row]
    plain = [(name, value) for name, value in row if _can_stand(name, value, counted)]
    # In a map the last one of a name counts.
    parts = [name + b"\1" + value + b"\2" for name, value in dict(plain).items() if value is not None]
    exact = len(plain) == len(row) == len(set(names)) and not any(map(_is_reserved, names))
    if not exact:
        parts.append(HEADERS_NAME.encode() + b"\1" + _encoded(row) + b"\2")
    return b"".join(parts).decode()


def _can_stand(name: bytes, value: bytes | None, counted: Sequence[bytes]) -> bool:
    if not name or not value or not _is_text(name) or not _is_text(value):
        return False
    if name == b"TAGS" and (b"||" in value or value == b"*" or value != value.strip(bytes(range(33)))):
        return False
    return not _is_reserved(name) or name in counted


def _is_reserved(name: bytes) -> bool:
    """True if the source would not show it among the headers, or the broker would refuse it."""
    text = name.decode("utf-8", "surrogateescape")
    return text in (ROW_NAME, HEADERS_NAME) or bool(reserved_property(text))


def _encoded(row: list[Pair]) -> bytes:
    return b"".join(b"," + b64encode(name) + (b"" if value is None else b":" + b64encode(value)) for name, value in row)


def _rows(headers: Any) -> list[list[Pair] | None]:
    pairs = headers.flatten()
    names, values = (pc.cast(pc.struct_field(pairs, place), pa.large_binary()).to_pylist() for place in (0, 1))
    if None in names:
        raise ColumnError("cannot write a row whose headers has a name that is null", column="headers", value=None)
    lengths = pc.list_value_length(headers).to_pylist()
    found: list[list[Pair] | None] = []
    begin = 0
    for length in lengths:
        if length is None:
            found.append(None)
            continue
        found.append(list(zip(names[begin : begin + length], values[begin : begin + length], strict=True)))
        begin += length
    return found


def _as_text(column: Any) -> Any:
    """As large_string; None if some of it is not UTF-8."""
    try:
        return pc.cast(pc.cast(column, pa.large_binary()), pa.large_string())
    except pa.ArrowInvalid:
        return None


def _is_text(value: bytes) -> bool:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return False
    return "\1" not in text and "\2" not in text


# ---- the source ----


def keys_read(keys: Any, kind: Any) -> Any:
    """The column key: KEYS as bytes, with encoded keys decoded."""
    stored = pc.cast(keys, pa.binary())
    if not pc.any(pc.starts_with(stored, KEY_PREFIX)).as_py():
        return stored if stored.type.equals(kind) else stored.cast(kind)
    return pa.array([_key(each) for each in stored.to_pylist()], kind)


def _key(stored: bytes | None) -> bytes | None:
    if stored is None or not stored.startswith(KEY_PREFIX):
        return stored
    decoded = _decoded(stored[len(KEY_PREFIX) :])
    return stored if decoded is None else decoded


def headers_read(headers: Any, kind: Any) -> Any:
    """The column headers without what the sink adds, with encoded headers decoded."""
    flat = headers.flatten()
    names = pc.cast(pc.struct_field(flat, 0), pa.binary())
    if not pc.any(pc.starts_with(names, _OURS)).as_py():
        return headers.cast(kind)
    values = pc.cast(pc.struct_field(flat, 1), pa.binary())
    if pc.any(pc.equal(names, pa.scalar(HEADERS_NAME.encode(), pa.binary()))).as_py():
        return _rebuilt(headers, names.to_pylist(), values.to_pylist(), kind)
    kept = pc.not_equal(names, pa.scalar(ROW_NAME.encode(), pa.binary()))
    ends = pc.cumulative_sum(pc.cast(kept, pa.int32()))
    before = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    lengths = pc.fill_null(pc.list_value_length(headers), 0)
    places = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(pc.cast(lengths, pa.int32()))])
    return _lists(before.take(places), names.filter(kept), values.filter(kept), kind)


def _rebuilt(headers: Any, names: list[bytes], values: list[bytes], kind: Any) -> Any:
    offsets, all_names, all_values = [0], [], []
    begin = 0
    for length in pc.fill_null(pc.list_value_length(headers), 0).to_pylist():
        row: list[Pair] = list(zip(names[begin : begin + length], values[begin : begin + length], strict=True))
        begin += length
        shown = _shown(row)
        all_names += [name for name, _ in shown]
        all_values += [value for _, value in shown]
        offsets.append(len(all_names))
    return _lists(pa.array(offsets, pa.int32()), pa.array(all_names, pa.binary()), pa.array(all_values, pa.binary()), kind)


def _shown(row: list[Pair]) -> list[Pair]:
    stored = dict(row).get(HEADERS_NAME.encode())
    decoded = None if stored is None else _pairs(stored)
    return [pair for pair in row if pair[0] != ROW_NAME.encode()] if decoded is None else decoded


def _pairs(stored: bytes) -> list[Pair] | None:
    """None for text that the sink did not encode."""
    nothing, *each_pair = stored.split(b",")
    if nothing or not each_pair:
        return None
    found: list[Pair] = []
    for each in each_pair:
        name, colon, value = each.partition(b":")
        parts = _decoded(name), _decoded(value) if colon else None
        if parts[0] is None or (colon and parts[1] is None):
            return None
        found.append((parts[0], parts[1]))
    return found


def _decoded(text: bytes) -> bytes | None:
    try:
        found = b64decode(text, validate=True)
    except ValueError:
        return None
    return found if b64encode(found) == text else None


def _lists(offsets: Any, names: Any, values: Any, kind: Any) -> Any:
    """Lists of pairs, null if they are empty. Names may not be UTF-8, so a cast to text would fail."""
    struct = kind.value_type
    text = pa.Array.from_buffers(struct.field(0).type, len(names), names.buffers()) if names.offset == 0 else None
    if text is None:
        whole = pa.concat_arrays([names])
        text = pa.Array.from_buffers(struct.field(0).type, len(whole), whole.buffers())
    pairs = pa.StructArray.from_arrays([text, values.cast(struct.field(1).type)], fields=list(struct))
    empty = pc.equal(pc.subtract(offsets.slice(1), offsets.slice(0, len(offsets) - 1)), 0)
    return pa.ListArray.from_arrays(offsets, pairs, type=kind, mask=empty)
