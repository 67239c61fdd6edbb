"""Goal: what fails every second is said once, and again when it fails anew."""

from __future__ import annotations

import pytest

from orbitmq.actors.trouble import Trouble


def test_once_until_it_went_well(capsys: pytest.CaptureFixture[str]) -> None:
    trouble = Trouble("x")
    for text in ("no room", "no room", "no right", "no room"):
        trouble.say(text)
    trouble.over()
    trouble.say("no room")
    told = [line.rpartition("orbitmq[x]: ")[2] for line in capsys.readouterr().err.splitlines()]
    assert told == ["no room", "no right", "no room", "no room"]
