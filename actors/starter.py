"""Whoever started a tree, at the other end of a socket: he hears lines of JSON until the tree runs, and confirms that he has
passed it on. A tree that nobody was told of must not run, so until then his end ends the start."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any


class Starter:
    """descriptor: of a stream socket, which this object closes. Its numbers of bytes are small: a write never waits."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.is_gone = False

    @property
    def listens(self) -> bool:
        """Until he has confirmed, or has ended."""
        return self._descriptor >= 0

    def fileno(self) -> int:
        return self._descriptor

    def say(self, line: dict[str, Any]) -> bool:
        """False when he does not listen any more."""
        if self.listens:
            try:
                os.write(self._descriptor, json.dumps(line).encode() + b"\n")
            except (BrokenPipeError, ConnectionResetError):
                self._ended()
        return self.listens

    def hear(self) -> None:
        """Takes his confirmation, or notes his end; to be called when the descriptor is readable."""
        said = b""
        with suppress(ConnectionResetError):
            said = os.read(self._descriptor, 64)
        if said:
            self.close()
        else:
            self._ended()

    def close(self) -> None:
        if self.listens:
            os.close(self._descriptor)
            self._descriptor = -1

    def _ended(self) -> None:
        self.is_gone = True
        self.close()
