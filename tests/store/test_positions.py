"""Goal: what was recorded last is read back, and a slot that was written half-way does not count.

Method: every byte of the newest slot is damaged in turn; the older slot must be read.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.store import positions
from orbitmq.store.layout import StoreLayout
from orbitmq.store.positions import Positions, boot_id


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    return layout


def test_nothing_is_known_at_first(layout: StoreLayout) -> None:
    assert positions.load(layout) is None
    Positions(layout).close()
    assert positions.load(layout) is None
    assert layout.positions.stat().st_size == 4096


def test_the_newest_is_read_also_after_opening_again(layout: StoreLayout) -> None:
    for flushed in (5, 9):
        writer = Positions(layout)
        writer.record(flushed - 1, 70)
        writer.record(flushed, 77)
        writer.close()
        assert positions.load(layout) == positions.Recorded(flushed, 0, 77, False, boot_id())
    writer = Positions(layout)
    writer.record_stop(12, 78)
    assert positions.load(layout) == positions.Recorded(12, 12, 78, True, boot_id())


def test_a_torn_slot_leaves_the_older_one(layout: StoreLayout) -> None:
    writer = Positions(layout)
    writer.record(7, 1)
    writer.record(8, 1)
    writer.close()
    whole = layout.positions.read_bytes()
    for at in range(512, 512 + 56):  # version 2 lies in slot 0
        layout.positions.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        found = positions.load(layout)
        assert found is not None and found.flushed == 7
    layout.positions.write_bytes(whole[:512] + bytes(len(whole) - 512))
    assert positions.load(layout) is None


@pytest.mark.parametrize("content", [b"", b"x" * 4096, b"orbitpos" + bytes(4088), bytes(4095)])
def test_a_file_of_no_use_is_made_anew(layout: StoreLayout, content: bytes) -> None:
    layout.positions.write_bytes(content)
    assert positions.load(layout) is None
    writer = Positions(layout)
    writer.record(3, 1)
    found = positions.load(layout)
    assert found is not None and found.flushed == 3
