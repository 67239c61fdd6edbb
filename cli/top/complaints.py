"""What was wrong with a broker while somebody watched: what one reads between two looks."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from orbitmq.client.admin.status import Status

KEPT = 200


@dataclass(frozen=True, slots=True)
class Complaint:
    """at: seconds since the epoch."""

    at: float
    text: str

    def __str__(self) -> str:
        return f"{time.strftime('%H:%M:%S', time.localtime(self.at))}  {self.text}"


class Complaints:
    """The last ones, the newest first. What goes on is told once, when it begins, and again if it ended in between."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._kept: deque[Complaint] = deque(maxlen=KEPT)
        self._standing: set[str] = set()

    def __iter__(self) -> Iterator[Complaint]:
        return iter(self._kept)

    @property
    def last(self) -> Complaint | None:
        return self._kept[0] if self._kept else None

    def lost(self, why: str) -> None:
        self._say({why})

    def compare(self, before: Status | None, now: Status) -> None:
        """before: the last look at any broker of this name."""
        if before is not None:
            if before.generation != now.generation:
                self._add("the broker was started again")
            else:
                for text in _deaths(before, now):
                    self._add(text)
        self._say({*now.health.reasons, *now.notes})

    def _say(self, standing: set[str]) -> None:
        for text in sorted(standing - self._standing):
            self._add(text)
        self._standing = standing

    def _add(self, text: str) -> None:
        self._kept.appendleft(Complaint(self._clock(), text))


def _deaths(before: Status, now: Status) -> Iterator[str]:
    lives = {actor.name: actor for actor in before.actors}
    deaths = {key: death for death in now.deaths for key in (death.pid, death.actor)}
    for actor in now.actors:
        last = lives.get(actor.name)
        if last is not None and actor.epoch > last.epoch:
            # by its process where several actors are one; by its name if it died more than once meanwhile
            death = deaths.get(last.pid) or deaths.get(actor.name)
            how = "" if death is None else f" of {death.ended}"
            words = "" if death is None or not death.words else f"; its last words: {death.words[-1]}"
            yield f"{actor.name} died{how} and was started again: life {actor.epoch}{words}"
        if actor.error and (last is None or last.error != actor.error):
            yield f"{actor.name} was stopped by {os.strerror(actor.error)}"
