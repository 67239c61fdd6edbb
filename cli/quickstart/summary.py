"""What a run of the quickstart did: its stages with counts and rates, and the answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from orbitmq.cli.console import out, plain_table, rate
from orbitmq.cli.quickstart.flights import airlines
from orbitmq.client.client import Client
from orbitmq.shm.disk_fault import byte_count

SHOWN = 5  # airlines


@dataclass(frozen=True, slots=True)
class Stage:
    """seconds: None if the time says nothing. right: the count is that of the source."""

    what: str
    count: int
    seconds: float | None
    right: bool


def check(found: object, expected: object) -> bool:
    """True if a stage has what it should have."""
    return found == expected


def stored_and_left(broker: Client, group: str) -> tuple[int, int]:
    """How many messages the broker has, and how many of them are left for the group."""
    status = broker.status()
    stored = sum(queue.max_offset - queue.min_offset for topic in status.topics for queue in topic.queues)
    return stored, sum(each.lag_messages for each in status.groups if each.name == group)


def show_summary(stages: list[Stage], counts: dict[str, list[int]], folder: Path, seconds: float) -> None:
    """counts: by airline the flights, those that arrived, the sum of their delays, minutes."""
    table = plain_table()
    table.add_column("stage")
    for heading in ("count", "seconds", "a second"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for stage in stages:
        took = f"{stage.seconds:.2f}" if stage.seconds else ""
        speed = rate(stage.count / stage.seconds) if stage.seconds else ""
        table.add_row(stage.what, f"{stage.count:,}", took, speed, "[green]right[/]" if stage.right else "[bold red]WRONG[/]")
    out.print()
    out.print(table)
    out.print()
    out.print(_answer(counts))
    out.print(f"\nthe store     {escape(str(folder / 'store'))}  ({byte_count(_used(folder / 'store'))})")
    out.print(f"the Parquet   {escape(str(folder / 'parquet'))}  ({byte_count(_used(folder / 'parquet'))})")
    out.print(f"{seconds:.0f} seconds in all; nothing is left running")


def _answer(counts: dict[str, list[int]]) -> Table:
    names = airlines()
    table = plain_table()
    table.add_column("most delayed airlines, says Spark", no_wrap=True)
    table.add_column("flights", justify="right")
    table.add_column("mean delay at arrival", justify="right")

    def mean(carrier: str) -> float:
        _, arrived, delay = counts[carrier]
        return delay / arrived if arrived else 0.0

    for carrier in sorted(counts, key=mean, reverse=True)[:SHOWN]:
        table.add_row(escape(names.get(carrier, carrier)), f"{counts[carrier][0]:,}", f"{mean(carrier):.1f} min")
    return table


def _used(folder: Path) -> int:
    """Bytes on disk; files of a store are longer than what they hold."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
