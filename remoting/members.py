"""What clients tell of themselves: that they are there, and that they leave."""

from __future__ import annotations

from orbitmq.remoting.host import Host
from orbitmq.remoting.request import Answer, Answers, Client, Request


class Members:
    def __init__(self, host: Host) -> None:
        self._host = host
        self.answers: Answers = {34: self._heartbeat, 35: self._unregister}

    def gone(self, client: Client) -> None:
        """The client's connection has ended."""

    def _heartbeat(self, request: Request) -> Answer:
        """Nothing is kept of it yet: nobody asks who belongs to a group."""
        return Answer()

    def _unregister(self, request: Request) -> Answer:
        return Answer(fields={})
