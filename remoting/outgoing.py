"""A connection on which the broker asks another server of RocketMQ's protocol, with headers in JSON
(native/remoting/frame/remoting_frame.h)."""

from __future__ import annotations

import json
import select
import socket
import struct
from collections.abc import Mapping

from orbitmq.remoting.json_body import read_json
from orbitmq.store.settings.listen_address import ListenAddress

VERSION = 407  # RocketMQ 4.9.7's
ANSWER_MAX = 16 << 20
_HEADER_SIZE = 0xFFFFFF  # the byte above it names the form of the header, 0 for JSON


class RefusedError(Exception):
    """The server has answered with another code than 0; the text says which, and its remark."""


class Outgoing:
    """Raises: OSError: the server cannot be reached. timeout_s: of each call."""

    def __init__(self, address: ListenAddress, timeout_s: float) -> None:
        self._socket = socket.create_connection(address, timeout=timeout_s)
        self._opaque = 0

    @property
    def local_host(self) -> str:
        """This machine's address, as the server sees it if nothing between changes it."""
        return str(self._socket.getsockname()[0])

    @property
    def lives(self) -> bool:
        """False: the server has closed the connection. It sends nothing that it was not asked for."""
        return not select.select([self._socket], [], [], 0)[0]

    def ask(self, code: int, fields: Mapping[str, str], body: bytes = b"") -> None:
        """Raises: OSError: the connection is of no use any more. RefusedError."""
        self._opaque += 1
        asked = {"code": code, "language": "PYTHON", "version": VERSION, "opaque": self._opaque, "flag": 0}
        header = json.dumps({**asked, "extFields": {**fields}}).encode()
        self._socket.sendall(struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body)
        while True:
            answer = self._answer()
            if answer.get("opaque") == self._opaque:
                break
        if answer.get("code") != 0:
            raise RefusedError(f"code {answer.get('code')}: {answer.get('remark')!s:.200}")

    def close(self) -> None:
        self._socket.close()

    def _answer(self) -> dict[str, object]:
        size, marked = struct.unpack(">II", self._exactly(8))
        header_size = marked & _HEADER_SIZE
        if marked != header_size or not header_size + 4 <= size <= ANSWER_MAX:
            raise OSError("it does not answer as RocketMQ does")
        content = self._exactly(size - 4)
        try:
            answer = read_json(content[:header_size])
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise OSError("it does not answer as RocketMQ does")
        return answer

    def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            some = self._socket.recv(min(size - len(found), 1 << 16))
            if not some:
                raise ConnectionResetError("it has closed the connection")
            found += some
        return bytes(found)
