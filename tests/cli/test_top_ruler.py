"""Goal: the ruler shows the log's positions in their order, and what is behind is never shown as being there. Method: positions
of any kind (cli/top/ruler.py: ruler, span_of, place_of)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.cli.top.ruler import SPAN_MIN, place_of, ruler, span_of
from tests.cli.made_status import positions

OFFSETS = st.integers(0, 1 << 45)


@given(OFFSETS, OFFSETS, OFFSETS, st.integers(2, 200))
def test_order(wrote: int, flushed: int, reput: int, cells: int) -> None:
    at = positions(wrote=wrote, flushed=min(flushed, wrote), reput=min(reput, wrote))
    span = span_of(at)
    lowest = wrote - min(at.flushed, at.reput)
    assert span >= max(SPAN_MIN, lowest) and (span == SPAN_MIN or span < 2 * lowest)
    behind = sorted([0, wrote - at.flushed, wrote - at.reput])
    places = [place_of(each, span, cells) for each in behind]
    assert places == sorted(places, reverse=True) and places[0] == cells - 1 and min(places) >= 0
    assert all((place == cells - 1) == (each == 0) for each, place in zip(behind, places, strict=True))


def test_what_is_to_be_seen() -> None:
    told = ruler(positions(wrote=1 << 20, flushed=1 << 20, reput=1 << 20), 100).plain
    assert len(told) == 100 and "─* W 1.0 MiB written  F on disk all  R readable all" in told
    told = ruler(positions(wrote=1 << 20, flushed=(1 << 20) - (1 << 16), reput=1 << 20), 100).plain
    assert told.startswith("-64 KiB F─") and "─R W" in told and "F on disk -64 KiB" in told
    assert "R readable -512 KiB" in ruler(positions(wrote=1 << 20, flushed=1 << 20, reput=1 << 19), 100).plain
