"""Goal: what fails every second is said once, and again when it fails anew."""

from __future__ import annotations

import pytest

from orbitmq.actors.trouble import Trouble


def test_once_until_it_went_well(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble()
    for text in ("no room", "no room", "no right", "no room"):
        trouble.say(text)
    trouble.over()
    trouble.say("no room")
    assert caplog.messages == ["no room", "no right", "no room", "no room"]
