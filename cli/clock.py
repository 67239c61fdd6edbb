"""`orbitmq clock`: shows whether the broker believes the machine's clock, by which messages expire, and confirms that the clock
is right."""

from __future__ import annotations

import json
from typing import Annotated

import typer

import orbitmq
from orbitmq.cli.console import duration, out
from orbitmq.cli.options import Json, Name


def clock(
    name: Name = None,
    believe: Annotated[
        bool, typer.Option("--believe", help="Confirm that the clock is right: messages expire by it again.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show whether messages expire by the machine's clock.

    While the clock is ahead of the time that has passed, nothing is removed by age.
    """
    with orbitmq.connect(name) as broker:
        if believe:
            broker.believe_clock()
        ahead = broker.status().clock_ahead_ms
    if as_json:
        print(json.dumps({"ahead_ms": ahead, "believed": believe or not ahead}))
    elif believe:
        out.print("the clock is believed, within seconds: messages expire by it")
    elif ahead:
        out.print(f"[bold red]the clock is {duration(ahead)} ahead of the time that has passed[/]: nothing is removed by age")
        out.print("if it is right, say so: orbitmq clock --believe")
    else:
        out.print("messages expire by the machine's clock")
