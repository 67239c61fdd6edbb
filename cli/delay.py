"""`orbitmq delay`: lists the messages that wait for their time, and cancels them."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.markup import escape

import orbitmq
from orbitmq.cli.answers import sure
from orbitmq.cli.console import clock_time, counted, out, plain_table
from orbitmq.cli.exit_codes import FAILED
from orbitmq.cli.options import Json, Name, Store, Yes
from orbitmq.cli.printing import as_record, one_line

app = typer.Typer(help="List and cancel delayed messages: those that wait for their time.", no_args_is_help=True)


@app.command("list")
def list_delayed(
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="Only those that are for this topic.")] = None,
    most: Annotated[int | None, typer.Option("--most", min=1, help="At most so many, the next one first.")] = None,
    name: Name = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List delayed messages whose time has not come yet, the next one first.

    The last column is what `orbitmq delay cancel` takes, as a place in the queue of messages with a time.
    """
    with orbitmq.connect(name, store=store) as broker:
        found = broker.delayed(topic, most=most)
    if as_json:
        for each in found:
            about = {"due_ms": each.due_ms, "for_topic": each.topic, "for_queue": each.queue, "place": each.place}
            print(json.dumps(as_record(each.message) | about, ensure_ascii=False))
        return
    if not found:
        out.print("no message waits for its time")
        return
    table = plain_table()
    for heading in ("due", "topic", "keys", "stored", "place"):
        table.add_column(heading, no_wrap=True)
    for each in found:
        stored = clock_time(each.message.stored_ms)[:19]
        row = [clock_time(each.due_ms), each.topic, " ".join(each.message.keys), stored, each.place]
        table.add_row(*(escape(one_line(text)) for text in row))
    out.print(table)


@app.command("cancel")
def cancel(
    handles: Annotated[
        list[str], typer.Argument(metavar="HANDLE...", help="The id of a receipt, or a place as `orbitmq delay list` shows it.")
    ],
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait for the answer.")] = 30.0,
    yes: Yes = False,
    name: Name = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Cancel delayed messages: they never come.

    This is for messages with a time (`send --delay` and `--deliver-at`), not for those with a level. If one is too late, the
    others are cancelled all the same, and the exit code is 1.
    """
    what = counted(len(handles), "delayed message")
    with orbitmq.connect(name, store=store) as broker:
        sure(yes, f"cancel {what}", f"{what} will never come")
        never = broker.cancel_batch(handles, timeout=timeout)
    for handle, cancelled in zip(handles, never, strict=True):
        if as_json:
            print(json.dumps({"handle": handle, "cancelled": cancelled}))
        else:
            out.print(
                f"{escape(one_line(handle))}  {'[green]cancelled[/]' if cancelled else '[red]too late[/]: its time has come'}"
            )
    if not all(never):
        raise typer.Exit(FAILED)
