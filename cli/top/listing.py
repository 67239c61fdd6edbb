"""One table of the live view: it can be sorted and filtered, and the cursor stays on its row while the rows move."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Generic

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import DataTable

from orbitmq.cli.printing import one_line
from orbitmq.cli.top.columns import Column, R, chosen, sortable


class Listing(DataTable[Text], Generic[R]):
    """sorted_by: the column that it is first sorted by."""

    def __init__(self, noun: str, columns: Sequence[Column[R]], sorted_by: str) -> None:
        super().__init__(id=noun, cursor_type="row", zebra_stripes=False)
        self._noun, self._columns = noun, columns
        self._sortable = sortable(columns)
        self._by = next(place for place, column in enumerate(self._sortable) if sorted_by in (column.heading, column.word))
        self._backwards = False
        self._wanted = ""
        self._rows: list[R] = []
        self.names: list[str] = []  # of the rows that are shown, from the top

    def on_mount(self) -> None:
        for place, column in enumerate(self._columns):
            self.add_column(Text(column.heading), key=str(place))
        self._draw()

    @property
    def chosen_name(self) -> str | None:
        """Of the row under the cursor."""
        return self.names[self.cursor_row] if 0 <= self.cursor_row < len(self.names) else None

    @property
    def sorted_by(self) -> str:
        column = self._sortable[self._by]
        return column.word or column.heading

    def sort_by_next(self) -> None:
        self._by, self._backwards = (self._by + 1) % len(self._sortable), False
        self._draw()

    def turn_round(self) -> None:
        self._backwards = not self._backwards
        self._draw()

    def filter(self, wanted: str) -> None:
        self._wanted = wanted
        self._draw()

    def fill(self, rows: Iterable[R]) -> None:
        self._rows = list(rows)
        self._draw()

    def _draw(self) -> None:
        if not self.columns:
            return  # not mounted yet
        shown = chosen(self._rows, self._wanted, self._sortable[self._by], self._backwards)
        names = [row.name for row in shown]
        cells = [[column.show(row) for column in self._columns] for row in shown]
        if names == self.names:
            for name, line in zip(names, cells, strict=True):
                for place, cell in enumerate(line):
                    self.update_cell(name, str(place), cell, update_width=True)
        else:
            self._replace(names, cells)
        self.styles.max_height = max(4, len(names) + 3)  # the others get what this one does not need
        self._title(len(names))

    def _replace(self, names: list[str], cells: list[list[Text]]) -> None:
        """The cursor stays on its row, or where it is if the row is gone. At the top it stays at the top."""
        here, place = self.chosen_name, self.cursor_row
        top = self.scroll_y
        self.clear()
        self.names = names
        for name, line in zip(names, cells, strict=True):
            self.add_row(*line, key=name)
        if place > 0 and names:
            row = names.index(here) if here in names else min(place, len(names) - 1)
            self.move_cursor(row=row, animate=False, scroll=False)
        self.scroll_to(y=top, animate=False)

    def _title(self, count: int) -> None:
        title = f"{self._noun} by {self.sorted_by}{', backwards' if self._backwards else ''}"
        if self._wanted:
            title += f"  {count:,} of {len(self._rows):,} with {one_line(self._wanted)!r}"
        self.border_title = Text(title)


class OpenListing(Listing[R]):
    """One whose rows can be opened, which the last line of the screen says while it has the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Open", key_display="\u23ce")]
