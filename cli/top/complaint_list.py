"""The live view's screen of complaints."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from orbitmq.cli.printing import one_line
from orbitmq.cli.top.complaints import Complaints


class ComplaintList(Screen[None]):
    """As they were when it was opened, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,c", "leave", "Back", key_display="esc"),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, complaints: Complaints) -> None:
        super().__init__()
        self._lines = [one_line(str(each)) for each in complaints] or ["no complaints since this view began"]

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(Text("\n".join(self._lines)), markup=False)
        yield Footer(compact=True, show_command_palette=False)

    def action_leave(self) -> None:
        self.app.pop_screen()
