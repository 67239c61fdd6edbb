"""`orbitmq topic`: creates, shows, grows and purges topics, and says who may read and write them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Literal

import typer
from rich.markup import escape

import orbitmq
from orbitmq.cli.answers import sure
from orbitmq.cli.console import counted, out, own_durability, plain_table, retention, tell_deleted, where
from orbitmq.cli.options import Json, Name, Store, Topic, Yes, usual

app = typer.Typer(help="Create, show, grow, purge and delete topics.", no_args_is_help=True)
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


@app.command("describe")
def describe(topic: Topic, name: Name = None, store: Store = None, as_json: Json = False) -> None:
    """Show a topic: its settings, and what each queue holds."""
    with orbitmq.connect(name, store=store) as broker:
        found = broker.topic(topic)
        groups = sorted({group.name for group in broker.groups() for queue in group.queues if queue.topic == topic})
    if as_json:
        print(json.dumps({**asdict(found), "groups": groups}))
        return
    held = sum(queue.max_offset - queue.min_offset for queue in found.queues)
    out.print(f"topic {where(found.name)}  {counted(len(found.queues), 'queue')}  {counted(held, 'message')}")
    kept = "as the broker keeps messages" if found.retention_hours is None else retention(found.retention_hours)
    out.print(f"[dim]permission[/] {_words(found.perm)}  [dim]durability[/] {found.durability}  [dim]kept[/] {kept}")
    out.print(f"[dim]groups[/] {escape(', '.join(groups)) or 'none'}")
    table = plain_table()
    for heading in ("queue", "first", "next", "messages"):
        table.add_column(heading, justify="right")
    for queue in found.queues:
        numbers = (queue.queue, queue.min_offset, queue.max_offset, queue.max_offset - queue.min_offset)
        table.add_row(*(f"{number:,}" for number in numbers))
    out.print(table)


@app.command("grow")
def grow(
    topic: Topic,
    queues: Annotated[int, typer.Option("--queues", "-q", min=1, help="How many queues it is to have.")],
    name: Name = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Give a topic more queues. It never loses any, and messages stay in theirs."""
    with orbitmq.connect(name, store=store) as broker:
        made = broker.grow_topic(topic, queues)
    if as_json:
        print(json.dumps(asdict(made)))
    else:
        out.print(f"topic {where(made.name)} has {counted(made.queues, 'queue')}")


@app.command("permissions")
def permissions(
    topic: Topic,
    read: Annotated[bool | None, typer.Option("--read/--no-read", help="Whether it may be read.")] = None,
    write: Annotated[bool | None, typer.Option("--write/--no-write", help="Whether it may be written.")] = None,
    name: Name = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show whether a topic may be read and written, or change it for everybody."""
    with orbitmq.connect(name, store=store) as broker:
        perm = broker.topic(topic).perm
        if read is not None or write is not None:
            reads, writes = (bool(perm & bit) if wish is None else wish for wish, bit in ((read, 4), (write, 2)))
            perm = broker.set_permissions(topic, read=reads, write=writes).perm
    if as_json:
        print(json.dumps({"name": topic, "perm": perm, "read": bool(perm & 4), "write": bool(perm & 2)}))
    else:
        out.print(f"topic {where(topic)}: {_words(perm)}")


@app.command("purge")
def purge(
    topic: Topic,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="latest|OFFSET|TIME",
            help="The first message that stays: none, this offset, or what was stored at this time, such as 2026-11-22T13:00.",
        ),
    ] = "latest",
    queue: Annotated[int | None, typer.Option("--queue", "-q", min=0, help="Only this queue.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing; show what would be gone.")] = False,
    yes: Yes = False,
    name: Name = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Remove messages of a topic, for all readers and for good.

    The log's files keep their bytes until retention removes them.
    """
    with orbitmq.connect(name, store=store) as broker:
        done = broker.purge_topic(topic, to, queue=queue, dry_run=True)
        count = sum(each.messages for each in done)
        if not dry_run:
            sure(yes or not count, f"purge the topic {topic!r}", f"{counted(count, 'message')} of {topic!r} will be gone")
            done = broker.purge_topic(topic, done)
            count = sum(each.messages for each in done)
    if as_json:
        for each in done:
            print(json.dumps({**asdict(each), "messages": each.messages}))
    else:
        are = "would be" if dry_run else "are" if count != 1 else "is"
        out.print(f"topic {where(topic)}: {counted(count, 'message')} {are} gone")


@app.command("delete")
def delete(topic: Topic, yes: Yes = False, name: Name = None, store: Store = None, as_json: Json = False) -> None:
    """Delete a topic, with all its messages."""
    with orbitmq.connect(name, store=store) as broker:
        for found in broker.status().topics:
            if found.name == topic:
                held = sum(queue.max_offset - queue.min_offset for queue in found.queues)
                sure(yes, f"delete the topic {topic!r}", f"{counted(held, 'message')} of {topic!r} will be gone, and the topic")
        broker.delete_topic(topic)
    tell_deleted("topic", topic, as_json)


def _words(perm: int) -> str:
    return PERMISSIONS.get(perm & 6, str(perm))
