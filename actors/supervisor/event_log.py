"""Where a broker's events end up. The supervisor alone writes them, so that a file can be replaced without losing a line: the
other processes go on writing into their pipes meanwhile.

Without a file, lines go to the supervisor's error output: a terminal, a pipe, the journal. With one, they go there, and the
supervisor's error output becomes the same file, for what is no event. A program that embeds the broker reads records from the
error output, and gets them whether there is a file or not.
"""

from __future__ import annotations

import logging
import os
import select
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from orbitmq.actors.events import ERROR_OUTPUT, PATIENCE_MS
from orbitmq.actors.supervisor.event_text import form_of
from orbitmq.errors import SettingError
from orbitmq.shm.disk_fault import said, way_out
from orbitmq.shm.event import Event, as_record

WAITING_MAX = 1 << 20  # bytes of lines that wait for a reader


class Output:
    """Lines into one descriptor. If it takes none for a while, they wait; if too many wait, the newest are left out, and the
    next line says how many."""

    def __init__(self, descriptor: int, form: Callable[[Event], bytes]) -> None:
        self.descriptor = descriptor
        self._form = form
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._left_out = 0

    def write(self, event: Event) -> None:
        self.flush()
        if self._size > WAITING_MAX:
            self._left_out += 1
            return
        if self._left_out:
            text = f"{self._left_out:,} lines were left out here, because they could not be written"
            self._add(Event(time.time(), logging.WARNING, "supervisor", os.getpid(), text, {"left_out": self._left_out}))
            self._left_out = 0
        self._add(event)
        self.flush()

    def flush(self) -> None:
        """Writes what waits, as far as it finds room. A full disk counts as no room."""
        with suppress(OSError):
            while self._waiting:
                written = os.write(self.descriptor, self._waiting[0])
                self._size -= written
                rest = self._waiting.popleft()[written:]
                if rest:
                    self._waiting.appendleft(rest)

    def finish(self) -> None:
        poll = select.poll()
        poll.register(self.descriptor, select.POLLOUT)
        while self._waiting and poll.poll(PATIENCE_MS):
            before = self._size
            self.flush()
            if self._size == before:
                return

    def _add(self, event: Event) -> None:
        line = self._form(event)
        self._waiting.append(line)
        self._size += len(line)


class EventLog:
    """broker: its name. form: of lines, "text" or "json". path: of the file, if there is one. records: a program reads this
    process's error output, and wants records.

    Raises: SettingError: the file cannot be opened."""

    def __init__(self, broker: str, form: str, path: str, *, records: bool = False) -> None:
        self._path = path
        self._records = records
        lines = form_of(form, broker)
        self._outputs = [Output(ERROR_OUTPUT, as_record)] if records else []
        try:
            place = self._open(None if records else ERROR_OUTPUT) if path else ERROR_OUTPUT
        except OSError as error:
            raise SettingError(
                f"could not write the log file {path!r}: {said(error)}",
                hint=way_out(error, path),
                name="log_file",
                value=path,
            ) from None
        self._file = Output(place, lines) if path or not records else None
        if self._file is not None:
            self._outputs.append(self._file)

    def write(self, event: Event) -> None:
        for each in self._outputs:
            each.write(event)

    def flush(self) -> None:
        for each in self._outputs:
            each.flush()

    def finish(self) -> None:
        """The supervisor ends: what waits gets a last chance, which is short."""
        for each in self._outputs:
            each.finish()

    def reopen(self) -> None:
        """Goes on in a new file under the same name, if somebody has moved the old one. Raises: OSError: there can be none; the
        old one is still written."""
        if self._path and self._file is not None:
            self._file.flush()
            self._open(self._file.descriptor)

    def _open(self, place: int | None) -> int:
        """Opens the file. place: the descriptor that is to be this file from now on; None: any. Returns the descriptor."""
        # A named pipe that nobody reads, or a terminal that is held up, must not stop the supervisor.
        found = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        if place is None:
            return found
        os.dup2(found, place, inheritable=place == ERROR_OUTPUT)
        os.close(found)
        return place
