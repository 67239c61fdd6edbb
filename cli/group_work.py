"""A group of workers, as `orbitmq group describe` shows it: who has what in hand, and why messages wait."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from orbitmq.cli.console import duration, plain_table
from orbitmq.client.admin.status import GroupStatus
from orbitmq.client.work.status import QueueWork, WorkerStatus


def work_picture(group: GroupStatus) -> Iterator[RenderableType]:
    """Its tables, and a line for each reason why messages are not handed out."""
    if group.workers:
        yield _workers(group)
    if group.queues:
        yield _queues(group)
    if any(each.work is not None and each.work.first is not None for each in group.queues):
        yield _first(group)


def _table(*columns: tuple[str, str]) -> Table:
    """columns: heading and "l" or "r". Names take several lines where it is narrow."""
    table = plain_table()
    for heading, side in columns:
        right = side == "r"
        table.add_column(heading, justify="right" if right else "left", no_wrap=right, overflow="fold")
    return table


def _workers(group: GroupStatus) -> Table:
    numbers = ("worker", "session", "in hand", "asks for", "at most", "deadline in")
    wants = [("wants", "l")] if any(each.tags or each.sql for each in group.workers) else []
    table = _table(*((heading, "r") for heading in numbers), ("topics", "l"), *wants)
    for each in group.workers:
        left = "" if each.deadline_s is None else duration(each.deadline_s * 1000)
        count = "" if each.in_hand is None else f"{each.in_hand:,}"
        limits = f"{each.asks_for:,}", f"{each.in_hand_max:,}"
        chosen = [escape(_wanted(each))] if wants else []
        table.add_row(str(each.pid), str(each.slot), count, *limits, left, escape(", ".join(each.topics)), *chosen)
    return table


def _wanted(worker: WorkerStatus) -> str:
    tags = f"tags {' || '.join(worker.tags)}" if worker.tags else ""
    sql = f"sql {worker.sql}" if worker.sql else ""
    return "; ".join(filter(None, (tags, sql)))


def _queues(group: GroupStatus) -> Table:
    missed = [("missed", "r")] if group.removed_messages else []
    numbers = [(heading, "r") for heading in ("committed", "lag", "free", "in hand", "waiting", "done")]
    table = _table(("queue", "l"), *numbers, *missed)
    for each in group.queues:
        work = each.work
        shown = [""] * 4 if work is None else [_count(work.free), _count(work.in_hand), _waiting(work), _count(work.done)]
        lost = [f"{each.removed_messages:,}" if each.removed_messages else ""] if missed else []
        table.add_row(f"{escape(each.topic)}/{each.queue}", f"{each.committed:,}", f"{each.lag_messages:,}", *shown, *lost)
    return table


def _count(messages: int) -> str:
    return f"{messages:,}" if messages else ""


def _waiting(work: QueueWork) -> str:
    """How many, and how long the first of them waits."""
    until = "" if work.next_s is None else f", {duration(work.next_s * 1000)}"
    return f"{_count(work.waiting + work.leaving)}{until}"


def _first(group: GroupStatus) -> Table:
    """What the committed offset of each queue waits for."""
    table = _table(("first left", "l"), ("is", "l"), ("for", "r"), ("deliveries", "r"), ("worker", "r"))
    for each in group.queues:
        first = None if each.work is None else each.work.first
        if first is not None:
            left = "" if first.left_s is None else duration(first.left_s * 1000)
            place = f"{escape(each.topic)}/{each.queue}@{first.offset}"
            table.add_row(place, first.state, left, str(first.deliveries), "" if first.pid is None else str(first.pid))
    return table
