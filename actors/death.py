"""How an actor ended, and what it said last."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Death:
    """actor is its name, life counts its lives, at is in seconds since the epoch, ended names an exit code or a signal. words:
    the last lines that it wrote, the oldest first."""

    actor: str
    pid: int
    life: int
    at: float
    ended: str
    words: tuple[str, ...]
