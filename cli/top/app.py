"""The application of `orbitmq top`. Looks are taken in a thread, since the coordinator may let them wait; only what they
found is drawn in the loop that also answers keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import DataTable, Footer, Input, Static

from orbitmq.cli.top.columns import ACTORS, GROUPS, TOPICS
from orbitmq.cli.top.complaint_list import ComplaintList
from orbitmq.cli.top.head import head
from orbitmq.cli.top.listing import Listing, OpenListing
from orbitmq.cli.top.messages import Messages
from orbitmq.cli.top.model import ActorRow, GroupRow, Model, Seen, TopicRow
from orbitmq.cli.web.browse import Asked, Page
from orbitmq.errors import OrbitError

EVERY_S = 1.0


class Top(App[None]):
    """look: takes a look at the broker; page: reads messages. Both are called in threads, one look and one page at a time."""

    CSS = """
    #head { height: 5; padding: 0 1; }
    Listing { height: 1fr; min-height: 4; border: round $panel; border-title-color: $text; scrollbar-size: 0 1; }
    Listing:focus { height: 2fr; border: round $accent; }
    #filter { display: none; height: 1; border: none; padding: 0 1; }
    #filter.asked { display: block; }
    .away Listing { opacity: 50%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("s", "sort", "Sort"),
        Binding("r", "turn_round", "Reverse"),
        Binding("c", "complaints", "Complaints"),
        Binding("slash", "ask_filter", "Filter", key_display="/"),
        Binding("escape", "no_filter", "All", show=False),
        Binding("1", "table('actors')", "Actors"),
        Binding("2", "table('topics')", "Topics"),
        Binding("3", "table('groups')", "Groups"),
    ]
    ENABLE_COMMAND_PALETTE = False
    TITLE = "orbitmq top"

    def __init__(self, look: Callable[[], Seen], page: Callable[[Asked], Page], every: float = EVERY_S) -> None:
        super().__init__()
        self.model = Model()
        self._look, self._page, self._every = look, page, every
        self._looking = False
        self.actors: Listing[ActorRow] = Listing("actors", ACTORS, "name")
        self.topics: Listing[TopicRow] = OpenListing("topics", TOPICS, "rate")
        self.groups: Listing[GroupRow] = Listing("groups", GROUPS, "lag")
        self._head = Static(id="head", markup=False)

    @property
    def tables(self) -> tuple[Listing[Any], ...]:
        return (self.actors, self.topics, self.groups)

    def compose(self) -> ComposeResult:
        yield self._head
        with Vertical():
            yield from self.tables
        yield Input(placeholder="part of a name; Enter keeps it, Escape shows all", id="filter", compact=True)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.topics.focus()
        self._draw()
        self.set_interval(self._every, self._next_look)
        self._next_look()

    def on_resize(self) -> None:
        self._draw()

    def _next_look(self) -> None:
        if not self._looking:  # a look that waits for the coordinator is not joined by a second one
            self._looking = True
            self._take_look()

    @work(thread=True, exit_on_error=True)
    def _take_look(self) -> None:
        try:
            found: Seen | OrbitError = self._look()
        except OrbitError as error:
            found = error
        self.call_from_thread(self._looked, found)

    def _looked(self, found: Seen | OrbitError) -> None:
        self._looking = False
        if isinstance(found, OrbitError):
            self.model.lost(found.message)
        else:
            self.model.take(found)
        self._draw()

    def _draw(self) -> None:
        self._head.update(head(self.model, self.size.width - 2))
        self.set_class(bool(self.model.away), "away")
        self.actors.fill(self.model.actors())
        self.topics.fill(self.model.topics())
        self.groups.fill(self.model.groups())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The keys of the tables are theirs alone, not those of a screen that lies over them."""
        return action == "quit" or len(self.screen_stack) <= 1

    def _focused(self) -> Listing[Any]:
        return self.focused if isinstance(self.focused, Listing) else self.topics

    def action_sort(self) -> None:
        self._focused().sort_by_next()

    def action_turn_round(self) -> None:
        self._focused().turn_round()

    def action_table(self, noun: str) -> None:
        self.query_one(f"#{noun}", Listing).focus()

    def action_ask_filter(self) -> None:
        asked = self.query_one("#filter", Input)
        asked.add_class("asked")
        asked.focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Enter opens the topic under the cursor."""
        name = self.topics.chosen_name
        if event.data_table is self.topics and name is not None:
            self.push_screen(Messages(name, self._page))

    def action_complaints(self) -> None:
        self.push_screen(ComplaintList(self.model.complaints))

    def on_input_changed(self, event: Input.Changed) -> None:
        for table in self.tables:
            table.filter(event.value)

    def on_input_submitted(self) -> None:
        self._end_asking()

    def action_no_filter(self) -> None:
        self.query_one("#filter", Input).value = ""
        self._end_asking()

    def _end_asking(self) -> None:
        asked = self.query_one("#filter", Input)
        asked.remove_class("asked")
        if self.focused is asked:
            self.topics.focus()
