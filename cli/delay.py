"""`orbitmq delay`: the messages that wait for their time."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.markup import escape

import orbitmq
from orbitmq.cli.console import clock_time, out, plain_table
from orbitmq.cli.options import Json, Name, Store
from orbitmq.cli.printing import as_record, one_line

app = typer.Typer(help="List delayed messages: those that wait for their time.", no_args_is_help=True)


@app.command("list")
def list_delayed(
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="Only those that are for this topic.")] = None,
    most: Annotated[int | None, typer.Option("--most", min=1, help="At most so many, the next one first.")] = None,
    name: Name = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List delayed messages whose time has not come yet, the next one first."""
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
