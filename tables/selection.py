"""What is to be read of a store: topics and queues, from where to where, which messages, which columns."""

from __future__ import annotations

from dataclasses import dataclass, field

from orbitmq.tables.choice import Choice
from orbitmq.tables.ends import EARLIEST, LATEST, Offsets

FLUSHED, APPENDED = "flushed", "appended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """read: "flushed" or "appended". tags: encoded; none: all messages. sql: a SQL92 filter, encoded. fail_on_data_loss: if
    offsets are gone that were asked for, that is an error."""

    choice: Choice
    starting: Offsets = field(default_factory=lambda: Offsets("start", EARLIEST))
    ending: Offsets = field(default_factory=lambda: Offsets("end", LATEST))
    fail_on_data_loss: bool = True
    read: str = FLUSHED
    tags: tuple[bytes, ...] = ()
    sql: bytes | None = None
    columns: tuple[str, ...]
