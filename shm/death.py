"""How an actor ended, and what it said last."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Death:
    """How a process of the broker died that was started again since. actor: its name; "stages" is handler, writer and reput in
    one. life: which of its lives it was. at: seconds since the epoch. ended: a signal or an exit code. words: the last lines
    that it wrote, the oldest first, such as the assertion that did not hold."""

    actor: str
    pid: int
    life: int
    at: float
    ended: str
    words: tuple[str, ...]
