"""The asking end of the control socket: one question at a time, one answer."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from orbitmq.errors import ProtocolError
from orbitmq.shm import frames
from orbitmq.shm.runtime import introduction

Answer = tuple[Any, tuple[int, ...]]


class ControlSocket:
    """A connection to the coordinator. Not for several threads at once.

    Raises (from every method): OSError: the connection is broken, or the timeout, seconds, is over; make another one.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._unpacker = frames.Unpacker()
        self._number = 0
        try:
            self._socket.settimeout(timeout)
            self._socket.connect(str(path))
            # The broker must be told the number that this process has for itself: it serves one pid namespace only.
            self.hello: dict[str, Any] = self.ask("hello", timeout, **introduction())[0]
        except BaseException:
            self.close()
            raise

    def ask(self, operation: str, timeout: float, **fields: Any) -> Answer:
        """The answer's value and its descriptors, which are the caller's to close. Raises: what the broker answered;
        OSError."""
        self._number += 1
        self._socket.settimeout(timeout)
        # One that is not let in has its answer before it asks, and finds the socket closed.
        with suppress(BrokenPipeError, ConnectionResetError):
            frames.send(self._socket, {"op": operation, "id": self._number, **fields})
        while True:
            answers = frames.receive(self._socket, self._unpacker)
            if answers is None:
                raise ConnectionResetError("the coordinator closed the control socket")
            for answer in answers:
                if "error" in answer:
                    raise frames.error_raised(answer)
                if answer.get("id") != self._number:
                    raise ProtocolError(f"cannot use the answer to question {answer.get('id')}, {self._number} was asked")
                descriptors = tuple(self._unpacker.descriptors)
                self._unpacker.descriptors.clear()
                return answer.get("ok"), descriptors

    def close(self) -> None:
        self._unpacker.close()
        self._socket.close()
