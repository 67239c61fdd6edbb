"""The log's positions on one ruler: how far disk and consumers are behind what was written."""

from __future__ import annotations

from rich.text import Text

from orbitmq.client.admin.status import Positions
from orbitmq.shm.disk_fault import byte_count

SPAN_MIN = 1 << 16  # bytes; what is nearer than this is as good as there
MARKS = {"wrote": ("W", "bold"), "flushed": ("F", "yellow"), "reput": ("R", "cyan")}


def span_of(positions: Positions) -> int:
    """Bytes from the left end of the ruler to the last byte written: a power of two, so that the ruler does not move with every
    look."""
    behind = positions.wrote - min(positions.flushed, positions.reput)
    span = SPAN_MIN
    while span < behind:
        span *= 2
    return span


def ruler(positions: Positions, width: int) -> Text:
    """One line. W: written; F: on disk; R: readable. Of those in one place, the one that is furthest behind is seen, or * if
    they are all there."""
    span = span_of(positions)
    told = f" W {byte_count(positions.wrote)} written  F on disk {_behind(positions.wrote - positions.flushed)}"
    told += f"  R readable {_behind(positions.wrote - positions.reput)}"
    left = f"-{byte_count(span, short=True)} "
    cells = [Text("─", "dim")] * max(1, width - len(told) - len(left))
    places = {name: place_of(positions.wrote - getattr(positions, name), span, len(cells)) for name in MARKS}
    if len(set(places.values())) == 1:
        cells[places["wrote"]] = Text("*", "bold green")
    else:
        for name in sorted(MARKS, key=lambda name: -getattr(positions, name)):
            cells[places[name]] = Text(*MARKS[name])
    return Text.assemble((left, "dim"), *cells, (told, "dim"))


def place_of(behind: int, span: int, cells: int) -> int:
    """Of cells from the left. Only what is not behind at all is at the end, if there is room for a difference."""
    if behind <= 0:
        return cells - 1
    return max(0, min(cells - 2, round((1 - behind / span) * (cells - 1))))


def _behind(count: int) -> str:
    return f"-{byte_count(count, short=True)}" if count > 0 else "all"
