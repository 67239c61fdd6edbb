"""Telling who forgot to close a client, producer, consumer or embedded broker, and how each of them looks in print.

Python warns of files and sockets in the same way: a ResourceWarning when one is collected while it is open, which is shown
under `python -X dev` or `-W default`. What becomes of the thing is not decided here."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable


def warn_unclosed(
    thing: object,
    made_by: int,
    *,
    was: str | None = None,
    # Bound here: when the interpreter ends, the names of this module may be gone before the last object is.
    finalizing: Callable[[], bool] = sys.is_finalizing,
    process: Callable[[], int] = os.getpid,
    warn: Callable[..., None] = warnings.warn,
) -> None:
    """For finalizers of what is open. Silent when the interpreter ends, which closes everything, and in a forked child, whose
    parent still has the thing.

    made_by: the process whose it is; 0: it was never made. was: its repr before the finalizer closed it."""
    if made_by == process() and not finalizing():
        text = f"unclosed {was or repr(thing)}; close it, or use it in a with statement"
        warn(text, ResourceWarning, stacklevel=2, source=thing)


def shown(thing: object, words: Callable[[], str]) -> str:
    """A repr: the type's name, then what `words` says; for something half made, that it is."""
    try:
        return f"<{type(thing).__name__} {words()}>"
    except AttributeError:
        return f"<{type(thing).__name__}, not made>"


def state(closed: bool) -> str:
    return "closed" if closed else "open"
