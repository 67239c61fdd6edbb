"""What a process of the broker says for its log: events, by Python's logging.

Every process has one handler, at the root of its loggers, so that the libraries it uses say what they say in the same way. An
actor's handler writes records (shm/event.py) to its error output, a pipe to the supervisor (supervisor/child_output.py).
"""

from __future__ import annotations

import logging
import os
import select
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from orbitmq.shm.event import Event, as_record

LOGGER = "orbitmq.broker"
ERROR_OUTPUT = 2
PATIENCE_MS = 1000  # how long a process waits for a supervisor that does not read, once, before it leaves lines out
_log = logging.getLogger(LOGGER)


def debug(text: str, **fields: Any) -> None:
    _log.debug(text, extra={"fields": fields})


def info(text: str, **fields: Any) -> None:
    """The usual course: what is done now and then, and which nobody has to look after."""
    _log.info(text, extra={"fields": fields})


def warn(text: str, **fields: Any) -> None:
    """Something did not go as it should; the broker goes on, or tries again."""
    _log.warning(text, extra={"fields": fields})


def error(text: str, failure: BaseException | None = None, **fields: Any) -> None:
    """Something is lost, stopped or dead. failure: its traceback belongs to the event."""
    _log.error(text, exc_info=failure, extra={"fields": fields})


class EventHandler(logging.Handler):
    """Makes events of what this process logs. give: takes an event; it need not be called by one thread at a time."""

    def __init__(self, actor: str, give: Callable[[Event], None]) -> None:
        super().__init__()
        self._actor = actor
        self._give = give

    def emit(self, record: logging.LogRecord) -> None:
        raised = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
        fields = getattr(record, "fields", {})
        if record.name != LOGGER:
            fields = {**fields, "logger": record.name}
        message = record.getMessage()
        self._give(Event(record.created, record.levelno, self._actor, os.getpid(), message, fields, raised.rstrip()))


class Outlet:
    """Writes records to a pipe that this process shares with nobody. If nobody reads it, lines are left out, and the next one
    says how many: a broker that works must not stop because its log does."""

    def __init__(self, descriptor: int = ERROR_OUTPUT) -> None:
        self._descriptor = descriptor
        self._left_out = 0
        self._begun = b""  # the rest of a record whose beginning is written
        os.set_blocking(descriptor, False)

    def give(self, event: Event) -> None:
        self._begun = self._write(self._begun)
        if self._left_out:
            event = replace(event, fields={**event.fields, "left_out": self._left_out})
        line = as_record(event)
        rest = line if self._begun else self._write(line)
        if rest == line:
            self._left_out += 1
        else:
            self._begun, self._left_out = rest, 0

    def _write(self, data: bytes) -> bytes:
        """Returns what found no room."""
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._descriptor, select.POLLOUT)
                if self._left_out or not poll.poll(PATIENCE_MS):
                    return data
            except OSError:
                return data
        return data


def attach(actor: str, give: Callable[[Event], None]) -> None:
    """From here on, the events of this process go there. The level is as before."""
    logging.getLogger().handlers[:] = [EventHandler(actor, give)]
