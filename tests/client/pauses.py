"""Who waits for an absent broker. To look at the frames of other threads instead would leave frame objects that kill a forked
child when its garbage collector meets them, because the child frees the stacks of its parent's threads (CPython 3.11)."""

from __future__ import annotations

import os
import threading

import pytest

from orbitmq.client.connection.absence import Absence

_PAUSES: set[tuple[int, int]] = set()  # process, thread


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes who waits; `waiting` needs it."""
    pause = Absence.pause

    def noted(self: Absence, seconds: float) -> None:
        me = os.getpid(), threading.get_ident()
        _PAUSES.add(me)
        try:
            pause(self, seconds)
        finally:
            _PAUSES.discard(me)

    monkeypatch.setattr(Absence, "pause", noted)


def waiting(most: int | None = None) -> bool:
    """True if some thread waits for a broker; as many threads as given, if a number is given."""
    found = len([process for process, _ in tuple(_PAUSES) if process == os.getpid()])
    return found > 0 if most is None else found == most
