"""How a broker is shown: the tables of `orbitmq status`, and the one line of `orbitmq up`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from orbitmq.cli.console import clock_time, duration, own_durability, plain_table, rate, retention
from orbitmq.cli.looks import Between
from orbitmq.cli.printing import one_line
from orbitmq.client.admin.status import ActorStatus, GroupStatus, MemberStatus, Status
from orbitmq.shm.death import Death
from orbitmq.shm.disk_fault import byte_count

STATE_STYLES = {"running": "green", "starting": "yellow", "recovering": "yellow", "stopping": "yellow", "failed": "bold red"}
WORDS_SHOWN = 5  # of the last words of a process; --json has all that are kept
LATE_BEAT_MS = 5000  # a heartbeat this old is shown in yellow; nothing is killed for it

# Counters that are shown if they are not 0, each with its label.
EVENTS = {
    "rejected": "rejected",
    "full": "waits for room",
    "syncs": "syncs",
    "indexed": "keys indexed",
    "blanks": "files ended",
    "redelivered": "verdicts given again",
    "faults": "given up",
    "duplicates": "stored before",
    "ids": "ids remembered",
    "passed": "passed on",
}


def summary_line(between: Between) -> str:
    """A broker in one line of markup."""
    now = between.now.status
    behind = now.positions.wrote - now.positions.flushed
    lag = sum(group.lag_messages for group in now.groups)
    parts = [
        f"[{STATE_STYLES.get(now.state, 'red')}]●[/] {now.state}",
        f"[bold]{rate(between.of_actor('writer', 'messages'))}[/] messages/s",
        f"{byte_count(between.of_position('wrote'))}/s",
        f"log at {byte_count(now.positions.wrote)}",
        f"{byte_count(behind)} not yet on disk" if behind else "all on disk",
        f"{len(now.sessions)} sessions",
    ]
    return "  ".join([*parts, f"lag {lag:,}"] if now.groups else parts)


def whole_picture(between: Between, queues: bool = False) -> RenderableType:
    """Everything about a broker. queues: also one line for each queue."""
    now = between.now.status
    parts: list[RenderableType] = [_head(now), "", _processes(between), "", _positions(between), ""]
    parts += [_topics(between, queues) if now.topics else Text("no topics yet", style="dim"), ""]
    if now.groups:
        parts += [groups_table(now.groups, between.of_group, queues), ""]
    parts += [Text.from_markup(_transactions(now))] if now.open_transactions else []
    notes = (Text.from_markup(f"[bold yellow]note[/]  {escape(note)}") for note in now.notes)
    deaths = (Text.from_markup(line) for death in now.deaths for line in _death(death))
    return Group(*parts, Text.from_markup(_sessions(now)), *notes, *deaths)


def _head(now: Status) -> RenderableType:
    style = STATE_STYLES.get(now.state, "red")
    flush = (
        "every receipt waits for the disk"
        if now.flush == "batch"
        else f"flushed every {now.flush_interval_ms} ms, or on demand"
    )
    kept = f"kept {retention(now.retention_hours)}" + (f", {byte_count(now.retention_bytes)}" if now.retention_bytes else "")
    oldest = "empty" if now.positions.min_offset == now.positions.wrote else "oldest message cannot be read"
    if now.oldest_ms:
        oldest = f"oldest message {clock_time(now.oldest_ms)}, at {now.positions.min_offset:,}"
    health = now.health
    style_of_health = {"ok": "green", "degraded": "yellow"}.get(health.state, "bold red")
    return Text.from_markup(
        f"[dim]health[/] [{style_of_health}]{escape(str(health))}[/]\n"
        f"broker [bold]{escape(now.name)}[/]  [{style}]● {now.state}[/]  pid {now.pid}  version {now.version}\n"
        f"[dim]store[/]  {escape(now.store)}   [dim]{flush}[/]\n"
        f"[dim]log[/]    {oldest}   [dim]{kept}[/]{_clock(now)}"
    )


def _death(death: Death) -> Iterable[str]:
    age = duration(max(0.0, time.time() - death.at) * 1000)
    yield f"[bold yellow]died[/]  {escape(death.actor)}, process {death.pid}, {age} ago: {escape(death.ended)}"
    for words in death.words[-WORDS_SHOWN:]:
        yield f"      [dim]{escape(one_line(words))}[/]"


def _clock(now: Status) -> str:
    if not now.clock_ahead_ms:
        return ""
    ahead = f"the clock is {duration(now.clock_ahead_ms)} ahead of the time that has passed, nothing expires by age"
    return f"\n[bold red]{ahead}[/] (orbitmq clock)"


def _table(*columns: tuple[str, str]) -> Table:
    """columns: heading and "l" or "r"; the last one is shortened if the terminal is narrow."""
    table = plain_table()
    for heading, side in columns:
        table.add_column(heading, justify="right" if side == "r" else "left", no_wrap=True)
    table.columns[-1].no_wrap = False
    return table


def _processes(between: Between) -> Table:
    table = _table(
        ("process", "l"),
        ("state", "l"),
        ("pid", "r"),
        ("life", "r"),
        ("heartbeat", "r"),
        ("messages", "r"),
        ("/s", "r"),
        ("", "l"),
    )
    for actor in between.now.status.actors:
        messages = actor.counters.get("messages", 0)
        age = duration(actor.heartbeat_age_ms)
        table.add_row(
            escape(actor.name),
            f"[{STATE_STYLES.get(actor.state, 'dim')}]{actor.state}[/]",
            str(actor.pid or "-"),
            f"[yellow]{actor.epoch}[/]" if actor.epoch > 1 else str(actor.epoch),
            f"[yellow]{age}[/]" if actor.heartbeat_age_ms > LATE_BEAT_MS else age,
            f"{messages:,}" if messages else "",
            rate(between.of_actor(actor.name, "messages")) if messages else "",
            f"[dim]{escape(', '.join(events(actor)))}[/]",
        )
    return table


def events(actor: ActorStatus) -> Iterable[str]:
    if actor.error:
        yield f"stopped by {os.strerror(actor.error)}"
    for counter, word in EVENTS.items():
        if count := actor.counters.get(counter, 0):
            yield f"{count:,} {word}"
            if counter == "rejected" and actor.refused:
                yield from (f"{n:,} {reason.replace('_', ' ')}" for reason, n in actor.refused.items())
    if actor.quantiles:
        middle, high = actor.quantiles.get(0.5, 0), actor.quantiles.get(0.99, 0)
        if actor.name == "flush":
            yield f"sync p50 {duration(middle / 1000)}, p99 {duration(high / 1000)}"
        elif actor.name == "writer":
            yield f"write groups of {middle:,} (p99 {high:,})"


def _positions(between: Between) -> Table:
    now = between.now.status.positions
    table = _table(("position", "l"), ("bytes", "r"), ("/s", "r"), ("behind", "r"), ("means", "l"))
    rows = [
        ("wrote", "appended: survives any process", now.wrote_error),
        ("flushed", "on disk: survives the machine", now.flushed_error),
        ("reput", "readable by consumers, found by key", now.reput_error),
    ]
    for name, meaning, error in rows:
        value = getattr(now, name)
        behind = now.wrote - value
        note = f"[bold red]stopped: {os.strerror(error)}[/]" if error else f"[dim]{meaning}[/]"
        if name == "flushed" and error:
            refuses = between.now.status.after_failed_sync == "refuse"
            taken = "sends are refused" if refuses else "what is sent may never be on disk"
            note = f"[bold red]stopped: {os.strerror(error)}; {taken} until the broker is restarted[/]"
        if name == "wrote" and not error and now.allocated_error:
            note = f"[bold red]no file to go on in: {os.strerror(now.allocated_error)}[/]"
        if name == "reput" and not error and now.queues_error:
            why = os.strerror(now.queues_error)
            note = (
                f"[bold red]queues and index not synced: {why}; the next start makes them anew, until then nothing expires[/]"
            )
        table.add_row(name, f"{value:,}", byte_count(between.of_position(name)), byte_count(behind) if behind > 0 else "", note)
    return table


def _topics(between: Between, queues: bool) -> Table:
    numbers = [(heading, "r") for heading in ("queues", "first", "next", "messages", "/s")]
    table = _table(("topic", "l"), *numbers, ("kept", "l"), ("durability", "l"))
    for topic in between.now.status.topics:
        first = sum(queue.min_offset for queue in topic.queues)
        following = sum(queue.max_offset for queue in topic.queues)
        table.add_row(
            f"[bold]{escape(topic.name)}[/]",
            str(len(topic.queues)),
            f"{first:,}",
            f"{following:,}",
            f"{following - first:,}",
            rate(between.of_topic(topic.name)),
            "" if topic.retention_hours is None else retention(topic.retention_hours),
            own_durability(topic.durability),
        )
        for queue in topic.queues if queues else ():
            held = queue.max_offset - queue.min_offset
            table.add_row("", f"[dim]{queue.queue}[/]", f"{queue.min_offset:,}", f"{queue.max_offset:,}", f"{held:,}")
    return table


def groups_table(groups: Iterable[GroupStatus], speed: Callable[[str], float], queues: bool = False) -> Table:
    """speed: of a group, messages a second that it commits. queues: also one line for each queue."""
    table = _table(("group", "l"), ("members", "l"), ("topics", "l"), ("lag", "r"), ("committed/s", "r"), ("missed", "r"))
    for column in table.columns:  # lag and pause are what one looks for; names take several lines where it is narrow
        column.no_wrap = column.justify == "right"
        column.overflow = "fold"
    for group in groups:
        lag = group.lag_messages
        pids = ", ".join(f"{member.pid} ({_held(member)})" for member in group.members)
        pids = pids or ", ".join(f"{pid} works" for pid in sorted({worker.pid for worker in group.workers}))
        pids += f" in order {group.order}" if pids and group.order else ""
        leaving = {queue for member in group.members for queue in member.leaving}
        taken = [member.topics for member in group.members] + [worker.topics for worker in group.workers]
        table.add_row(
            f"[bold]{escape(group.name)}[/]",
            pids or "[dim]none now[/]",
            escape(", ".join(sorted({topic for topics in taken for topic in topics} | {q.topic for q in group.queues}))),
            f"[yellow]{lag:,}[/]" if lag else "0",
            "[bold yellow]paused[/]" if group.paused else rate(speed(group.name)),
            f"[bold red]{group.removed_messages:,}[/]" if group.removed_messages else "",
        )
        for queue in group.queues if queues else ():
            table.add_row(
                "",
                f"[dim]committed {queue.committed:,}[/]{' leaving' if (queue.topic, queue.queue) in leaving else ''}",
                f"{escape(queue.topic)}/{queue.queue}",
                f"{queue.lag_messages:,}",
                "",
                f"{queue.removed_messages:,}" if queue.removed_messages else "",
            )
    return table


def _held(member: MemberStatus) -> str:
    """How many queues, and how many of them another member is to get."""
    return f"{len(member.queues)}, {len(member.leaving)} leaving" if member.leaving else str(len(member.queues))


def _transactions(now: Status) -> str:
    age = ""
    if now.oldest_transaction_ms:
        age = f", the oldest for {duration(max(0, time.time() * 1000 - now.oldest_transaction_ms))}"
    return f"[dim]transactions[/]  {now.open_transactions:,} open{age} (orbitmq transactions list)"


def _sessions(now: Status) -> str:
    producers = sum(session.window > 0 for session in now.sessions)
    consumers = len(now.sessions) - producers
    return f"[dim]sessions[/]  {producers} producing, {consumers} consuming"
