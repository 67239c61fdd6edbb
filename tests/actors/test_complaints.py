"""Goal: no client can fill a disk with lines about it, and no client goes unreported for ever. Method: a clock that the test
controls."""

from __future__ import annotations

import pytest

from orbitmq.actors.complaints import LINES_AT_ONCE, LINES_PER_S, Complaints


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_flood(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    complaints = Complaints("x", clock)
    for number in range(1000):
        complaints.say(f"line {number}")
    told = capsys.readouterr().err.splitlines()
    assert len(told) == LINES_AT_ONCE and told[0].endswith("orbitmq[x]: line 0")
    clock.now += 1 / LINES_PER_S
    complaints.say("one more")
    complaints.say("too many")
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("one more (980 lines like it were left out)")
    clock.now += 1000
    for _ in range(1000):
        complaints.say("again")
    again = capsys.readouterr().err.splitlines()
    assert len(again) == LINES_AT_ONCE, "however long it was quiet"
    assert again[0].endswith("(1 lines like it were left out)") and again[1].endswith("again")


def test_a_slow_trickle_is_told_whole(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    complaints = Complaints("x", clock)
    for _ in range(200):
        clock.now += 1 / LINES_PER_S
        complaints.say("a line")
    assert len(capsys.readouterr().err.splitlines()) == 200
