"""Goal: readers of Arrow and Parquet get valid UTF-8, whatever producers sent, and valid text as it is. Method: columns of
random bytes against Python's own decoder; and a store with such messages, read by other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import orbitmq
from orbitmq.tables.columns import COLUMNS, schema
from orbitmq.tables.valid_text import valid
from tests.native.composed_store import ComposedStore
from tests.tables.exporting import export_here
from tests.tables.stored_topics import StoredTopics

TEXT = st.binary(max_size=6) | st.sampled_from(["", "a", "\u00e4", "\U0001f600"]).map(str.encode)
PAIRS = st.lists(st.tuples(TEXT, TEXT), max_size=3)
ROW = st.tuples(st.none() | TEXT, st.none() | st.lists(TEXT, max_size=3), PAIRS, st.none() | PAIRS, TEXT)
NAMES = ("tags", "keys", "properties", "headers", "value")


def told(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode(errors="replace")


def unchecked(values: list[Any], kind: pa.DataType) -> pa.Array:
    """A column of bytes, called text."""
    raw = {"tags": pa.binary(), "keys": pa.list_(pa.binary()), "properties": pa.map_(pa.binary(), pa.binary())}
    raw |= {"headers": pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())])), "value": pa.binary()}
    name = next(name for name in NAMES if schema([name]).field(0).type == kind)
    array = pa.array(values, raw[name])
    text, offsets = pa.string(), array.buffers()
    if name == "tags":
        return pa.Array.from_buffers(text, len(array), offsets)
    if name == "value":
        return array
    if name == "keys":
        inner = array.values
        return pa.Array.from_buffers(
            kind, len(array), array.buffers()[:2], children=[pa.Array.from_buffers(text, len(inner), inner.buffers())]
        )
    pairs = (array.keys, array.items) if name == "properties" else (array.values.field(0), array.values.field(1))
    kinds = (text, text) if name == "properties" else (text, pa.binary())
    parts = [pa.Array.from_buffers(own, len(part), part.buffers()) for own, part in zip(kinds, pairs, strict=True)]
    inner_kind = pa.struct([kind.key_field, kind.item_field]) if name == "properties" else kind.value_type
    struct = pa.Array.from_buffers(inner_kind, len(parts[0]), [None], children=parts)
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], children=[struct])


@given(st.lists(ROW, max_size=8))
def test_as_python_decodes_it(rows: list[tuple[Any, ...]]) -> None:
    wanted = schema(NAMES)
    columns = [
        [row[place] if name != "headers" or row[place] is None else [{"key": key, "value": value} for key, value in row[place]]
         for row in rows]
        for place, name in enumerate(NAMES)
    ]  # fmt: skip
    arrays = [unchecked(values, field.type) for values, field in zip(columns, wanted, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=wanted)
    found = valid(batch)
    found.validate(full=True)
    assert found.schema == wanted
    assert found.column("tags").to_pylist() == [told(row[0]) for row in rows]
    assert found.column("keys").to_pylist() == [None if row[1] is None else [told(each) for each in row[1]] for row in rows]
    assert found.column("properties").to_pylist() == [[(told(key), told(value)) for key, value in row[2]] for row in rows]
    assert found.column("headers").to_pylist() == [
        None if row[3] is None else [{"key": told(key), "value": value} for key, value in row[3]] for row in rows
    ]
    assert found.column("value").to_pylist() == [row[4] for row in rows]
    assert valid(found) is found


class Bytes(bytes):
    """Properties as they are stored, in place of a mapping."""

    def get(self, *_: object) -> str:
        return ""


@pytest.fixture
def strange(tmp_path: Path) -> StoredTopics:
    """Messages whose tag, key and properties are not text, among others."""
    stored = StoredTopics(tmp_path / "store")
    stored.add("t", 1)
    store: ComposedStore = stored._store
    for number in range(10):
        odd = b"" if number % 2 else b"\xff"
        named = b"TAGS\1t%s\2KEYS\1k%s k%d\2a%s\1b%s\2" % (odd, odd, number, odd, odd)
        store.append("t", 0, b"%d\xff" % number, properties=Bytes(named))
    return stored


def test_other_libraries_take_it(strange: StoredTopics) -> None:
    found = orbitmq.dataset(strange.root, columns=list(COLUMNS))
    tags = ["t\ufffd", "t"] * 5
    assert polars.DataFrame(found)["tags"].to_list() == tags
    assert [tag for (tag,) in duckdb.sql("select tags from found order by \"offset\"").fetchall()] == tags
    assert found.to_table().to_pandas()["tags"].to_list() == tags
    row = found.to_table().to_pylist()[0]
    assert (row["value"], row["key"], row["keys"]) == (b"0\xff", b"k\xff k0", ["k\ufffd", "k0"])
    assert dict(row["properties"])["a\ufffd"] == "b\ufffd" and row["headers"] == [{"key": "a\ufffd", "value": b"b\xff"}]


def test_exports_hold_it(strange: StoredTopics, tmp_path: Path) -> None:
    """Also as the name of a folder."""
    export_here(strange.root, tmp_path / "out", by=["tags"], columns=list(COLUMNS))
    files = f"{tmp_path / 'out'}/**/*.parquet"
    assert {path.parent.name for path in (tmp_path / "out").rglob("*.parquet")} == {"tags=t", "tags=t\ufffd"}
    assert polars.scan_parquet(files).select("keys").collect()["keys"].len() == 10
    found = duckdb.sql(f"select properties, value from read_parquet('{files}') order by \"offset\"").fetchall()
    assert found[0][0]["a\ufffd"] == "b\ufffd" and found[0][1] == b"0\xff"
