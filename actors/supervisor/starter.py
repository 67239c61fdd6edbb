"""The program that started a tree, at the other end of a socket. It gets lines of JSON until the tree runs, and confirms that
it has passed the result on. A tree that nobody was told about must not run, so until the confirmation the starter's end ends
the start."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any


class Starter:
    """descriptor: of a stream socket, which this object closes. Little is written to it, so a write never waits."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.is_gone = False

    @property
    def listens(self) -> bool:
        """True until the starter has confirmed, or has ended."""
        return self._descriptor >= 0

    def fileno(self) -> int:
        return self._descriptor

    def say(self, line: dict[str, Any]) -> bool:
        """False if the starter does not listen any more."""
        if self.listens:
            try:
                os.write(self._descriptor, json.dumps(line).encode() + b"\n")
            except (BrokenPipeError, ConnectionResetError):
                self._ended()
        return self.listens

    def hear(self) -> None:
        """Takes the starter's confirmation, or notes its end. Call it when the descriptor is readable."""
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
