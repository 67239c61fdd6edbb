"""The command's two streams (answers go to standard output, everything else to standard error) and the format of numbers."""

from __future__ import annotations

import json
import sys
import time

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from orbitmq.cli import spelling
from orbitmq.errors import OrbitError

# If the output is not a terminal, tables are as wide as they need to be.
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 200)
err = Console(highlight=False, soft_wrap=True, stderr=True)


def show_error(error: OrbitError) -> None:
    """One line in red that says what could not be done, and below it the hint."""
    err.print(f"[bold red]error:[/] {escape(error.message)}")
    hint = spelling.hint_of(error)
    if hint:
        err.print(f"  [dim]hint:[/] {escape(hint)}", soft_wrap=not err.is_terminal)


def tell_deleted(kind: str, name: str, as_json: bool) -> None:
    """The answer to a deletion. kind: "topic" or "group"."""
    if as_json:
        print(json.dumps({"name": name, "deleted": True}))
    else:
        out.print(f"{kind} {where(name)} is deleted")


def plain_table() -> Table:
    """A table without lines, whose headings are dim: how all lists are shown."""
    return Table(box=None, pad_edge=False, header_style="dim")


def counted(count: int, noun: str) -> str:
    """1, "message" -> "1 message"; 2,000 -> "2,000 messages"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def rate(per_second: float) -> str:
    """Messages a second: "0", "7.5", "1,234", "1.23 M"."""
    if round(per_second) >= 1_000_000:
        return f"{per_second / 1e6:,.2f} M"
    return f"{per_second:,.0f}" if round(per_second, 1) >= 10 or per_second == int(per_second) else f"{per_second:.1f}"


def duration(milliseconds: float) -> str:
    """An age: "3 ms", "1.2 s", "5 min"."""
    if round(milliseconds) < 1000:
        return f"{milliseconds:.0f} ms"
    if round(milliseconds / 1000, 1) < 120:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds / 60_000:.0f} min"


def clock_time(milliseconds: int) -> str:
    """Milliseconds since 1970 as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(milliseconds / 1000)) + f".{milliseconds % 1000:03d}"


def retention(hours: int) -> str:
    """How long messages are kept, from the value of the setting: "for ever", "36 hours", "72 hours (3 days)"."""
    if hours == 0:
        return "for ever"
    return counted(hours, "hour") + (f" ({hours // 24:,} days)" if hours >= 48 and hours % 24 == 0 else "")


def where(name: str) -> str:
    """A name as a word of a sentence."""
    return f"[bold]{escape(name)}[/]"


def own_durability(durability: str) -> str:
    """What a topic's receipts wait for, if it is not the default: "flushed", else ""."""
    return "" if durability == "appended" else durability
