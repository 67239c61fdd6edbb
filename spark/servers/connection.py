"""One connection to a name server, a broker or a gateway, in RocketMQ's protocol: requests and answers as frames with a JSON
header. Requests are made one after the other; what the other side asks meanwhile is left unheeded."""

from __future__ import annotations

import json
import socket
from typing import Any, NamedTuple

from orbitmq.spark.servers.servers import Servers
from orbitmq.spark.servers.signature import signed
from orbitmq.store.settings.listen_address import ListenAddress

VERSION = 407  # of RocketMQ 4.9.3, which the fields are those of
FRAME_MAX = 64 << 20  # more than any record, or any answer to a pull
ANSWER = 1  # bit of a header's flag


class DamagedError(ValueError):
    """What came is no answer of RocketMQ's protocol."""


class Answer(NamedTuple):
    code: int
    remark: str
    fields: dict[str, str]
    body: bytes


class Connection:
    """Encrypted and signed as `servers` says. Raises: OSError: nobody listens there, or speaks TLS if that is wanted, or its
    certificate is not believed, which is an ssl.SSLCertVerificationError. It must be closed after an error."""

    def __init__(self, address: ListenAddress, servers: Servers, timeout: float) -> None:
        self._servers = servers
        self._socket = socket.create_connection(address, timeout=timeout)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            context = servers.context()
            if context is not None:
                self._socket = context.wrap_socket(self._socket, server_hostname=address.host)
        except BaseException:
            self._socket.close()
            raise
        self._stream = self._socket.makefile("rb", buffering=1 << 16)
        self._opaque = 0

    def ask(self, code: int, fields: dict[str, object], timeout: float, body: bytes = b"") -> Answer:
        """Raises: OSError: the connection was closed or is silent; DamagedError."""
        self._opaque += 1
        self._socket.settimeout(timeout)
        told = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
        if self._servers.access is not None and self._servers.secret is not None:
            told = signed(told, body, self._servers.access, self._servers.secret)
        self._socket.sendall(_request(code, self._opaque, told, body))
        while True:
            header, answered = self._frame()
            flag, opaque = _number(header, "flag"), _number(header, "opaque")
            if flag & ANSWER and opaque == self._opaque:
                told = header.get("extFields") or {}
                if not isinstance(told, dict):
                    raise DamagedError("its extFields are no object")
                texts = {name: str(value) for name, value in told.items() if value is not None}
                return Answer(_number(header, "code"), str(header.get("remark") or ""), texts, answered)
            if flag & ANSWER:
                raise DamagedError(f"it answers request {opaque}, and {self._opaque} was asked")

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def _frame(self) -> tuple[dict[str, Any], bytes]:
        length = int.from_bytes(self._bytes(4), "big")
        if not 4 <= length <= FRAME_MAX:
            raise DamagedError(f"its length is {length:,}")
        form, size = (word := self._bytes(4))[0], int.from_bytes(word[1:], "big")
        if form != 0 or size > length - 4:
            raise DamagedError(f"its header has form {form} and {size:,} of {length:,} bytes")
        try:
            header = json.loads(self._bytes(size).decode(errors="replace"), strict=False)
        except (ValueError, RecursionError) as error:
            raise DamagedError(f"its header is not JSON: {error}") from None
        if not isinstance(header, dict):
            raise DamagedError("its header is no object")
        return header, self._bytes(length - 4 - size)

    def _bytes(self, count: int) -> bytes:
        found: bytes = self._stream.read(count)
        if len(found) < count:
            raise ConnectionResetError("the connection was closed in the middle of an answer")
        return found


def _request(code: int, opaque: int, fields: dict[str, str], body: bytes) -> bytes:
    header = {"code": code, "flag": 0, "language": "PYTHON", "opaque": opaque, "serializeTypeCurrentRPC": "JSON"}
    text = json.dumps({**header, "version": VERSION, "extFields": fields}, separators=(",", ":")).encode()
    return (4 + len(text) + len(body)).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text + body


def _number(header: dict[str, Any], name: str) -> int:
    value = header.get(name, 0)
    if type(value) is not int:
        raise DamagedError(f"{name} = {value!r} is no number")
    return value
