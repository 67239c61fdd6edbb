"""What goes wrong again and again, in the broker's log once."""

from __future__ import annotations

from orbitmq.actors import events


class Trouble:
    """Of one thing that is tried over and over. Lines are said when they are new, and again after it went well."""

    def __init__(self) -> None:
        self._said = ""

    def say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            events.warn(text)

    def over(self) -> None:
        """It went well."""
        self._said = ""
