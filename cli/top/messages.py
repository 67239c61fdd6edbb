"""The live view's screen of one topic: its messages a page at a time, the newest first, and all of the one under the cursor."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Static

from orbitmq.cli.console import clock_time
from orbitmq.cli.printing import body_text, fields_of, one_line
from orbitmq.cli.web.browse import Asked, Damaged, Found, Page
from orbitmq.errors import OrbitError

PAGE = 100  # messages
BODY_MAX = 4000  # characters of a body in full
HEADINGS = ("stored", "place", "tag", "keys", "body")


class Messages(Screen[None]):
    """read: a page of messages; it is called in a thread, by one at a time."""

    CSS = """
    #about { height: 1; padding: 0 1; }
    #found { height: 2fr; border: round $panel; scrollbar-size: 0 1; }
    #found:focus { border: round $accent; }
    #whole { height: 1fr; min-height: 6; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back"),
        Binding("o", "older", "Older"),
        Binding("n", "newest", "Newest"),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, topic: str, read: Callable[[Asked], Page]) -> None:
        super().__init__()
        self.topic = topic
        self.found: list[Found] = []
        self._read = read
        self._page: Page | None = None
        self._reading = False
        self._about = Static(id="about", markup=False)
        self._table: DataTable[Text] = DataTable(id="found", cursor_type="row")
        self._whole = Static(markup=False)

    def compose(self) -> ComposeResult:
        yield self._about
        yield self._table
        with VerticalScroll(id="whole"):
            yield self._whole
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        for heading in HEADINGS:
            self._table.add_column(Text(heading))
        self._table.focus()
        self.action_newest()

    def action_leave(self) -> None:
        self.app.pop_screen()

    def action_newest(self) -> None:
        self._ask(Asked(self.topic, most=PAGE))

    def action_older(self) -> None:
        if self._page is not None and not self._page.whole:
            self._ask(Asked(self.topic, most=PAGE, places=self._page.places))

    def _ask(self, asked: Asked) -> None:
        if not self._reading:  # the page that is on its way comes first
            self._reading = True
            self._tell("reading", "dim")
            self._take_page(asked)

    @work(thread=True)
    def _take_page(self, asked: Asked) -> None:
        try:
            page: Page | OrbitError = self._read(asked)
        except OrbitError as error:
            page = error
        self.app.call_from_thread(self._show, page)

    def _show(self, page: Page | OrbitError) -> None:
        self._reading = False
        if not self.is_attached:
            return  # somebody has gone back meanwhile
        if isinstance(page, OrbitError):
            self._tell(page.message, "bold red")
            return
        self._page, self.found = page, page.messages
        self._table.clear()
        for found in self.found:
            self._table.add_row(*_line(found))
        if not self.found:
            self._whole.update("")
        more = "the oldest are below" if page.whole else "o shows older ones"
        self._tell(f"{len(self.found):,} messages, the newest first; {more}" if self.found else "no messages", "dim")

    def _tell(self, text: str, style: str) -> None:
        self._about.update(Text.assemble("topic ", (one_line(self.topic), "bold"), "  ", (one_line(text), style)))

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        if 0 <= event.cursor_row < len(self.found):
            self._whole.update(whole(self.found[event.cursor_row]))


def _line(found: Found) -> list[Text]:
    place = f"{found.queue}@{found.offset}"
    if isinstance(found, Damaged):
        return [Text(""), Text(place, "dim"), Text("damaged", "bold red"), Text(""), Text(one_line(found.why), "red")]
    tag, keys = one_line(found.tags or ""), one_line(" ".join(found.keys))
    when = clock_time(found.stored_ms)[5:]
    return [Text(when, "dim"), Text(place, "dim"), Text(tag, "cyan"), Text(keys, "magenta"), Text(_body(found, 200))]


def _body(found: Found, most: int) -> str:
    if isinstance(found, Damaged):
        return ""
    text = body_text(found)
    return one_line(text[:most]) if text is not None else bytes(found)[: most // 3].hex(" ")


def whole(found: Found) -> Text:
    """Every field on a line of its own, then the body."""
    if isinstance(found, Damaged):
        return Text(f"damaged: {one_line(found.why)}", "red")
    lines = [Text.assemble((f"{one_line(key):<12} ", "dim"), one_line(value)) for key, value in fields_of(found).items()]
    text = body_text(found)
    if text is None:
        lines.append(Text(_body(found, 3 * BODY_MAX)))
    else:  # lines of a body stay lines
        lines += [Text(one_line(line)) for line in text[:BODY_MAX].splitlines()]
    size = len(bytes(found))
    cut = len(text) > BODY_MAX if text is not None else size > BODY_MAX
    return Text("\n").join([*lines, Text(f"... {size:,} bytes", "dim")] if cut else lines)
