"""What an administrator asks a consumer, through the broker: what it is doing, and to process one message now. The consumer's
answer is passed on as it is."""

from __future__ import annotations

import struct
from contextlib import closing

from orbitmq.remoting.admin.log_view import LogView
from orbitmq.remoting.admin.remote_record import remote_record
from orbitmq.remoting.consumers import Consumers
from orbitmq.remoting.host import Host
from orbitmq.remoting.request import SYSTEM_ERROR, Answer, Answers, Client, Forward, Request

RUNNING, PROCESS = 307, 309
_PLACE = struct.Struct(">q")  # at the end of a message's id


class Questions:
    def __init__(self, host: Host, log: LogView, consumers: Consumers) -> None:
        self._host = host
        self._log = log
        self._consumers = consumers
        self.answers: Answers = {RUNNING: self._running, PROCESS: self._process}

    def _running(self, request: Request) -> Answer | Forward:
        client = self._member(request)
        return _not_online(request) if client is None else Forward(client, RUNNING, request.fields, request.body)

    def _process(self, request: Request) -> Answer | Forward:
        """The message is read from the log here; the consumer processes it as if it had come, and commits nothing."""
        client = self._member(request)
        if client is None:
            return _not_online(request)
        place = _place(request.fields["msgId"])
        with closing(self._log.reader()) as reader:
            found = self._log.shown(reader, place)
            if found is None:
                return Answer(SYSTEM_ERROR, f"there is no message {request.fields['msgId']}")
            body = remote_record(found.record())
        return Forward(client, PROCESS, {**request.fields, "brokerName": self._host.broker}, body)

    def _member(self, request: Request) -> Client | None:
        group, name = request.fields["consumerGroup"], request.fields["clientId"]
        members = self._consumers.members(group).items()
        return next((client for client, member in members if member.client_id == name), None)


def _place(id: str) -> int:
    """Raises: ValueError: it is no id of a message."""
    content = bytes.fromhex(id)
    if len(content) < _PLACE.size:
        raise ValueError(f"{id!r} is no id of a message")
    return int(_PLACE.unpack(content[-_PLACE.size :])[0])


def _not_online(request: Request) -> Answer:
    group, name = request.fields["consumerGroup"], request.fields["clientId"]
    return Answer(SYSTEM_ERROR, f"The Consumer <{group}> <{name}> not online")
