"""Goal: the note of what a store may keep never makes a deletion look allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.store import kept
from orbitmq.store.kept import Kept
from orbitmq.store.layout import StoreLayout

LIMITS = st.integers(0, 5)
KEPT = st.builds(Kept, LIMITS, LIMITS)


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    return layout


@pytest.mark.parametrize(
    ("now", "before", "less"),
    [
        (Kept(72, 0), Kept(0, 0), True),
        (Kept(72, 0), Kept(73, 0), True),
        (Kept(72, 0), Kept(72, 0), False),
        (Kept(0, 0), Kept(72, 5), False),
        (Kept(72, 5), Kept(72, 0), True),
        (Kept(72, 5), Kept(72, 4), False),
        (Kept(100, 3), Kept(72, 4), True),
    ],
)
def test_what_keeps_less(now: Kept, before: Kept, less: bool) -> None:
    assert now.less_than(before) is less


def test_a_note_that_cannot_be_read_keeps_everything(layout: StoreLayout) -> None:
    """The note only decides whether to ask: damage to it must not make a deletion look allowed."""
    kept.store(layout, Kept(72, 9))
    assert kept.load(layout) == Kept(72, 9)
    for damage in (
        b"",
        b"{",
        b"[]",
        b"5",
        b'{"hours": "x"}',
        b"\xff",
        b'{"hours": 1e999, "size": 1}',
        b'{"hours": 1}',
        b"[" * 100_000,
    ):
        layout.retention.write_bytes(damage)
        assert kept.load(layout) == Kept()


@given(KEPT, KEPT, KEPT)
def test_keeping_less_is_an_order(one: Kept, two: Kept, three: Kept) -> None:
    """The order is transitive; and only the same value keeps exactly as much."""
    assert not one.less_than(one) and not Kept().less_than(one)
    if not one.less_than(two) and not two.less_than(three):
        assert not one.less_than(three)
    assert (not one.less_than(two) and not two.less_than(one)) == (one == two)


def test_what_stands_already_is_not_written(layout: StoreLayout) -> None:
    kept.store(layout, Kept(3, 4))
    inode = layout.retention.stat().st_ino
    kept.store(layout, Kept(3, 4))
    assert layout.retention.stat().st_ino == inode
    kept.store(layout, Kept(3, 5))
    assert kept.load(layout) == Kept(3, 5)
