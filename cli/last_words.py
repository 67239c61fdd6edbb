"""The end of what a command writes to its standard error."""

from __future__ import annotations

import os
import select
import threading

PIECE = 1 << 16
AT_ONCE = 16  # pieces that are read without a look at the end: somebody may write without a pause


class LastWords:
    """A pipe that a thread reads for as long as anybody has its other end. writer: that end, which the maker closes once the
    command has it. limit: bytes that are kept.

    A command may leave a process in the background, which has the pipe for ever: `said` does not wait for its end."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._lock = threading.Lock()
        self._last = b""
        self._ended = False
        threading.Thread(target=self._read, name="orbitmq-last-words", daemon=True).start()

    def said(self) -> str:
        """All that the pipe has got until now, as far as it is kept."""
        with self._lock:
            self._take()
            return self._last.decode(errors="replace").strip()

    def _read(self) -> None:
        while not self._ended:
            select.select([self._reader], [], [])
            with self._lock:
                self._take()
        os.close(self._reader)

    def _take(self) -> None:
        for _ in range(0 if self._ended else AT_ONCE):
            try:
                piece = os.read(self._reader, PIECE)
            except BlockingIOError:
                return
            self._last = (self._last + piece)[-self._limit :]
            if not piece:
                self._ended = True
                return
