"""`orbitmq status`: the tree's processes, positions, topics and groups, once or live."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer
from rich.live import Live

import orbitmq
from orbitmq.cli.console import out
from orbitmq.cli.exit_codes import DONE, HEALTH_CODES
from orbitmq.cli.looks import Between, Look
from orbitmq.cli.options import Json, Name, Store
from orbitmq.cli.panels import whole_picture
from orbitmq.client.admin.health import STOPPED
from orbitmq.errors import BrokerNotRunning, BrokerStopped

RATE_S = 0.4  # the time over which the rates of one picture are measured


def status(
    name: Name = None,
    store: Store = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Stay, and update the display until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks, with --watch.")] = 1.0,
    queues: Annotated[bool, typer.Option("--queues", "-q", help="Show every queue of the topics and groups.")] = False,
    as_json: Json = False,
) -> None:
    """Show processes, positions, topics and lag.

    This costs the broker nothing: the numbers are in shared memory.
    """
    try:
        connected = orbitmq.connect(name, store=store)
    except BrokerNotRunning:
        print(json.dumps({"state": STOPPED, "health": STOPPED}) if as_json else f"health {STOPPED}", flush=True)
        raise
    with connected as broker:

        def look() -> Look:
            return Look(broker.status())

        try:
            if as_json:
                _print_json(look, interval, watch)
            elif watch:
                _watch(look, interval, queues)
            else:
                before = look()
                time.sleep(RATE_S)
                now = look()
                out.print(whole_picture(Between(before, now), queues))
                _end_as(now)
        except KeyboardInterrupt:
            return


def _end_as(look: Look) -> None:
    """Raises: Exit: with the code for the broker's health, if not all is well."""
    code = HEALTH_CODES.get(look.status.health.state, DONE)
    if code != DONE:
        raise typer.Exit(code)


def _watch(look: Callable[[], Look], interval: float, queues: bool) -> None:
    before = look()
    time.sleep(RATE_S)
    if not out.is_terminal:
        while True:
            now = look()
            out.print(whole_picture(Between(before, now), queues), "")
            before = now
            time.sleep(interval)
    with Live(console=out, auto_refresh=False, screen=True, vertical_overflow="crop") as live:
        try:
            while True:
                now = look()
                live.update(whole_picture(Between(before, now), queues), refresh=True)
                before = now
                time.sleep(interval)
        except BrokerStopped:
            live.stop()
            raise


def _print_json(look: Callable[[], Look], interval: float, watch: bool) -> None:
    while True:
        now = look()
        print(json.dumps({**asdict(now.status), "health": str(now.status.health)}), flush=True)
        if not watch:
            _end_as(now)
            return
        time.sleep(interval)
