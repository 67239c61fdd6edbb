"""ConsumeQueue files, written by the C writer and read, measured and cut from Python.

Goal: units have their fixed place and RocketMQ's bytes, whatever was written before; incomplete units do not count. Method: the
C writer compared with units packed by struct, with files of a few units so that every boundary is met.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.errors import OffsetOutOfRange, StoreSettingsError
from orbitmq.native._core import ffi, lib
from orbitmq.store.consume_queue import BLANK_SIZE, ConsumeQueue, Extent, Unit, queues

FILE_UNITS = 8
BLANK = struct.pack(">QIq", 0, BLANK_SIZE, 0)


class Writer:
    """The C writer of one queue."""

    def __init__(self, store: Path, topic: bytes = b"orders", queue_id: int = 3) -> None:
        folder = ffi.new("char[4096]")
        lib.consume_queue_folder(folder, str(store).encode(), topic, len(topic), queue_id)
        self.folder = ffi.string(folder)
        self.writer = ffi.new("struct consume_queue_writer *")

    def put(self, offset: int, physical: int, size: int = 100, tags: int = 7) -> int:
        unit = ffi.new("struct queue_unit *", {"physical_offset": physical, "size": size, "tags_code": tags})
        error: int = lib.consume_queue_put(self.writer, self.folder, FILE_UNITS, offset, unit)
        return error

    def close(self) -> None:
        lib.consume_queue_writer_close(self.writer, FILE_UNITS)


def fill(store: Path, begin: int, end: int) -> Writer:
    """Units of records of 100 bytes at 100 * queue offset."""
    writer = Writer(store)
    for offset in range(begin, end):
        assert writer.put(offset, offset * 100) == 0
    return writer


def test_bytes_on_disk(tmp_path: Path) -> None:
    """A unit is 20 big-endian bytes; a file has its full length from the start and is named by its byte offset."""
    writer = Writer(tmp_path)
    assert writer.put(0, 0x1122, 201, 0x27A807) == 0
    assert writer.put(9, 0x3344, 202, -5) == 0
    writer.close()
    folder = tmp_path / "consumequeue" / "orders" / "3"
    assert sorted(path.name for path in folder.iterdir()) == ["00000000000000000000", "00000000000000000160"]
    one = (folder / "00000000000000000000").read_bytes()
    assert one == bytes.fromhex("0000000000001122000000c9000000000027a807") + bytes(140)
    two = (folder / "00000000000000000160").read_bytes()
    assert two == BLANK + struct.pack(">QIq", 0x3344, 202, -5) + bytes(120)
    assert list(queues(tmp_path)) == [("orders", 3)]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_writing_again_changes_nothing(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """After any number of restarts from any earlier unit, the files are those of one straight run."""
    straight, broken = tmp_path_factory.mktemp("straight"), tmp_path_factory.mktemp("broken")
    begin = data.draw(st.integers(0, 20))
    end = begin + data.draw(st.integers(1, 30))
    fill(straight, begin, end).close()
    at = begin
    while at < end:
        upto = data.draw(st.integers(at + 1, end))
        fill(broken, at, upto).close()
        at = upto if upto == end else data.draw(st.integers(begin, upto))
    expected, found = ConsumeQueue(straight, "orders", 3, FILE_UNITS), ConsumeQueue(broken, "orders", 3, FILE_UNITS)
    assert found.files() == expected.files()
    for first in expected.files():
        assert found.path(first).read_bytes() == expected.path(first).read_bytes()
    assert found.extent() == Extent(begin if begin else 0, end, end * 100)


def test_extent_and_truncate(tmp_path: Path) -> None:
    """Every cut of the log leaves exactly the units whose records end at or before it, and room that is zero."""
    for cut_units in range(0, 28):
        store = tmp_path / str(cut_units)
        fill(store, 3, 27).close()
        queue = ConsumeQueue(store, "orders", 3, FILE_UNITS)
        assert queue.extent() == Extent(3, 27, 2700)
        assert queue.extent(log_min=1150) == Extent(12, 27, 2700)
        left = queue.truncate(cut_units * 100 + 99 if cut_units < 27 else 2700)
        expected = max(3, cut_units)
        assert (left.max_offset, left.physical_end) == (expected, expected * 100 if cut_units > 3 else 0)
        assert (queue.extent().max_offset, queue.extent().physical_end) == (left.max_offset, left.physical_end)
        if cut_units > 3:
            # The same units again give the same files: nothing stale is left behind the cut.
            fill(store, expected, 27).close()
            assert [unit.physical_offset for unit in queue.units(3, 27)] == [n * 100 for n in range(3, 27)]
            last = queue.path(24).read_bytes()
            assert last[3 * 20 :] == bytes(5 * 20)
        else:
            assert queue.files() == [0]


def test_a_unit_without_size_ends_the_queue(tmp_path: Path) -> None:
    """An incomplete unit has no size. It and what follows does not count, and the next writer repairs it."""
    fill(tmp_path, 0, 5).close()
    queue = ConsumeQueue(tmp_path, "orders", 3, FILE_UNITS)
    with queue.path(0).open("r+b") as file:
        file.seek(5 * 20)
        file.write(struct.pack(">QIq", 500, 0, 7))
    assert queue.extent() == Extent(0, 5, 500)
    fill(tmp_path, 5, 6).close()
    assert queue.unit(5) == Unit(500, 100, 7)
    assert queue.extent() == Extent(0, 6, 600)


def test_a_stale_unit_ends_the_queue(tmp_path: Path) -> None:
    """Places of the log only grow along a queue."""
    fill(tmp_path, 0, 5).close()
    writer = Writer(tmp_path)
    writer.put(5, 120)
    writer.close()
    assert ConsumeQueue(tmp_path, "orders", 3, FILE_UNITS).extent() == Extent(0, 5, 500)


def test_retention_and_holes(tmp_path: Path) -> None:
    """Only files that lie wholly before the log's min are removed, and the newest stays."""
    fill(tmp_path, 0, 25).close()
    queue = ConsumeQueue(tmp_path, "orders", 3, FILE_UNITS)
    assert queue.expired(1450) == [queue.path(0)]
    expired = queue.expired(10**9)
    assert expired == [queue.path(first) for first in (0, 8, 16)]
    for path in expired:
        path.unlink()
    assert queue.expired(10**9) == []
    with pytest.raises(OffsetOutOfRange):
        queue.peek(23)
    assert queue.peek(24) == queue.unit(24)
    with pytest.raises(OffsetOutOfRange) as raised:
        queue.units(20, 25)
    assert raised.value.offset == 20


def test_other_settings(tmp_path: Path) -> None:
    """A file of another length is refused by name, by both sides; one without any length counts as empty."""
    fill(tmp_path, 0, 5).close()
    queue = ConsumeQueue(tmp_path, "orders", 3, FILE_UNITS + 1)
    with pytest.raises(StoreSettingsError) as raised:
        queue.extent()
    assert raised.value.size == FILE_UNITS * 20
    writer = Writer(tmp_path)
    queue.path(0).write_bytes(b"short")
    assert writer.put(6, 600) != 0
    queue.path(0).write_bytes(b"")
    assert queue.extent() == Extent(0, 0, 0)
    assert writer.put(0, 600) == 0
    writer.close()


def test_reader(tmp_path: Path) -> None:
    """The C reader says how many units follow each other and moves from file to file."""
    fill(tmp_path, 0, 20).close()
    reader = ffi.new("struct consume_queue_reader *")
    folder = str(ConsumeQueue(tmp_path, "orders", 3, FILE_UNITS).folder).encode()
    units = ffi.new("uint64_t *")
    for offset in (0, 5, 19, 8, 7):
        at = lib.consume_queue_at(reader, folder, FILE_UNITS, offset, units)
        assert units[0] == FILE_UNITS - offset % FILE_UNITS
        assert struct.unpack(">QIq", ffi.buffer(at, 20)) == (offset * 100, 100, 7)
    assert lib.consume_queue_at(reader, folder, FILE_UNITS, 24, units) == ffi.NULL
    lib.consume_queue_reader_close(reader, FILE_UNITS)
