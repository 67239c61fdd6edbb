"""`orbitmq doctor`: looks at everything that a broker needs, and says what it would change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from orbitmq.cli.console import counted, out, plain_table
from orbitmq.cli.doctor import clock, extras, limits, machine, ports, runtime, shared_memory, store
from orbitmq.cli.doctor.finding import Finding, Level
from orbitmq.cli.options import Json, Name
from orbitmq.errors import OrbitError
from orbitmq.shm.disk_fault import said, way_out
from orbitmq.shm.runtime import broker_name
from orbitmq.store import lock
from orbitmq.store.layout import StoreLayout

_MARKS = {Level.FINE: "[green]fine[/]", Level.ADVICE: "[yellow]advice[/]", Level.WRONG: "[bold red]wrong[/]"}


def doctor(
    where: Annotated[Path, typer.Option("--store", "-s", help="Folder of the store; it need not exist yet.")] = Path("data"),
    name: Name = None,
    as_json: Json = False,
) -> None:
    """Look at what a broker needs, and say what to change.

    Looks at the machine, its limits, the runtime folder, /dev/shm, the store and its file system, the ports for RocketMQ's
    clients, the clock, and the versions of what extras need. Changes nothing. A broker may run meanwhile.

    Exit code: 0 all is fine, 1 there is advice, 2 something is wrong.
    """
    findings = look(StoreLayout.at(where), broker_name(name))
    if as_json:
        for each in findings:
            print(json.dumps(each.as_record()))
    else:
        _show(findings)
    worst = max(each.level for each in findings)
    if worst:
        raise typer.Exit(int(worst))


def look(layout: StoreLayout, name: str) -> list[Finding]:
    """All findings, in the order in which a start would meet them."""
    parts: dict[str, Callable[[], list[Finding]]] = {
        "machine": machine.look,
        "limits": limits.look,
        "runtime folder": lambda: runtime.look(name),
        "shared memory": lambda: shared_memory.look(layout.root.is_dir() and lock.is_held(layout)),
        "store": lambda: store.look(layout),
        ports.NOUN: lambda: ports.look(layout),
        "clock": lambda: clock.look(layout),
        "extras": extras.look,
    }
    return [finding for noun, part in parts.items() for finding in _tried(noun, part)]


def _tried(noun: str, part: Callable[[], list[Finding]]) -> list[Finding]:
    """What cannot be looked at does not hide the rest."""
    try:
        return part()
    except OrbitError as error:
        return [Finding.of_error(noun, error)]
    except OSError as error:
        return [Finding.of_error(noun, OrbitError(said(error), hint=way_out(error) or "run the command as the broker's user"))]


def _show(findings: list[Finding]) -> None:
    table = plain_table()
    for heading in ("", "what", "is"):
        table.add_column(heading)
    for each in findings:
        table.add_row(_MARKS[each.level], each.noun, escape(each.found))
        if each.change:
            table.add_row("", "", f"[bold]{escape(each.change)}[/]")
    out.print(table)
    wrong, advice = (sum(each.level == level for each in findings) for level in (Level.WRONG, Level.ADVICE))
    if wrong or advice:
        out.print(f"{counted(wrong, 'thing')} wrong, {counted(advice, 'piece')} of advice")
    else:
        out.print("all is fine")
