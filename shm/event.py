"""An event: one line of a broker's log, with what belongs to it. docs/logs.md says what users see.

The processes of a broker hand events to the supervisor on their error output, and the supervisor hands them to the program that
embeds the broker. There an event is a record: the byte 0x1E, an object of JSON, and a newline (a JSON text sequence, RFC 7464).
Other lines come from what knows nothing of events: an assertion in C, Python's own warnings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MARK = b"\x1e"
LINE_MAX = 1 << 18  # a longer one is cut, so that nobody's output fills the memory of whoever reads it
TEXT_MAX = 8000  # characters of a message, and of a traceback; a character takes 6 bytes at most
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}  # numbers as in Python's logging
NAMES = {number: name for name, number in LEVELS.items()}


@dataclass(frozen=True, slots=True)
class Event:
    """at: seconds since the epoch. actor: the process by its name in `orbitmq status`. fields: what programs look for, of the
    types of JSON. exception: a traceback, in several lines, or nothing."""

    at: float
    level: int
    actor: str
    pid: int
    message: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    exception: str = ""

    @property
    def level_name(self) -> str:
        """The name of this level, or of the next one below it."""
        return NAMES[max((number for number in NAMES if number <= self.level), default=LEVELS["debug"])]


def as_record(event: Event) -> bytes:
    message, exception = event.message[:TEXT_MAX], event.exception[-TEXT_MAX:]
    content = [event.at, event.level, event.actor, event.pid, message, event.fields, exception]
    # half a character, as os.fsdecode makes it, is written as JSON writes it
    text = json.dumps(content, default=str, ensure_ascii=False)
    return MARK + text.encode(errors="backslashreplace") + b"\n"


def from_record(line: bytes) -> Event | None:
    """None: the line is none."""
    if not line.startswith(MARK):
        return None
    try:
        return Event(*json.loads(line[len(MARK) :]))
    except (ValueError, TypeError):
        return None


class Lines:
    """Lines out of pieces, without their newlines. What is too long is cut into several."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, piece: bytes) -> Iterator[bytes]:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        yield from lines
        while len(self._rest) > LINE_MAX:
            yield self._rest[:LINE_MAX]
            self._rest = self._rest[LINE_MAX:]

    def end(self) -> Iterator[bytes]:
        """What is left, without a newline."""
        rest, self._rest = self._rest, b""
        if rest:
            yield rest
