"""What an actor writes on its error output, a pipe to the supervisor: its events, and what else comes, such as an assertion of
C. Each line becomes an event, and the last ones are kept: they say why it died."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable

from orbitmq.shm.event import Event, Lines, from_record

KEPT_LINES = 20
KEPT_CHARACTERS = 4000  # of all of them: the coordinator gets them in one datagram
PIECE = 1 << 16
PIECES_MAX = 32  # of a dead child's: somebody whom it has forked may go on writing


class ChildOutput:
    """Of one life of one process. writer: the end for the child, which the supervisor closes after the fork. tell: takes each
    event. It is for a selector."""

    def __init__(self, actor: str, tell: Callable[[Event], None]) -> None:
        self._reader, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._reader, False)
        self.actor = actor
        self._tell = tell
        self._lines = Lines()
        self._kept: deque[str] = deque(maxlen=KEPT_LINES)
        self.pid = 0

    def fileno(self) -> int:
        return self._reader

    def forked(self, pid: int) -> None:
        self.pid = pid
        os.close(self.writer)

    def hear(self) -> bool:
        """Takes what has come. False: no more will come."""
        piece = self._read()
        for line in self._lines.add(piece or b""):
            self._take(line)
        return piece != b""

    def end(self) -> tuple[str, ...]:
        """The child is dead: takes what it left. Returns its last words, the oldest first."""
        for _ in range(PIECES_MAX):
            piece = self._read()
            if not piece:
                break
            for line in self._lines.add(piece):
                self._take(line)
        for line in self._lines.end():
            self._take(line)
        os.close(self._reader)
        words, room = list[str](), KEPT_CHARACTERS
        for text in reversed(self._kept):
            if room > 0:
                words.append(text[:room])
            room -= len(text)
        return tuple(reversed(words))

    def _read(self) -> bytes | None:
        """None: nothing has come. Nothing: the child has closed its end."""
        try:
            return os.read(self._reader, PIECE)
        except BlockingIOError:
            return None

    def _take(self, line: bytes) -> None:
        event = from_record(line)
        if event is None:
            text = line.decode(errors="replace").rstrip()
            if not text:
                return
            event = Event(time.time(), logging.ERROR, self.actor, self.pid, text)
        self._kept.extend([event.message, *event.exception.splitlines()])
        self._tell(event)
