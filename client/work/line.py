"""The memory that a worker's session shares with the broker, as long as a thread sleeps in it."""

from __future__ import annotations

from typing import Any

from orbitmq.client.connection.session import SessionHandle


class Line:
    """The mapped session. It stays mapped until no thread sleeps in it any more. Changed under its user's lock."""

    def __init__(self, link: Any, handle: SessionHandle) -> None:
        self.link = link
        self._handle = handle
        self._sleepers = 0
        self._ended = False

    def entered(self) -> Line:
        self._sleepers += 1
        return self

    def left(self) -> None:
        self._sleepers -= 1
        self._close()

    def end(self) -> None:
        """The broker is told at once."""
        self._ended = True
        if self._sleepers:
            self._handle.leave()
        self._close()

    def _close(self) -> None:
        if self._ended and not self._sleepers:
            self._handle.close()
