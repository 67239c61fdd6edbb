"""The warning about a client, producer, consumer, worker or embedded broker that was not closed, and the repr of each.

Python warns about files and sockets in the same way: a ResourceWarning if an open one is garbage-collected, shown under `python
-X dev` or `-W default`. This module does not decide what happens to the object."""

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
    """Called by finalizers of open objects. Silent when the interpreter ends, which closes everything, and in a forked child,
    whose parent still has the object.

    made_by: the process that owns it; 0: it was never completely made. was: its repr before the finalizer closed it."""
    if made_by == process() and not finalizing():
        text = f"unclosed {was or repr(thing)}; close it, or use it in a with statement"
        warn(text, ResourceWarning, stacklevel=2, source=thing)


class Shown:
    """Has a repr: the type's name, then what `_words` says; an object that is only half made says so."""

    __slots__ = ()

    def __repr__(self) -> str:
        try:
            return f"<{type(self).__name__} {self._words()}>"
        except AttributeError:
            return f"<{type(self).__name__}, not made>"

    def _words(self) -> str:
        raise NotImplementedError


def words_of(thing: Shown) -> str:
    """What the repr of this says, for one that stands in front of it."""
    return thing._words()


def state(closed: bool) -> str:
    return "closed" if closed else "open"
