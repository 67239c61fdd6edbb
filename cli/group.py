"""`orbitmq group`: shows consumer groups, and moves, stops and deletes them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from shlex import quote
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

import orbitmq
from orbitmq.cli.answers import sure
from orbitmq.cli.console import counted, duration, out, plain_table, rate, tell_deleted, where
from orbitmq.cli.group_work import work_picture
from orbitmq.cli.options import Json, Name, Store, Yes
from orbitmq.cli.panels import groups_table
from orbitmq.cli.status import RATE_S
from orbitmq.client.admin.group_reset import GroupMove
from orbitmq.client.admin.status import GroupStatus
from orbitmq.errors import GroupInUse

app = typer.Typer(help="Show, reset, pause and delete consumer groups.", no_args_is_help=True)
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")]


@app.command("list")
def list_groups(name: Name = None, store: Store = None, as_json: Json = False) -> None:
    """List the groups, with their members, lag and rate."""
    with orbitmq.connect(name, store=store) as broker:
        groups, speed = _watched(broker.groups)
    if as_json:
        for each in groups:
            print(json.dumps(_record(each, speed(each.name))))
    elif groups:
        out.print(groups_table(groups, speed))
    else:
        out.print("no groups; one begins when its first consumer joins: [bold]orbitmq tail TOPIC --group NAME[/]")


@app.command("describe")
def describe(group: GroupName, name: Name = None, store: Store = None, as_json: Json = False) -> None:
    """Show a group: its members, and for each queue who has it, how far it is read, and the lag.

    Of workers: what each has in hand, how the messages of each queue stand, and why some are handed to nobody.
    """
    with orbitmq.connect(name, store=store) as broker:
        (found,), speed = _watched(lambda: [broker.group(group)])
    if as_json:
        print(json.dumps(_record(found, speed(found.name))))
        return
    state = "[bold yellow]paused[/]" if found.paused else f"{rate(speed(found.name))} messages/s committed"
    members = counted(len(found.members), "member") if found.members else "no members now"
    members = counted(len(found.workers), "worker") if found.workers else members
    members += f", in order {found.order}" if found.order else ""
    epoch = "" if found.workers else f"  [dim]epoch {found.epoch}[/]"
    out.print(f"group {where(found.name)}  {members}  lag {found.lag_messages:,}  {state}{epoch}")
    if found.retries and found.next_retry_s is not None:
        waits = "waits" if found.retries == 1 else "wait"
        again = duration(found.next_retry_s * 1000)
        out.print(f"[yellow]{counted(found.retries, 'failed message')}[/] {waits} for the next try, the first for {again}")
    if found.dead_letters:
        letters = counted(found.dead_letters, "dead letter")
        out.print(f"[yellow]{letters}[/], sent again or not: [bold]orbitmq dlq list {escape(quote(found.name))}[/]")
    for reason in found.held_up:
        out.print(f"[bold yellow]held up[/]  {escape(reason)}", soft_wrap=not out.is_terminal)
    parts = work_picture(found) if found.workers else _consuming(found)
    for part in parts:
        out.print()
        out.print(part)


@app.command("reset")
def reset(
    group: GroupName,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="WHERE",
            help="Where to go on: earliest, latest, OFFSET, TIME, +N or -N. TIME as 2026-11-22T13:00, in this machine's zone "
            "unless it names one. +N and -N: messages from where it is.",
        ),
    ],
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Only in this topic.")] = None,
    queue: Annotated[int | None, typer.Option("--queue", "-q", min=0, help="Only in this queue of the topic.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; show what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Accepted as elsewhere; this command does not ask.")] = False,
    name: Name = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Make a group go on somewhere else, with or without members.

    Members continue there at once. What they got before and have not committed, they cannot commit any more.

    The output says where the group was: nothing is lost, and it can be reset to where it was.
    """
    with orbitmq.connect(name, store=store) as broker:
        done = broker.reset_group(group, to, topic=topic, queue=queue, dry_run=dry_run)
    if as_json:
        for each in done:
            print(json.dumps(asdict(each)))
        return
    out.print(f"group {where(group)} {'would go on' if dry_run else 'goes on'} in {counted(len(done), 'queue')}:")
    out.print(_moves(done))


@app.command("pause")
def pause(group: GroupName, name: Name = None, store: Store = None, as_json: Json = False) -> None:
    """Stop a group: its members get no messages until it is resumed, also after restarts."""
    with orbitmq.connect(name, store=store) as broker:
        _tell(broker.pause_group(group), as_json)


@app.command("resume")
def resume(group: GroupName, name: Name = None, store: Store = None, as_json: Json = False) -> None:
    """End a pause: the group goes on where it was."""
    with orbitmq.connect(name, store=store) as broker:
        _tell(broker.resume_group(group), as_json)


@app.command("delete")
def delete(group: GroupName, yes: Yes = False, name: Name = None, store: Store = None, as_json: Json = False) -> None:
    """Forget a group without members, and where it was."""
    with orbitmq.connect(name, store=store) as broker:
        found = broker.group(group)
        there = [each.pid for each in found.members] + [each.pid for each in found.workers]
        if there and not yes:
            # Refused here: before the broker does, the last member may leave, and nobody was asked.
            kind = "worker" if found.workers else "member"
            text = f"cannot delete the group {group!r}: it has {counted(len(there), kind)}, of process"
            pids = sorted(set(there))
            text += f"{'es' if len(pids) > 1 else ''} {', '.join(map(str, pids[:5]))}{', ...' if len(pids) > 5 else ''}"
            hint = "close its workers first" if found.workers else "close its consumers first"
            raise GroupInUse(text, hint=hint, group=group, members=len(there), pids=pids)
        read = counted(len(found.queues), "queue")
        sure(yes, f"delete the group {group!r}", f"where the group {group!r} is in {read} will be forgotten")
        broker.delete_group(group)
    tell_deleted("group", group, as_json)


def _watched(look: Callable[[], list[GroupStatus]]) -> tuple[list[GroupStatus], Callable[[str], float]]:
    """What is there now, and how fast each group has committed in the moment before."""
    before, began = {each.name: _committed(each) for each in look()}, time.monotonic()
    time.sleep(RATE_S)
    now, passed = look(), time.monotonic() - began
    moved = {each.name: max(0, _committed(each) - before.get(each.name, _committed(each))) for each in now}
    return now, lambda name: moved[name] / passed


def _committed(group: GroupStatus) -> int:
    return sum(queue.committed for queue in group.queues)


def _record(group: GroupStatus, speed: float) -> dict[str, Any]:
    sums = {"lag_messages": group.lag_messages, "removed_messages": group.removed_messages, "held_up": group.held_up}
    return {**asdict(group), **sums, "committed_per_s": round(speed, 1)}


def _tell(group: GroupStatus, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"name": group.name, "paused": group.paused}))
    elif group.paused:
        command = f"orbitmq group resume {quote(group.name)}"
        out.print(f"group {where(group.name)} is paused; it goes on with [bold]{escape(command)}[/]")
    else:
        out.print(f"group {where(group.name)} goes on")


def _table(*columns: tuple[str, str]) -> Table:
    """columns: heading and "l" or "r"."""
    table = plain_table()
    for heading, side in columns:
        table.add_column(heading, justify="right" if side == "r" else "left", no_wrap=True)
    return table


def _consuming(group: GroupStatus) -> Iterator[Table]:
    if group.members:
        yield _members(group)
    if group.queues:
        yield _queues(group)


def _members(group: GroupStatus) -> Table:
    table = _table(("member", "r"), ("session", "r"), ("queues", "r"), ("leaving", "r"), ("topics", "l"))
    for each in group.members:
        leaving = str(len(each.leaving)) if each.leaving else ""
        table.add_row(str(each.pid), str(each.slot), str(len(each.queues)), leaving, escape(", ".join(each.topics)))
    return table


def _queues(group: GroupStatus) -> Table:
    owners = {queue: member.pid for member in group.members for queue in member.queues}
    leaving = {queue for member in group.members for queue in member.leaving}
    table = _table(("queue", "l"), ("committed", "r"), ("end", "r"), ("lag", "r"), ("missed", "r"), ("member", "l"))
    for each in group.queues:
        key = (each.topic, each.queue)
        owner = str(owners.get(key, "[dim]nobody[/]")) + (" leaving" if key in leaving else "")
        end = each.committed + each.removed_messages + each.lag_messages
        missed = f"{each.removed_messages:,}" if each.removed_messages else ""
        place = f"{escape(each.topic)}/{each.queue}"
        table.add_row(place, f"{each.committed:,}", f"{end:,}", f"{each.lag_messages:,}", missed, owner)
    return table


def _moves(done: list[GroupMove]) -> Table:
    table = _table(("queue", "l"), ("was at", "r"), ("goes on at", "r"), ("", "l"))
    for each in done:
        before = "" if each.before is None else f"{each.before:,}"
        step = 0 if each.before is None else each.after - each.before
        kind = "skipped" if step > 0 else "again"
        effect = f"{counted(abs(step), 'message')} {kind}" if step else ""
        table.add_row(f"{escape(each.topic)}/{each.queue}", before, f"{each.after:,}", f"[dim]{effect}[/]")
    return table
