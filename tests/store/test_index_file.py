"""Look-ups over all IndexFiles.

Goal: newest first across files, at most what was asked for, the time range kept to the second, a damaged chain bounded.
Method: files filled through the C writer, answers against a list.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from orbitmq.errors import StoreSettingsError
from orbitmq.native._core import ffi, lib
from orbitmq.store.index_file import IndexFile, candidates, key_hash
from orbitmq.store.index_headers import index_files

SLOTS, ENTRIES = 13, 41
BEGIN_MS = 1_700_000_000_000


def fill(store: Path, name: int, keys: list[str], first: int) -> None:
    """One file: entry n is of a record at 100 * n, stored n seconds after BEGIN_MS, n counting from `first`."""
    (store / "index").mkdir(exist_ok=True)
    file = ffi.new("struct index_file *")
    path = store / "index" / f"{name:017d}"
    assert lib.index_file_open(file, str(path).encode(), SLOTS, ENTRIES, True, True) == 0
    for n, key in enumerate(keys, first):
        assert lib.index_file_put(file, key_hash("orders", key), 100 * n, BEGIN_MS + 1000 * n) == 0
    lib.index_file_publish(file)
    lib.index_file_close(file)


def find(store: Path, topic: str, key: str, **limits: int) -> list[int]:
    return list(candidates(store / "index", SLOTS, ENTRIES, key_hash(topic, key), **limits))


def test_newest_first_over_files(tmp_path: Path) -> None:
    """Three full files, two keys: each answer is the list, backwards; of each file at most what was asked for."""
    keys = [("a", "b")[n % 2] if n % 5 else "a" for n in range(120)]
    for part in range(3):
        fill(tmp_path, 20240101000000000 + part, keys[part * 40 : part * 40 + 40], part * 40)
    places = [100 * n for n, key in enumerate(keys) if key == "a"][::-1]
    assert find(tmp_path, "orders", "a") == places
    assert find(tmp_path, "orders", "a", most=1) == [max(place for place in places if place < 4000 * n) for n in (3, 2, 1)]
    assert find(tmp_path, "orders", "c") == [] == find(tmp_path, "other", "a")
    between = find(tmp_path, "orders", "a", begin_ms=BEGIN_MS + 30_000, end_ms=BEGIN_MS + 50_000)
    assert between == [place for place in places if 3000 <= place <= 5000]


def test_no_index(tmp_path: Path) -> None:
    """A store that never saw a key answers with nothing."""
    assert find(tmp_path, "orders", "a") == []


def test_full_file(tmp_path: Path) -> None:
    """Entry 0 is never used, and the entry after the last is refused."""
    with pytest.raises(AssertionError):
        fill(tmp_path, 20240101000000000, ["a"] * ENTRIES, 0)
    fill(tmp_path, 20240101000000001, ["a"] * (ENTRIES - 1), 0)
    (_, path) = index_files(tmp_path / "index")
    with IndexFile(path, SLOTS, ENTRIES) as file:
        assert file.header.next_entry == ENTRIES


def test_a_chain_that_leads_in_circles(tmp_path: Path) -> None:
    """Numbers only fall along a chain; one that does not is cut."""
    fill(tmp_path, 20240101000000000, ["a", "a", "a"], 1)
    (path,) = index_files(tmp_path / "index")
    content = bytearray(path.read_bytes())
    struct.pack_into(">I", content, 40 + 4 * SLOTS + 20 * 2 + 16, 3)
    path.write_bytes(content)
    with IndexFile(path, SLOTS, ENTRIES) as file:
        assert file.find(key_hash("orders", "a")) == [300, 200]


def test_other_settings(tmp_path: Path) -> None:
    """A file of another length is refused by name."""
    fill(tmp_path, 20240101000000000, ["a"], 0)
    (path,) = index_files(tmp_path / "index")
    with pytest.raises(StoreSettingsError) as raised:
        IndexFile(path, SLOTS + 1, ENTRIES)
    assert raised.value.path.endswith("20240101000000000")
