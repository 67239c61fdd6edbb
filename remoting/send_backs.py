"""Messages that a group gives back, when it has no topics yet for retries and dead letters. The loop asks once for each."""

from __future__ import annotations

from orbitmq.errors import OrbitError
from orbitmq.remoting.host import Host
from orbitmq.remoting.request import AGAIN, NO_GROUP, Answer, Answers, Request

RETRY = "%RETRY%"


class SendBacks:
    def __init__(self, host: Host) -> None:
        self._host = host
        self.answers: Answers = {36: self._prepare}

    def _prepare(self, request: Request) -> Answer:
        return prepare_group(self._host, request.fields["group"])


def prepare_group(host: Host, group: str) -> Answer:
    try:
        host.ask("prepare_retries", group=group)
    except OrbitError as error:
        return Answer(NO_GROUP, f"the group {group} cannot give messages back: {error}")
    return AGAIN
