"""Goal: another queue is distinguished from the one that was exported, and what retention removed from what was changed.
Method: a store made by hand, whose log is removed, overwritten, and repaired."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.store.stand_in import MARK as STANDS_IN
from orbitmq.tables.export import marks as module
from orbitmq.tables.export.manifest import Mark
from orbitmq.tables.export.marks import Marks
from orbitmq.tables.extents import Snapshot
from tests.native.composed_store import FILE_UNITS, ComposedStore

SIZE = 1 << 16
BODY = bytes(5000)


@pytest.fixture
def store(tmp_path: Path) -> ComposedStore:
    """Fifty messages of one queue, in five files of the log."""
    made = ComposedStore(tmp_path, log_file_size=SIZE)
    slot = made.add_topic("t", 1)
    for _ in range(50):
        made.append("t", slot, BODY)
    return made


@pytest.fixture
def marks(store: ComposedStore) -> Iterator[Marks]:
    made = Marks(Snapshot(store.root, SIZE, FILE_UNITS, None, {"t": {0: (0, 50)}}))
    yield made
    made.close()


def mark_of(marks: Marks, offset: int) -> Mark:
    found = marks.of("t", 0, offset)
    assert found is not None
    return found


def test_every_message_has_its_own(marks: Marks) -> None:
    """Also messages with the same body; and each is found again, however few files may be open."""
    found = [mark_of(marks, offset) for offset in range(50)]
    assert len({mark.crc for mark in found}) == 50
    assert all(marks.holds(mark) for mark in found)
    assert marks.of("t", 0, 50) is None and marks.of("t", 1, 0) is None and marks.of("u", 0, 0) is None


def test_few_files_are_open(marks: Marks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN_MOST", 2)
    found = [mark_of(marks, offset) for offset in range(50)]
    assert len(marks._open) == 2 and all(marks.holds(mark) for mark in found)


def test_another_message_in_its_place(marks: Marks, store: ComposedStore) -> None:
    mark = mark_of(marks, 7)
    store.write(mark.physical + 56, struct.pack(">Q", 1))  # its store time
    assert marks.holds(mark) is False


def test_a_message_that_a_repair_gave_up(marks: Marks, store: ComposedStore) -> None:
    """It is still the same queue."""
    mark = mark_of(marks, 7)
    store.write(mark.physical, bytes(76) + struct.pack(">Q", STANDS_IN))
    assert marks.holds(mark) is True


def test_what_retention_removed_and_what_never_was(marks: Marks, store: ComposedStore) -> None:
    """An old file that is gone may have held it; behind the newest one nothing was ever written by this store."""
    old, behind = mark_of(marks, 3), Mark(100 * SIZE, 1)
    marks.close()
    (store.root / "commitlog" / f"{0:020d}").unlink()
    assert marks.of("t", 0, 3) is None and marks.holds(old) is None
    assert marks.holds(behind) is False
