"""The results of `verify`: one finding a fault, with its place in numbers and in a sentence."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any


class Kind(enum.StrEnum):
    """What is wrong. Programs rely on these names, so they do not change; docs/recovery.md says what each means."""

    LOG_RECORD = "log-record"
    LOG_UNREADABLE = "log-unreadable"
    LOG_TAIL = "log-tail"
    LOG_SHORT = "log-short"
    LOG_FILE = "log-file"
    MESSAGE_LOST = "message-lost"
    QUEUE_MISSING = "queue-missing"
    QUEUE_UNIT = "queue-unit"
    QUEUE_EXTRA = "queue-extra"
    QUEUE_OFFSET = "queue-offset"
    QUEUE_GAP = "queue-gap"
    QUEUE_FILE = "queue-file"
    INDEX_KEY = "index-key"
    INDEX_ENTRY = "index-entry"
    INDEX_TIME = "index-time"
    INDEX_CHAIN = "index-chain"
    INDEX_SLOT = "index-slot"
    INDEX_HEADER = "index-header"
    INDEX_REST = "index-rest"
    INDEX_FILE = "index-file"
    POSITIONS = "positions"
    RISING = "rising"
    REPUT = "reput"
    CHECKPOINT = "checkpoint"
    CONFIG = "config"
    COMMITS = "commits"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault, or one thing worth knowing.

    path: the file or folder. offset, size: bytes, of the CommitLog if the kind is about it or about a queue, else of the file.
        topic, queue: if it belongs to one. first, count: queue offsets of a queue, entries or slots of an index file. damage:
        False if the next start of a broker corrects it by itself, as after any kill; such a finding does not make a store
        faulty.
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
        """For JSON, without the fields that do not apply."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """A queue as the log has it: its good records have the queue offsets [first, next), except those found to be lost. first
    None: the log has no record of it; it continues at `next` all the same."""

    first: int | None
    next: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes [offset, end) of the log that are no record; they are in one file. shaped: they look like one whole record.
    records_before: good records of the log before them, the newest of them stored at before_ms (0: there is none). last:
    nothing good follows."""

    offset: int
    end: int
    shaped: bool
    records_before: int
    before_ms: int
    last: bool


@dataclass(frozen=True, slots=True)
class Lost:
    """Messages [first, first + count) of a queue that no longer have a record. begin, end: where the log had them; None if only
    the queue's units know of them."""

    topic: str
    queue: int
    first: int
    count: int
    begin: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a whole run found. begin, end: of the log that was read, physical offsets; end is after the last good record.
    faults: findings by kind, without those that are not damage. read_bytes: of log, queues and index together. gaps, lost: what
    is damaged in the log, and which messages with it, without a tail that the next start cuts."""

    begin: int
    end: int
    records: int
    last_ms: int
    running: bool
    queues: dict[tuple[str, int], QueueSeen]
    faults: dict[Kind, int]
    notes: int
    read_bytes: int
    took_s: float
    gaps: tuple[Gap, ...] = ()
    lost: tuple[Lost, ...] = ()

    @property
    def whole(self) -> bool:
        return not self.faults
