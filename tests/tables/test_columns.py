"""Goal: batches hold what was stored and stay within their limits. Method: a reader over a store made by hand. test_source.py
shows that the types are Spark's."""

from __future__ import annotations

import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from orbitmq.native._types import Reader
from orbitmq.tables.columns import batches
from tests.tables.stored_topics import StoredTopics

COMPRESSED = 1


@pytest.fixture
def stored(tmp_path: Path) -> StoredTopics:
    stored = StoredTopics(tmp_path / "store")
    stored.add("t", 1)
    return stored


def reader(stored: StoredTopics) -> Reader:
    reader = Reader(store=str(stored.root), log_file_size=1 << 16, queue_file_units=50)
    reader.add_offline("t", 0, 0, len(stored.rows))
    return reader


def test_rows_of_a_batch_are_bounded(stored: StoredTopics) -> None:
    for number in range(100):
        stored.send("t", b"%d" % number)
    found = list(batches(reader(stored), ["value", "offset"], rows=30))
    assert [batch.num_rows for batch in found] == [30, 30, 30, 10]
    assert pa.Table.from_batches(found)["value"].to_pylist() == [row[3] for row in stored.rows]


def test_keys_that_are_no_text(stored: StoredTopics) -> None:
    """Another producer may store any bytes; they fail no query, and the other rows are not affected."""
    stored.send("t", b"", keys=" QQQQ  b ")
    stored.send("t", b"", keys="a b")
    physical = stored.rows[0][8]
    log = stored.root / "commitlog" / f"{0:020d}"
    stored.write(log.read_bytes().index(b"QQQQ", physical), b"\xff\xe4\xfeQ")
    (batch,) = batches(reader(stored), ["keys", "key"])
    words = batch.column("keys").flatten().view(pa.binary()).to_pylist()
    assert words == [b"\xff\xe4\xfeQ", b"b", b"a", b"b"]
    assert batch.column("key").to_pylist() == [b" \xff\xe4\xfeQ  b ", b"a b"]


def test_bytes_of_a_batch_are_bounded(stored: StoredTopics) -> None:
    """Small bodies, then large ones in the same range, and one that alone passes the limit."""
    for number in range(300):
        stored.send("t", bytes(10 if number < 200 else 3000))
    stored.send("t", bytes(20_000))
    stored.send("t", b"last")
    found = list(batches(reader(stored), ["value"], size=10_000))
    assert all(batch.num_rows == 1 or sum(map(len, batch["value"].to_pylist())) <= 10_000 for batch in found)
    assert [len(body) for batch in found for body in batch["value"].to_pylist()] == [len(row[3]) for row in stored.rows]


def test_without_bodies_their_size_does_not_matter(stored: StoredTopics) -> None:
    for _ in range(100):
        stored.send("t", bytes(3000))
    (batch,) = batches(reader(stored), ["offset", "tags"], size=1)
    assert batch.num_rows == 100 and batch.schema.names == ["offset", "tags"]


def test_a_compressed_body_arrives_as_it_was_sent(stored: StoredTopics) -> None:
    stored.send("t", zlib.compress(b"a" * 1000), sys_flag=COMPRESSED)
    stored.send("t", b"plain")
    (batch,) = batches(reader(stored), ["value"])
    assert batch["value"].to_pylist() == [b"a" * 1000, b"plain"]


@pytest.mark.parametrize(
    ("stored_keys", "keys"),
    [(None, None), ("a", ["a"]), ("a b", ["a", "b"]), ("a  b   c", ["a", "b", "c"]), (" a ", ["a"])],
)
def test_keys_one_by_one(stored: StoredTopics, stored_keys: str | None, keys: list[str] | None) -> None:
    stored.send("t", b"", keys=stored_keys)
    (batch,) = batches(reader(stored), ["keys", "key"])
    assert batch["keys"].to_pylist() == [keys]
    assert batch["key"].to_pylist() == [None if stored_keys is None else stored_keys.encode()]
