"""`orbitmq config`: the settings of a store, where each value comes from, and what the next start will change."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.markup import escape
from rich.table import Table

import orbitmq
from orbitmq.cli.answers import allowed
from orbitmq.cli.console import out, plain_table
from orbitmq.cli.options import AllowDeletion, Json, Name
from orbitmq.client.client import Client
from orbitmq.errors import SettingError, StoreLocked
from orbitmq.store.access import work_as_owner
from orbitmq.store.layout import StoreLayout
from orbitmq.store.lock import StoreLock, is_held
from orbitmq.store.settings import settings_file
from orbitmq.store.settings.setting_change import change_settings
from orbitmq.store.settings.setting_sources import SettingState, file_values, resolve, states
from orbitmq.store.settings.tree_settings import tree_settings

if TYPE_CHECKING:
    from orbitmq.client.setting_types import StoredSettings

app = typer.Typer(help="Show and change the settings of a store.", no_args_is_help=True)
Store = Annotated[
    Path | None, typer.Option("--store", "-s", help="The store, whether a broker runs on it or not; else a running broker.")
]
Change = Callable[[dict[str, Any], list[str], bool], list[str]]
SOURCES = {
    "given": "given to this start",
    "environment": "environment",
    "file": "the store's file",
    "store": "the store's files",
    "default": "default",
}


@app.command("show")
def show(store: Store = None, name: Name = None, as_json: Json = False) -> None:
    """Show every setting and where its value comes from.

    If a broker runs on the store: the settings that it runs with. Otherwise: those that a start from here, without options,
    would use."""
    layout, running = _look(store, name)
    found = running if running is not None else states(resolve(str(layout.root), {}, os.environ).settings)
    if as_json:
        for each in found:
            print(json.dumps({"setting": each.name, "value": each.value, "source": each.source}))
        return
    table = _table("setting", "value", "from")
    for each in found:
        style = "dim" if each.source == "default" else "bold"
        table.add_row(f"[{style}]{each.name}[/]", f"[{style}]{_shown(each.value)}[/]", f"[dim]{SOURCES[each.source]}[/]")
    out.print(table)
    there = "" if layout.settings_toml.exists() else " (not there yet)"
    out.print(f"\n[dim]file[/]  {escape(str(layout.settings_toml))}{there}")


@app.command("diff")
def diff(store: Store = None, name: Name = None, as_json: Json = False) -> None:
    """Show where the running broker, the store's file and the defaults differ."""
    layout, running = _look(store, name)
    stored = file_values(settings_file.read(layout))
    defaults = {each.name: each.value for each in states(tree_settings(str(layout.root), {}))}
    now = None if running is None else {each.name: each.value for each in running}
    # A broker's name is not a setting from which anything could differ.
    names = [each for each in sorted(defaults) if each != "name"]
    seen = (stored, now or {})
    rows = [each for each in names if any(values.get(each, defaults[each]) != defaults[each] for values in seen)]
    if as_json:
        for each in rows:
            line = {"setting": each, "file": stored.get(each), "default": defaults[each]}
            print(json.dumps(line if now is None else {**line, "running": now[each]}))
        return
    if not rows:
        out.print("everything is as by default")
        return
    table = _table("setting", *(() if now is None else ("running",)), "file", "default", "")
    for each in rows:
        there = _shown(stored[each]) if each in stored else "[dim]-[/]"
        cells = [there, f"[dim]{_shown(defaults[each])}[/]"]
        note = ""
        if now is not None:
            cells.insert(0, f"[bold]{_shown(now[each])}[/]")
            note = "" if stored.get(each, now[each]) == now[each] else "[yellow]at the next start[/]"
        table.add_row(each, *cells, note)
    out.print(table)


@app.command("set")
def set_(
    assignments: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", help="Such as retention_hours=0 flush=batch.")],
    store: Store = None,
    name: Name = None,
    allow_deletion: AllowDeletion = False,
) -> None:
    """Change what the store remembers. It counts from the next start on."""
    values = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise typer.BadParameter(f"{assignment!r} is not NAME=VALUE")
        values[key.strip().replace("-", "_")] = text.strip()
    _change(store, name, values, [], allow_deletion)


@app.command("unset")
def unset(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Settings that go back to their defaults.")],
    store: Store = None,
    name: Name = None,
    allow_deletion: AllowDeletion = False,
) -> None:
    """Let the store forget settings: their defaults count from the next start on."""
    _change(store, name, {}, names, allow_deletion)


def _change(store: Path | None, name: str | None, values: dict[str, Any], forget: list[str], allow_deletion: bool) -> None:
    with _changer(store, name) as (change, broker):
        changed = allowed(allow_deletion, lambda sure: change(values, forget, sure))
    if not changed:
        out.print("nothing to change: the store remembers that already")
        return
    for each in changed:
        out.print(f"{each} = {_shown(values[each])}" if each in values else f"{each}: the default")
    if broker is not None:
        rest = f"the broker {escape(broker)} runs on with what it has: orbitmq config diff"
        out.print(f"[dim]counts from the next start on; {rest}[/]")


@contextmanager
def _changer(store: Path | None, name: str | None) -> Iterator[tuple[Change, str | None]]:
    """Gives access to the settings: through the running broker, or, if none runs, as the holder of the store. Yields the
    change, and the broker's name or None."""
    lock = None
    if store is not None:
        layout = _existing(store)
        work_as_owner(layout)
        try:
            lock = StoreLock.acquire(layout, "orbitmq config")
        except StoreLocked as held:
            if not held.holder:
                raise
    if lock is not None:
        try:
            yield lambda values, forget, sure: change_settings(layout, values, forget, allow_deletion=sure), None
        finally:
            lock.release()
        return
    with orbitmq.connect(name, store=store) as broker:

        def change(values: dict[str, Any], forget: list[str], sure: bool) -> list[str]:
            return broker.change_settings(cast("StoredSettings", values), forget=forget, allow_deletion=sure)

        yield change, broker.name


def _look(store: Path | None, name: str | None) -> tuple[StoreLayout, list[SettingState] | None]:
    """The store, and what its broker runs with. None: no broker runs on it."""
    if store is None:
        with orbitmq.connect(name) as broker:
            return _seen(broker)
    layout = _existing(store)
    if not is_held(layout):
        return layout, None
    with orbitmq.connect(name, store=store) as broker:
        return _seen(broker)


def _seen(broker: Client) -> tuple[StoreLayout, list[SettingState]]:
    return StoreLayout.at(broker.connection.attachment.store), broker.settings()


def _existing(store: Path) -> StoreLayout:
    """Raises: SettingError: there is no store. None is made, because the path may be a typing error."""
    layout = StoreLayout.at(store)
    if not layout.commitlog.is_dir():
        raise SettingError(
            f"cannot use the settings of {layout.root}: it is no store",
            hint="give the folder of a store; orbitmq up makes one",
            name="store",
            value=str(layout.root),
        )
    return layout


def _table(*headings: str) -> Table:
    table = plain_table()
    for heading in headings:
        table.add_column(heading)
    return table


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else escape(str(value))
