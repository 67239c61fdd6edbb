"""What `verify` tells: one finding a fault, with its place in numbers and in a sentence."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any


class Kind(enum.StrEnum):
    """What is wrong. Names are for programs and stay as they are; docs/recovery.md says what each means."""

    LOG_RECORD = "log-record"
    LOG_UNREADABLE = "log-unreadable"
    LOG_TAIL = "log-tail"
    LOG_SHORT = "log-short"
    LOG_FILE = "log-file"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault, or one thing worth knowing.

    path: the file. offset, size: bytes, in the CommitLog for its kinds, else in the file. topic, queue: where it belongs to
    one. first, count: queue offsets in a queue, entry numbers in an index file. damage: False for what the next start of a
    broker puts right by itself, as after any kill; such a finding does not make a store faulty.
    """

    kind: Kind
    path: str
    text: str
    offset: int | None = None
    size: int | None = None
    topic: str | None = None
    queue: int | None = None
    first: int | None = None
    count: int | None = None
    damage: bool = True

    def as_record(self) -> dict[str, Any]:
        """For JSON: without the fields that do not apply."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a whole run found. begin, end: of the log that was read, physical offsets; end lies behind the last good record.
    faults: findings by kind, those that are not damage left out. log_bytes: read, space behind the end included."""

    begin: int
    end: int
    records: int
    running: bool
    faults: dict[Kind, int]
    notes: int
    log_bytes: int
    took_s: float

    @property
    def whole(self) -> bool:
        return not self.faults
