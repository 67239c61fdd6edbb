"""What a worker is built on: hand-outs, and the session that they come from (session.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from orbitmq.client.message import Message


class HandOut(Protocol):
    """A message that the broker has handed to this session."""

    @property
    def message(self) -> Message: ...
    @property
    def delivery(self) -> int:
        """1 for the first."""
    @property
    def deadline(self) -> float:
        """When it is given to another worker, by time.monotonic()."""


Handed = TypeVar("Handed", bound=HandOut)


class Session(Protocol[Handed]):
    """Threads may share it."""

    def take(self, most: int, timeout: float | None) -> list[Handed]:
        """Waits until there is one at least; returns an empty list at the timeout, or after `interrupt`. The broker holds no
        more for this session than those that it has and this many."""

    def ack(self, hand_outs: Sequence[Handed]) -> None: ...
    def nack(self, hand_out: Handed, delay: float | None = None, reason: str = "", digest: str = "") -> None:
        """delay: seconds until it comes again; None: as the group's back-off table says."""

    def extend(self, hand_out: Handed, seconds: float) -> None:
        """Moves its deadline to so many seconds from now."""

    def give_back(self, hand_outs: Sequence[Handed]) -> None:
        """Untouched: they come again at once, and their delivery counts are not raised."""

    def settled(self, timeout: float | None) -> list[Handed]:
        """Waits until the broker has applied all answers. Returns hand-outs whose answers it refused since the last call,
        because they were not this session's any more."""

    def interrupt(self) -> None:
        """Ends the wait of `take`, or else the next one. Signal handlers may call it."""

    def close(self, timeout: float | None = 0.0) -> None:
        """Waits so long until the broker has applied all answers. What is still in hand comes again."""
