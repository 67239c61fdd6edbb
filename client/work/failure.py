"""Why a job failed, in two short texts that travel with its message: a reason for people, and a digest by which failures of the
same kind can be counted."""

from __future__ import annotations

import sys
from types import FrameType, TracebackType
from typing import NamedTuple

REASON_MAX = 500  # bytes of UTF-8, so that a message with large properties has room for it
DIGEST_DIGITS = 12


class Failure(NamedTuple):
    """reason: one line, at most REASON_MAX bytes. digest: hex digits; "" if there is no traceback."""

    reason: str
    digest: str


def failure_of(error: BaseException) -> Failure:
    """The type and the text of an error, and a digest of its type and of the functions that it passed through."""
    name = type(error).__qualname__
    try:
        text = str(error)
    except Exception:  # somebody else's class; a job must be nacked whatever it does
        text = "(its text could not be made)"
    return Failure(bounded(f"{name}: {text}" if text else name), _digest(name, _calls(error.__traceback__)))


def stuck(thread: int | None, seconds: float) -> Failure:
    """The failure of a job that was not done after so many seconds. thread: the identifier of the one that works on it; its
    stack makes the digest."""
    frame = None if thread is None else sys._current_frames().get(thread)
    return Failure(f"TimedOut: not done after {seconds:g} s", _digest("TimedOut", _stack(frame)))


def bounded(text: str) -> str:
    """The text as one line that can be a property of a message: control characters, which end properties, become blanks."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text[: 4 * REASON_MAX]).split())
    encoded = line.encode(errors="replace")
    if len(encoded) <= REASON_MAX:
        return encoded.decode()
    return encoded[: REASON_MAX - 3].decode(errors="ignore") + "..."


def _digest(name: str, calls: list[str]) -> str:
    """Numbers of lines do not count, so that the digest outlives an edit elsewhere in the file; nor does how deep a recursion
    was."""
    if not calls:
        return ""
    from hashlib import sha256  # here: it brings OpenSSL with it

    different = [call for call, before in zip(calls, ["", *calls], strict=False) if call != before]
    return sha256("\n".join([name, *different]).encode()).hexdigest()[:DIGEST_DIGITS]


def _calls(traceback: TracebackType | None) -> list[str]:
    """The functions of the program's that a traceback shows, outermost first."""
    found = []
    while traceback is not None:
        found.append(_call(traceback.tb_frame))
        traceback = traceback.tb_next
    return [each for each in found if not each.startswith("orbitmq.")]


def _stack(frame: FrameType | None) -> list[str]:
    found = []
    # The thread may be running, and then CPython 3.11 can return an `f_back` that is no frame.
    while isinstance(frame, FrameType):
        found.append(_call(frame))
        frame = frame.f_back
    ours = ("orbitmq.", "threading.")
    return [each for each in reversed(found) if not each.startswith(ours)]


def _call(frame: FrameType) -> str:
    module = frame.f_globals.get("__name__", "")
    return f"{'__main__' if module == '__mp_main__' else module}.{frame.f_code.co_qualname}"
