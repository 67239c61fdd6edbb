"""The columns of the live view's tables: what each shows, and by what it sorts; and which rows a filter leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from rich.text import Text

from orbitmq.cli.console import duration, rate
from orbitmq.cli.panels import LATE_BEAT_MS, STATE_STYLES, events
from orbitmq.cli.printing import one_line
from orbitmq.cli.top.model import ActorRow, GroupRow, TopicRow
from orbitmq.cli.top.series import Series

BARS_WIDTH = 12


class Named(Protocol):
    @property
    def name(self) -> str: ...


R = TypeVar("R", bound=Named)


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """by: what rows are sorted by; None: not by this column. rising: the lowest first. word: the column's name in a
    sentence, if it is not its heading."""

    heading: str
    show: Callable[[R], Text]
    by: Callable[[R], Any] | None = None
    rising: bool = False
    word: str = ""


def chosen(rows: Iterable[R], wanted: str, column: Column[R], backwards: bool = False) -> list[R]:
    """Rows whose names contain what is wanted, upper or lower case, sorted by a column; equal ones by name."""
    by = column.by
    assert by is not None, f"nothing sorts by {column.heading}"
    found = sorted((row for row in rows if wanted.casefold() in row.name.casefold()), key=lambda row: row.name)
    found.sort(key=by, reverse=column.rising == backwards)
    return found


def sortable(columns: Sequence[Column[R]]) -> list[Column[R]]:
    return [column for column in columns if column.by is not None]


def _last(series: Series) -> float:
    """What is not known comes after what is nothing."""
    return -1.0 if series.last is None else series.last


def _rate(series: Series) -> Text:
    return right("" if series.last is None else rate(series.last))


def right(text: str, style: str = "") -> Text:
    return Text(text, style, justify="right")


def _name(row: Named) -> Text:
    return Text(one_line(row.name), "bold")


def _bars(series: Series) -> Text:
    return Text(series.bars(BARS_WIDTH), "cyan")


def _state(row: ActorRow) -> Text:
    return Text(row.status.state, STATE_STYLES.get(row.status.state, "dim"))


def _life(row: ActorRow) -> Text:
    return right(str(row.status.epoch), "yellow" if row.status.epoch > 1 else "")


def _beat(row: ActorRow) -> Text:
    age = row.status.heartbeat_age_ms
    return right(duration(age), "yellow" if age > LATE_BEAT_MS else "")


def _share(row: ActorRow) -> Text:
    return right("" if row.share is None else f"{row.share:.0%}")


def _counts(row: ActorRow) -> bool:
    """Whether messages pass through it."""
    return bool(row.status.counters.get("messages"))


ACTORS: tuple[Column[ActorRow], ...] = (
    Column("actor", _name, lambda row: row.name, rising=True, word="name"),
    Column("state", _state),
    Column("pid", lambda row: right(str(row.status.pid or "-"))),
    Column("life", _life, lambda row: row.status.epoch),
    Column("cpu", _share, lambda row: -1.0 if row.share is None else row.share),
    Column("beat", _beat, lambda row: row.status.heartbeat_age_ms),
    Column("/s", lambda row: _rate(row.rates) if _counts(row) else Text(""), lambda row: _last(row.rates), word="rate"),
    Column("", lambda row: _bars(row.rates) if _counts(row) else Text("")),
    Column("events", lambda row: Text(", ".join(events(row.status)), "dim")),
)
TOPICS: tuple[Column[TopicRow], ...] = (
    Column("topic", _name, lambda row: row.name, rising=True, word="name"),
    Column("/s", lambda row: _rate(row.rates), lambda row: _last(row.rates), word="rate"),
    Column("", lambda row: _bars(row.rates)),
    Column("messages", lambda row: right(f"{row.held:,}"), lambda row: row.held),
    Column("queues", lambda row: right(str(len(row.status.queues))), lambda row: len(row.status.queues)),
)


def _lag(row: GroupRow) -> Text:
    return right(f"{row.status.lag_messages:,}", "yellow" if row.status.lag_messages else "")


def _speed(row: GroupRow) -> Text:
    return right("paused", "bold yellow") if row.status.paused else _rate(row.rates)


def _removed(row: GroupRow) -> Text:
    return right(f"{row.status.removed_messages:,}" if row.status.removed_messages else "", "bold red")


def _topics_of(row: GroupRow) -> Text:
    taken = [member.topics for member in row.status.members] + [worker.topics for worker in row.status.workers]
    names = {topic for topics in taken for topic in topics} | {queue.topic for queue in row.status.queues}
    return Text(one_line(", ".join(sorted(names))), "dim")


GROUPS: tuple[Column[GroupRow], ...] = (
    Column("group", _name, lambda row: row.name, rising=True, word="name"),
    Column("lag", _lag, lambda row: row.status.lag_messages),
    Column("", lambda row: _bars(row.lags)),
    Column("committed/s", _speed, lambda row: _last(row.rates), word="rate"),
    Column("members", lambda row: right(str(row.members) if row.members else "none"), lambda row: row.members),
    Column("missed", _removed, lambda row: row.status.removed_messages),
    Column("topics", _topics_of),
)
