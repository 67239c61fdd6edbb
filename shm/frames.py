"""Frames of the control socket: 4 bytes of length, big-endian, then one msgpack map. Descriptors are sent with the first byte.

question   {"op": name, "id": n, ...}
answer     {"id": n, "ok": value}
           {"id": n, "error": class name, "message": text, "hint": ways or nil, "face": name, "values": {...}}

Ways are those of errors/remedy.py: lists of text and knobs, a knob being the list of its name, value and owner. Before the
first stands what is assured besides.
"""

from __future__ import annotations

import array
import os
import socket
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgpack

from orbitmq import errors
from orbitmq.errors.remedy import FACES, library, of_plain
from orbitmq.errors.root import made
from orbitmq.shm import text
from orbitmq.shm.disk_fault import said, way_out

FRAME_MAX = 16 << 20
DESCRIPTORS_MAX = 8

_LENGTH = struct.Struct(">I")


def pack(message: dict[str, Any]) -> bytes:
    """Raises: UsageError: a str in it holds a lone surrogate; has .value."""
    try:
        payload: bytes = msgpack.packb(message)
    except UnicodeEncodeError as error:
        raise errors.UsageError(f"could not use {error.object!r}: {text.WHY}", hint=text.HINT, value=error.object) from None
    return _LENGTH.pack(len(payload)) + payload


class Frame(NamedTuple):
    """A message and the descriptors that came with it. The receiver closes them."""

    message: dict[str, Any]
    descriptors: tuple[int, ...]


class Unpacker:
    """Assembles frames from what a stream delivers, with the descriptors that came beside them.

    limit: bytes of the longest frame. msgpack may need a hundred times as much memory for it. Raises (from feed):
        ProtocolError: a longer frame, or one that is not a msgpack map.
    """

    def __init__(self, limit: int = FRAME_MAX) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._ahead: tuple[int, ...] = ()  # descriptors of the frame whose beginning is in the buffer

    def feed(self, data: bytes, descriptors: Iterable[int] = ()) -> list[Frame]:
        """The frames that `data` completes.

        The kernel delivers descriptors with the byte they were sent with, which is the first byte of a frame, and ends a read
        after it. So the descriptors of one read belong to the last frame that begins in its data.
        """
        begun = bool(self._buffer)
        fresh = tuple(descriptors)
        self._buffer += data
        try:
            messages = self._messages()
        except BaseException:
            self._ahead += fresh  # for `close`
            raise
        frames = [Frame(message, ()) for message in messages]
        if frames and begun:
            frames[0] = Frame(messages[0], self._ahead)
            self._ahead = ()
        if fresh and frames and not self._buffer:
            frames[-1] = Frame(messages[-1], frames[-1].descriptors + fresh)
        else:
            self._ahead += fresh
        return frames

    def _messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        while len(self._buffer) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._buffer)
            if size > self._limit:
                raise errors.ProtocolError(f"could not read a control frame of {size} bytes: the limit is {self._limit}")
            end = _LENGTH.size + size
            if len(self._buffer) < end:
                break
            try:
                message = msgpack.unpackb(self._buffer[_LENGTH.size : end], strict_map_key=False)
            except Exception as error:
                raise errors.ProtocolError(f"could not read a control frame of {size} bytes: {error}") from error
            if not isinstance(message, dict):
                raise errors.ProtocolError("could not read a control frame: it holds no map")
            del self._buffer[:end]
            messages.append(message)
        return messages

    def close(self) -> None:
        """Closes descriptors that nobody has taken."""
        ahead, self._ahead = self._ahead, ()
        for descriptor in ahead:
            os.close(descriptor)


def receive(sock: socket.socket, unpacker: Unpacker) -> list[Frame] | None:
    """One recvmsg; None at the end of the stream."""
    room = socket.CMSG_SPACE(DESCRIPTORS_MAX * 4)
    data, ancillary, _, _ = sock.recvmsg(1 << 16, room, socket.MSG_CMSG_CLOEXEC)
    numbers = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
    return unpacker.feed(data, numbers) if data else None


def send(sock: socket.socket, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
    """Sends a whole frame on a blocking socket; descriptors go with its first byte."""
    frame = pack(message)
    sent = 0
    if descriptors:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        sent = sock.sendmsg([frame], rights)
    sock.sendall(frame[sent:])


def error_map(error: BaseException) -> dict[str, Any]:
    """An error as the map that error_raised understands. An exception of another kind becomes a BrokerError with its text."""
    if isinstance(error, errors.OrbitError):
        values = {name: value if _plain(value) else str(value) for name, value in error.values.items()}
        remedy = error.remedy.plain() if error.remedy else None
        face = next((name for name, each in FACES.items() if each is error.face), "library")
        return {"error": type(error).__name__, "message": error.message, "hint": remedy, "face": face, "values": values}
    if isinstance(error, OSError):
        text = f"could not carry out the request: the operating system reported an error to the broker: {said(error)}"
        return error_map(errors.BrokerError(text, hint=way_out(error)))
    text = f"could not carry out the request: the broker failed with {type(error).__name__}: {error}"
    return error_map(errors.BrokerError(text, hint="please report it, with what the broker's error output has"))


def error_raised(content: dict[str, Any]) -> errors.OrbitError:
    """The error that a map describes, ready to be raised."""
    kind = getattr(errors, str(content.get("error")), None)
    if not (isinstance(kind, type) and issubclass(kind, errors.OrbitError)):
        kind = errors.BrokerError
    message = str(content.get("message"))
    face = FACES.get(str(content.get("face")), library)
    return made(kind, message, {**(content.get("values") or {}), "remedy": of_plain(content.get("hint")), "face": face})


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_plain(item) for item in value)
    return value is None or isinstance(value, str | bytes | bool | int | float)
