"""What goes wrong again and again, on the broker's error output once."""

from __future__ import annotations

from orbitmq.actors.events import say


class Trouble:
    """Of one thing that is tried over and over. Lines are said when they are new, and again after it went well. broker: its
    name."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._said = ""

    def say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            say(self._broker, text)

    def over(self) -> None:
        """It went well."""
        self._said = ""
