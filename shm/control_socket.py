"""The client's end of the control socket: it sends questions and matches the answers to them by number.

An answer may come when nobody waits for it any more: the asker ran out of time, was interrupted, or did not want to wait
(`post`). Its number tells it from other answers, so the connection stays usable. Its descriptors are closed, and the
coordinator takes back a session that came with it (`keep`).
"""

from __future__ import annotations

import os
import select
import socket
import time
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any

from orbitmq.errors import ProtocolError
from orbitmq.shm import frames
from orbitmq.shm.runtime import introduction

Answer = tuple[Any, tuple[int, ...]]
SLICE_S = 0.1  # longest sleep: Python handles a signal that came just before the sleep only after it
REFUSAL = 0  # number of an error that is sent before anything was asked


class _Socket(socket.socket):
    """A socket that closes without a warning when it is collected: the object that owns it warns instead
    (client/unclosed.py)."""

    def __del__(self) -> None:
        self.close()


class ControlSocket:
    """A connection to the coordinator, made within so many seconds. Several threads must not use it at once, nor may a signal
    handler in the middle of a call.

    whole: nothing was left half done. After an exception other than those below (a signal handler's, wherever it struck), the
        connection is still usable if this is true.

    Raises (from every method): OSError: the connection is broken; TimeoutError (and whole): the time, in seconds, is over.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self._socket = _Socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._unpacker = frames.Unpacker()
        self._number = REFUSAL
        self._unsent = bytearray()
        self._owed: set[int] = set()  # numbers of questions
        self.whole = False
        try:
            self._socket.settimeout(timeout)
            self._socket.connect(str(path))
            self._socket.setblocking(False)
        except BaseException:
            self.close()
            raise

    def greet(self, timeout: float) -> dict[str, Any]:
        """The exchange before all questions, in which the broker describes itself."""
        # The broker must be told the number that this process has for itself, because it serves one pid namespace only.
        said, _ = self.ask("hello", timeout, **introduction())
        assert isinstance(said, dict)
        return said

    def ask(self, operation: str, timeout: float, **fields: Any) -> Answer:
        """The answer's value and its descriptors, which the caller closes. Raises: what the broker answered; OSError."""
        deadline = time.monotonic() + timeout
        self.whole = False
        before = len(self._unsent)
        number = self._put(operation, fields)
        size = len(self._unsent) - before
        self._send()
        try:
            while (frame := self._received(deadline, number)) is None:
                pass
        except TimeoutError:
            self._withdraw(number, size)
            raise
        self._owed.remove(number)
        self.whole = True
        if "error" in frame.message:
            _close(frame.descriptors)
            raise frames.error_raised(frame.message)
        return frame.message.get("ok"), frame.descriptors

    def keep(self, shape: dict[str, Any], timeout: float) -> None:
        """Says that the answer to "open_session", the last question, has come. The coordinator takes back a session of which
        this is not said next: its answer may be lost wherever a signal handler strikes."""
        self.ask("keep_session", timeout, slot=shape["slot"], epoch=shape["epoch"])

    def post(self, operation: str, **fields: Any) -> None:
        """A question whose answer nobody waits for. Does not wait: if the socket has no room for it now, it goes with the next
        question."""
        self.whole = False
        self._put(operation, fields)
        self._send()
        self.whole = True

    @property
    def unsent(self) -> bool:
        """Whether something waits to be sent. It is lost if the connection is broken."""
        return bool(self._unsent)

    @property
    def closed(self) -> bool:
        return self._socket.fileno() < 0

    def interrupt(self) -> None:
        """Ends the wait of another thread, or of the call that a signal handler interrupted, with an OSError."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._unpacker.close()
        self._socket.close()

    def _put(self, operation: str, fields: dict[str, Any]) -> int:
        self._number += 1
        self._owed.add(self._number)
        self._unsent += frames.pack({"op": operation, "id": self._number, **fields})
        return self._number

    def _withdraw(self, number: int, size: int) -> None:
        """Takes back a question of which nothing has been sent yet, so that the unsent data stays small."""
        if len(self._unsent) >= size:
            self.whole = False
            del self._unsent[-size:]
            self._owed.remove(number)
            self.whole = True

    def _send(self) -> None:
        # A client that is not let in gets its answer before it asks, and finds the socket closed.
        with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent, socket.MSG_NOSIGNAL)]

    def _received(self, deadline: float, number: int) -> frames.Frame | None:
        """The answer to question `number`, if it comes next. All other answers are filed where they belong."""
        self._wait(deadline)
        self._send()
        try:
            found = frames.receive(self._socket, self._unpacker)
        except BlockingIOError:
            return None
        if found is None:
            raise ConnectionResetError("the coordinator closed the control socket")
        mine = None
        for frame in found:
            if frame.message.get("id") in (number, REFUSAL):
                mine = frame
            else:
                self._take_late(frame)
        return mine

    def _take_late(self, frame: frames.Frame) -> None:
        _close(frame.descriptors)
        number: Any = frame.message.get("id")
        if not isinstance(number, int) or number not in self._owed:
            raise ProtocolError(f"could not use an answer: it is to question {number!r}, which nobody asked")
        self._owed.remove(number)

    def _wait(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        # A signal handler may end the wait with an exception; nothing is half done here.
        self.whole = True
        ready = poll.poll(ceil(min(max(0.0, left), SLICE_S) * 1000))
        if not ready and left <= 0:
            raise TimeoutError("the coordinator did not answer in time")
        self.whole = False


def _close(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
