"""`orbitmq dlq`: the messages that groups have given up. Lists them, shows one, sends them again, and removes them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.markup import escape

import orbitmq
from orbitmq.cli.answers import sure
from orbitmq.cli.console import clock_time, counted, out, plain_table, where
from orbitmq.cli.options import Json, Name, Store, Yes
from orbitmq.cli.printing import as_record, one_line, print_whole
from orbitmq.client.dead_letter.dead_letter import DeadLetter

app = typer.Typer(help="List, show, redrive and purge dead letters: messages that a group has given up.", no_args_is_help=True)
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The group that gave them up.")]


@app.command("list")
def list_letters(
    group: Annotated[
        str | None, typer.Argument(metavar="[GROUP]", help="Only this group's; without it, how many each has.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", "-a", help="Also those that were sent again.")] = False,
    most: Annotated[int | None, typer.Option("--most", min=1, help="At most so many, oldest first.")] = None,
    name: Name = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List dead letters, oldest first; without a group, the groups that have some."""
    with orbitmq.connect(name, store=store) as broker:
        if group is None:
            _list_groups(broker, as_json)
            return
        letters = broker.dead_letters(group).list(redriven=None if every else False, most=most)
    if as_json:
        for each in letters:
            print(json.dumps(record_of(each), ensure_ascii=False))
        return
    if not letters:
        out.print(f"group {where(group)} has no dead letters{'' if every else ' that were not sent again'}")
        return
    table = plain_table()
    for heading in ("offset", "tries"):
        table.add_column(heading, justify="right")
    for heading in ("died", "topic", "keys", "reason", "digest"):
        table.add_column(heading, no_wrap=heading != "reason")
    if every:
        table.add_column("sent again")
    for each in letters:
        row = [str(each.offset), str(each.tries), clock_time(each.died_ms)[:19], each.topic or "", " ".join(each.message.keys)]
        row += [each.reason, each.digest, *([each.redriven or ""] if every else [])]
        table.add_row(*(escape(one_line(text)) for text in row))
    out.print(table)


@app.command("show")
def show(
    group: GroupName,
    offset: Annotated[int, typer.Argument(min=0, help="Of the dead letter, as `list` shows it.")],
    name: Name = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show one dead letter with everything about it."""
    with orbitmq.connect(name, store=store) as broker:
        letter = broker.dead_letters(group).letter(offset)
        if as_json:
            print(json.dumps(record_of(letter), ensure_ascii=False))
            return
        again = f"sent again as {letter.redriven}" if letter.redriven else "not sent again"
        out.print(f"group {where(group)} gave it up after {'1 try' if letter.tries == 1 else f'{letter.tries} tries'}; {again}")
        print_whole(letter.message)


@app.command("redrive")
def redrive(
    group: GroupName,
    offsets: Annotated[list[int] | None, typer.Argument(metavar="[OFFSET]...", help="Only these; without one, all.")] = None,
    most: Annotated[int | None, typer.Option("--most", min=1, help="At most so many, oldest first.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Accepted as elsewhere; this command does not ask.")] = False,
    name: Name = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Send dead letters again, to the topics to which they were sent first.

    Each is sent once, also if the command is killed and run again.
    """
    with orbitmq.connect(name, store=store) as broker:
        sent = broker.dead_letters(group).redrive(offsets or None, most=most)
    if as_json:
        for each in sent:
            print(json.dumps(record_of(each), ensure_ascii=False))
        return
    topics = ", ".join(sorted({where(each.topic or "") for each in sent}))
    out.print(f"sent {counted(len(sent), 'dead letter')} again{f', to {topics}' if sent else ''}")


@app.command("purge")
def purge(
    group: GroupName,
    to: Annotated[
        str,
        typer.Option("--to", metavar="WHERE", help="The first that stays: latest (none), OFFSET, or TIME as 2026-11-22T13:00."),
    ] = "latest",
    yes: Yes = False,
    name: Name = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Remove dead letters for good, sent again or not, oldest first."""
    with orbitmq.connect(name, store=store) as broker:
        letters = broker.dead_letters(group)
        first = letters.bounds.minimum
        count = letters.purge(to, dry_run=True)
        if count:
            lost = f"{counted(count, 'dead letter')} cannot be read or sent again after that"
            sure(yes, f"purge the dead letters of the group {group!r}", lost)
            count = letters.purge(first + count)  # not those that have died since
    if as_json:
        print(json.dumps({"group": group, "purged": count}))
    else:
        out.print(f"purged {counted(count, 'dead letter')} of the group {where(group)}")


def record_of(letter: DeadLetter) -> dict[str, Any]:
    """A dead letter as JSON: the message, and what is known about its death."""
    about = {
        "group": letter.group,
        "original_topic": letter.topic,
        "tries": letter.tries,
        "reason": letter.reason,
        "digest": letter.digest,
        "died_ms": letter.died_ms,
        "first_id": letter.first_id,
        "redriven": letter.redriven,
    }
    return as_record(letter.message) | about


def _list_groups(broker: orbitmq.Client, as_json: bool) -> None:
    rows = []
    for group in broker.dead_letter_groups():
        letters = broker.dead_letters(group)
        rows.append((group, len(letters.list()), letters.bounds.maximum - letters.bounds.minimum))
    if as_json:
        for group, left, there in rows:
            print(json.dumps({"group": group, "letters": left, "with_redriven": there}))
        return
    if not rows:
        out.print("no group has dead letters")
        return
    table = plain_table()
    table.add_column("group", style="bold")
    table.add_column("dead letters", justify="right")
    table.add_column("with those sent again", justify="right")
    for group, left, there in rows:
        table.add_row(escape(group), f"{left:,}", f"{there:,}")
    out.print(table)


