"""Goal: queues are synced as often as their syncs allow, and a removal that takes long does not come more seldom for that.

Method: the duties of a flush service, without a tree, by a clock that the test moves."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from orbitmq.actors import flush
from orbitmq.actors.flush import DUTY_S, SYNC_SHARE, Flush


class Duties(Flush):
    """sync_s, removal_s: what they take. pauses: those between two rounds; there are three rounds."""

    def __init__(self, sync_s: float, removal_s: float) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.removal_s = removal_s
        self._ended = SimpleNamespace(wait=self._wait)  # type: ignore[assignment]
        self._sync = SimpleNamespace(run=lambda: self._take(sync_s))  # type: ignore[assignment]

    def _take(self, seconds: float) -> None:
        self.now += seconds

    def _wait(self, pause: float) -> bool:
        self.pauses.append(pause)
        return len(self.pauses) > 3

    def _expire(self) -> None:
        self._take(self.removal_s)


def pauses(monkeypatch: pytest.MonkeyPatch, *, sync_s: float, removal_s: float) -> list[float]:
    duties = Duties(sync_s, removal_s)
    monkeypatch.setattr(flush, "time", SimpleNamespace(monotonic=lambda: duties.now))
    duties._duties()
    return duties.pauses


def test_syncs_take_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pauses(monkeypatch, sync_s=0.25, removal_s=0) == [0, DUTY_S, DUTY_S, DUTY_S]
    assert pauses(monkeypatch, sync_s=2, removal_s=0) == [0, *[pytest.approx(2 / SYNC_SHARE)] * 3]


def test_a_long_removal_delays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pauses(monkeypatch, sync_s=0.25, removal_s=60) == [0, DUTY_S, DUTY_S, DUTY_S]
