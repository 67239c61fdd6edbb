"""Goal: a log map finds the file of any offset, says why it cannot, and never drops a pinned file.

Method: small files whose first byte tells them apart; the map's slots are few enough to run through all of them.
"""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.native._core import ffi, lib

FILE_SIZE = 4096
SLOTS = 64


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The commitlog folder of a store."""
    made = tmp_path / "commitlog"
    made.mkdir()
    return made


@pytest.fixture
def log(folder: Path) -> Iterator[ffi.CData]:
    """A read-only map of that store."""
    made = ffi.new("struct log_map *")
    lib.log_map_open(made, str(folder.parent).encode(), FILE_SIZE, False)
    yield made
    lib.log_map_close(made)


def add(folder: Path, index: int, size: int = FILE_SIZE) -> None:
    """Makes the index-th file, filled with its index."""
    (folder / f"{index * FILE_SIZE:020}").write_bytes(bytes([index % 256]) * size)


def test_finds_the_file(folder: Path, log: ffi.CData) -> None:
    """Any offset, in any order, forwards and backwards."""
    for index in range(5):
        add(folder, index)
    for index in (0, 4, 3, 3, 0, 1):
        for inside in (0, 1, FILE_SIZE - 1):
            assert lib.log_map_at(log, index * FILE_SIZE + inside)[0] == index


def test_a_file_that_comes_later(folder: Path, log: ffi.CData) -> None:
    """A reader asks before the file exists, and again afterwards."""
    assert lib.log_map_at(log, 10) == ffi.NULL
    assert ffi.errno == errno.ENOENT
    add(folder, 0)
    assert lib.log_map_at(log, 10) != ffi.NULL


@pytest.mark.parametrize("size", [0, FILE_SIZE - 1, FILE_SIZE + 1])
def test_wrong_length(folder: Path, log: ffi.CData, size: int) -> None:
    """A file of another length is refused: shorter would be a SIGBUS."""
    add(folder, 0, size)
    assert lib.log_map_at(log, 0) == ffi.NULL
    assert ffi.errno == errno.EIO


def test_writable(folder: Path, tmp_path: Path) -> None:
    """What the writer stores reaches the file."""
    add(folder, 1)
    made = ffi.new("struct log_map *")
    lib.log_map_open(made, str(tmp_path).encode(), FILE_SIZE, True)
    lib.log_map_at(made, FILE_SIZE + 7)[0] = 99
    lib.log_map_close(made)
    assert (folder / f"{FILE_SIZE:020}").read_bytes()[7] == 99


def test_least_recently_used_goes_first(folder: Path, log: ffi.CData) -> None:
    """With every slot in use the oldest file goes, pinned ones stay, and all pinned is an error with a name."""
    for index in range(SLOTS + 2):
        add(folder, index)
    pinned = lib.log_map_pin(log, 0)
    base = pinned.data
    for index in range(1, SLOTS):
        lib.log_map_at(log, index * FILE_SIZE)
    assert lib.log_map_at(log, SLOTS * FILE_SIZE)[0] == SLOTS
    assert lib.log_map_at(log, 0) == base  # still where it was; file 1 made room
    for index in range(2, SLOTS + 1):
        assert lib.log_map_pin(log, index * FILE_SIZE).data[0] == index
    assert lib.log_map_at(log, FILE_SIZE) == ffi.NULL
    assert ffi.errno == errno.EMFILE
    lib.log_map_unpin(log, pinned)
    assert lib.log_map_at(log, FILE_SIZE)[0] == 1


def test_forget(folder: Path, log: ffi.CData) -> None:
    """Retention: files wholly below the new minimum go, unless pinned, and an unlinked one is not found again."""
    for index in range(3):
        add(folder, index)
    kept = lib.log_map_pin(log, 0)
    for index in range(3):
        lib.log_map_at(log, index * FILE_SIZE)
        (folder / f"{index * FILE_SIZE:020}").unlink()
    lib.log_map_forget(log, 2 * FILE_SIZE + 5)
    assert lib.log_map_at(log, 5)[0] == 0
    assert lib.log_map_at(log, FILE_SIZE) == ffi.NULL
    assert lib.log_map_at(log, 2 * FILE_SIZE)[0] == 2
    lib.log_map_unpin(log, kept)
    lib.log_map_forget(log, FILE_SIZE)
    assert lib.log_map_at(log, 5) == ffi.NULL
