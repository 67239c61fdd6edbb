"""A session that the coordinator has opened for this process: its addresses, and how it is given back."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from orbitmq.client.connection.session import SessionHandle
from orbitmq.errors import BrokerError, Closed, TimedOut
from orbitmq.native._core import ffi
from orbitmq.shm.crash_point import crash_point

if TYPE_CHECKING:
    from orbitmq.client.connection.attachment import Attachment
    from orbitmq.client.connection.connection import Connection


class Note(NamedTuple):
    """A question whose answer nobody waits for. It goes to the tree of this attachment."""

    attachment: Attachment
    operation: str
    fields: dict[str, Any]

    @property
    def generation(self) -> int:
        return self.attachment.generation


class Opened(NamedTuple):
    """A session that the coordinator has opened. closing: the note that gives it back; descriptors: of its memory."""

    closing: Note
    descriptors: tuple[int, ...]


def closing_of(attachment: Attachment, shape: dict[str, Any]) -> Note:
    """The note that gives a session of this shape back."""
    return Note(attachment, "close_session", {"slot": shape["slot"], "epoch": shape["epoch"]})


def session_handle(connection: Connection, attachment: Attachment, shape: dict[str, Any], memory: mmap.mmap) -> SessionHandle:
    """The handle of a session that was just opened; `memory` is unmapped when it is closed, or with it."""
    held = ffi.from_buffer("uint8_t[]", memory, require_writable=True)
    pid = os.getpid()
    closed = False
    note = closing_of(attachment, shape)

    def ask() -> None:
        try:
            connection.ask(note.operation, generation=note.generation, **note.fields)
            crash_point("opened_session_closed")
        except BrokerError:
            pass
        except Closed:
            connection.tell_apart(note)
        except TimedOut:
            leave()

    def leave() -> None:
        connection.note(note)

    def end(tell: Callable[[], None]) -> None:
        nonlocal closed
        # If a signal handler's exception comes in the middle of this, it is told again, which does no harm.
        if not closed and os.getpid() == pid and attachment.alive():
            tell()
        closed = True

    def close() -> None:
        try:
            end(ask)
        except BaseException:  # of a signal handler
            connection.note(note)
            raise
        ffi.release(held)
        with suppress(BufferError):
            memory.close()

    return SessionHandle(
        address=int(ffi.cast("uintptr_t", held)),
        size=len(memory),
        control_address=attachment.control_address,
        topics_address=attachment.topics_address,
        wake_address=attachment.wake_address,
        supervisor_fd=attachment.supervisor_fd,
        generation=attachment.generation,
        close=close,
        leave=lambda: end(leave),
        **shape,
    )
