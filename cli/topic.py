"""`orbitmq topic`: creates topics and lists them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Literal

import typer
from rich.markup import escape

import orbitmq
from orbitmq.cli.console import counted, out, own_durability, plain_table, retention
from orbitmq.cli.options import Json, Name, Store, Topic, usual

app = typer.Typer(help="Create and list topics.", no_args_is_help=True)
PERMISSIONS = {0: "none", 2: "write", 4: "read", 6: "read, write"}


@app.command("create")
def create(
    topic: Topic,
    queues: Annotated[
        int | None,
        typer.Option("--queues", "-q", min=1, help=usual("How many consumers of a group can share it, at most.", "8")),
    ] = None,
    retention_hours: Annotated[
        int | None,
        typer.Option(
            min=-1,
            help=usual("How long its messages are kept; 0: for ever; -1: by the broker's setting.", "-1"),
        ),
    ] = None,
    durability: Annotated[
        Literal["appended", "flushed"] | None,
        typer.Option(help=usual("What receipts wait for if the sender does not say: the log, or the disk.", "appended")),
    ] = None,
    name: Name = None,
    store: Store = None,
) -> None:
    """Create a topic, or give it more queues, another retention or another durability.

    Messages of one queue keep their order. Sending to a topic never creates it.
    """
    with orbitmq.connect(name, store=store) as broker:
        if queues is None:
            queues = next((each.queues for each in broker.topics() if each.name == topic), 8)
        made = broker.create_topic(topic, queues, retention_hours=retention_hours, durability=durability)
    kept = "" if made.retention_hours is None else f", kept {retention(made.retention_hours)}"
    safe = f", durability {made.durability}" if durability or made.durability == "flushed" else ""
    out.print(f"topic [bold]{escape(made.name)}[/] with {counted(made.queues, 'queue')}{kept}{safe}")


@app.command("list")
def list_topics(name: Name = None, store: Store = None, as_json: Json = False) -> None:
    """List the topics."""
    with orbitmq.connect(name, store=store) as broker:
        topics = broker.topics()
    if as_json:
        for each in topics:
            print(json.dumps(asdict(each)))
        return
    if not topics:
        out.print("no topics; make one: [bold]orbitmq topic create NAME[/]")
        return
    table = plain_table()
    table.add_column("topic", style="bold")
    table.add_column("queues", justify="right")
    table.add_column("permission")
    table.add_column("durability")
    table.add_column("kept")
    for each in topics:
        kept = "" if each.retention_hours is None else retention(each.retention_hours)
        permission = PERMISSIONS.get(each.perm & 6, str(each.perm))
        table.add_row(each.name, str(each.queues), permission, own_durability(each.durability), kept)
    out.print(table)
