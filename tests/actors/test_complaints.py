"""Goal: no client can fill a disk with lines about it, and no client goes unreported for ever. Method: a clock that the test
controls."""

from __future__ import annotations

import pytest

from orbitmq.actors.complaints import LINES_AT_ONCE, LINES_PER_S, Complaints


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_flood(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    complaints = Complaints(clock)
    for number in range(1000):
        complaints.say(f"line {number}")
    told = caplog.messages
    assert [record.levelname for record in caplog.records] == ["WARNING"] * LINES_AT_ONCE
    assert len(told) == LINES_AT_ONCE and told[0] == "line 0"
    caplog.clear()
    clock.now += 1 / LINES_PER_S
    complaints.say("one more")
    complaints.say("too many")
    [line] = caplog.messages
    assert line.endswith("one more (980 lines like it were left out)")
    caplog.clear()
    clock.now += 1000
    for _ in range(1000):
        complaints.say("again")
    again = caplog.messages
    assert len(again) == LINES_AT_ONCE, "however long it was quiet"
    assert again[0].endswith("(1 lines like it were left out)") and again[1].endswith("again")


def test_a_slow_trickle_is_told_whole(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    complaints = Complaints(clock)
    for _ in range(200):
        clock.now += 1 / LINES_PER_S
        complaints.say("a line")
    assert len(caplog.messages) == 200
