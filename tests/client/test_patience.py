"""Goal: a consumer waits for an absent broker as long as it was told to, counted over all its calls, and no call takes longer
than its own limit. Method: an opener and a clock that the test controls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orbitmq.client.connection.bell import Bell
from orbitmq.client.consumer import patience as module
from orbitmq.client.consumer.patience import Patience
from orbitmq.errors import BrokerNotRunning, Closed


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Opener:
    """Its broker comes at `at`; a wait takes the time that it may take."""

    def __init__(self, clock: Clock, at: float = float("inf")) -> None:
        self.clock = clock
        self.at = at
        self.waits: list[float] = []
        self.on_wait: Callable[[Bell], None] = lambda bell: None

    def outlast(self, attempt: Callable[[], Any], wait: float, bell: Bell, starting: float) -> None:
        self.waits.append(wait)
        self.on_wait(bell)
        if bell.rung:
            raise Closed("the wait was ended")
        if self.at > self.clock.now + wait:
            self.clock.now += max(0.0, wait)
            raise BrokerNotRunning("nobody is there")
        self.clock.now = max(self.clock.now, self.at)
        attempt()

    def open_session(self) -> str:
        return "at once"

    def open_session_now(self) -> str:
        return "patiently"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def patience(opener: Opener, wait: float) -> Patience:
    return Patience(opener, wait)  # type: ignore[arg-type]


def nothing() -> None:
    pass


def test_without_patience_the_attempt_is_made_once(clock: Clock) -> None:
    opener = Opener(clock)
    mine = patience(opener, 0)
    assert not mine and mine.open_session() == "at once"  # type: ignore[comparison-overlap]
    attempts: list[int] = []
    assert mine.outlast(lambda: attempts.append(1), None, nothing) and attempts == [1] and opener.waits == []
    with pytest.raises(BrokerNotRunning):
        mine.outlast(lambda: opener.outlast(nothing, 0, Bell(), 0), None, nothing)


def test_it_comes_in_time(clock: Clock) -> None:
    opener = Opener(clock, at=1004)
    mine = patience(opener, 10)
    assert mine and mine.open_session() == "patiently"  # type: ignore[comparison-overlap]
    assert mine.outlast(nothing, None, nothing) and opener.waits == [10]


def test_patience_is_counted_over_all_calls(clock: Clock) -> None:
    """Two calls of 4 seconds each find no broker and say so; the third has 2 seconds left, of the 10."""
    opener = Opener(clock)
    mine = patience(opener, 10)
    for _ in range(2):
        assert not mine.outlast(nothing, clock.now + 4, nothing)
    with pytest.raises(BrokerNotRunning):
        mine.outlast(nothing, clock.now + 4, nothing)
    assert opener.waits == [4, 4, 2] and clock.now == 1010


def test_it_is_counted_anew_when_the_broker_was_there(clock: Clock) -> None:
    opener = Opener(clock, at=1003)
    mine = patience(opener, 10)
    assert mine.outlast(nothing, None, nothing)
    opener.at = float("inf")
    with pytest.raises(BrokerNotRunning):
        mine.outlast(nothing, None, nothing)
    assert clock.now == 1013
    with pytest.raises(BrokerNotRunning):
        mine.outlast(nothing, None, nothing)
    assert clock.now == 1023, "and after it was over"


def test_a_ring_has_it_look(clock: Clock) -> None:
    """What the look raises ends the wait; if it raises nothing, the wait continues with the rest of its time."""
    opener = Opener(clock, at=1005)
    mine = patience(opener, 10)
    looks: list[float] = []

    def ring_once(bell: Bell) -> None:
        if len(opener.waits) == 1:
            clock.now += 3
            mine.ring()

    opener.on_wait = ring_once
    assert mine.outlast(nothing, None, lambda: looks.append(clock.now))
    assert looks == [1000, 1003] and opener.waits == [10, 7]

    def closed() -> None:
        raise Closed("could not use this consumer")

    with pytest.raises(Closed, match="could not use"):
        mine.outlast(nothing, None, closed)


def test_a_closed_that_nobody_rang_for_is_passed_on(clock: Clock) -> None:
    opener = Opener(clock, at=1000)

    def attempt() -> None:
        raise Closed("of the client")

    with pytest.raises(Closed, match="of the client"):
        patience(opener, 10).outlast(attempt, None, nothing)
