"""What a connection has been handed and has not settled, by delivery tag. A thread extends it, so that a task may take as
long as it likes while its process lives."""

from __future__ import annotations

import logging
from contextlib import suppress
from itertools import count
from typing import Any, Protocol

from orbitmq.client.work.heartbeat import Heartbeat
from orbitmq.errors import OrbitError

LOOKS = 4  # in each visibility time
_logger = logging.getLogger("orbitmq")


class Giver(Protocol):
    """Where messages come from. What it hands out has a `deadline`, by time.monotonic()."""

    def ack(self, hand_out: Any) -> None: ...
    def requeue(self, hand_out: Any) -> None:
        """It comes again at once, and this was a delivery."""

    def give_back(self, hand_out: Any) -> None:
        """It comes again at once; nothing was done with it."""

    def extend(self, hand_out: Any, seconds: float) -> None: ...
    def too_late(self) -> list[str]:
        """Places of those that were settled when their time was over, since the last call."""


class Hands:
    """Threads may share it."""

    def __init__(self, visibility: float) -> None:
        self._visibility = visibility
        self._open: dict[str, tuple[Giver, Any]] = {}
        self._numbers = count(1)
        self._heartbeat = Heartbeat(self._look)

    def __len__(self) -> int:
        return len(self._open)

    def add(self, giver: Giver, hand_out: Any) -> str:
        """Returns its delivery tag, which no other delivery of this connection has."""
        tag = str(next(self._numbers))
        self._open[tag] = giver, hand_out
        if self._heartbeat.resting:
            self._heartbeat.wake()
        return tag

    def ack(self, tag: str) -> None:
        """Does nothing if it is settled already, as the other ways to settle it."""
        if (found := self._open.pop(tag, None)) is not None:
            found[0].ack(found[1])

    def requeue(self, tag: str) -> None:
        if (found := self._open.pop(tag, None)) is not None:
            found[0].requeue(found[1])

    def give_back(self, tag: str) -> None:
        if (found := self._open.pop(tag, None)) is not None:
            found[0].give_back(found[1])

    def close(self) -> None:
        """What is still open comes again when its session ends."""
        self._heartbeat.stop(wait=True)
        self._open.clear()

    def _look(self, now: float) -> float | None:
        for giver, hand_out in list(self._open.copy().values()):
            if hand_out.deadline - now < self._visibility / 2:
                with suppress(OrbitError):  # the broker has gone, and whoever settles it finds out
                    giver.extend(hand_out, self._visibility)
        for giver in {giver for giver, _ in self._open.copy().values()}:
            with suppress(OrbitError):  # answers are on their way, or the session was closed meanwhile
                for place in giver.too_late():
                    _logger.warning("%s was settled too late: its time was over, and it comes again", place)
        return self._visibility / LOOKS if self._open else None
