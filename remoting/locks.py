"""Locks of queues, by which ordered consumers make sure that no other member reads their queues."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from orbitmq.remoting.host import Host
from orbitmq.remoting.json_body import read_json
from orbitmq.remoting.request import Answer, Answers, Request
from orbitmq.shm.topic_table import QueueKey


class Wanted(NamedTuple):
    group: str
    owner: str
    queues: list[QueueKey]


class Locks:
    def __init__(self, host: Host) -> None:
        self._host = host
        self.answers: Answers = {41: self._lock, 42: self._unlock}

    def _lock(self, request: Request) -> Answer:
        wanted = self._wanted(request)
        granted, _ = self._host.ask("lock_queues", group=wanted.group, owner=wanted.owner, locked=wanted.queues)
        queues = [{"brokerName": self._host.broker, "queueId": queue, "topic": topic} for topic, queue in granted]
        return Answer(body=json.dumps({"lockOKMQSet": queues}, separators=(",", ":")).encode())

    def _unlock(self, request: Request) -> Answer:
        wanted = self._wanted(request)
        self._host.ask("unlock_queues", group=wanted.group, owner=wanted.owner, locked=wanted.queues)
        return Answer()

    def _wanted(self, request: Request) -> Wanted:
        """Those of the queues that this broker has. Raises: ValueError."""
        told = read_json(request.body)
        try:
            queues = [self._known(each) for each in told["mqSet"]]
            return Wanted(str(told["consumerGroup"]), str(told["clientId"]), [queue for queue in queues if queue is not None])
        except (TypeError, KeyError) as error:
            raise ValueError(f"the body names no group, client or queues: {error!r}") from error

    def _known(self, told: dict[str, Any]) -> QueueKey | None:
        topic, queue = self._host.topics.find(str(told["topic"])), int(told["queueId"])
        return (topic.name, queue) if topic is not None and not topic.deleted and 0 <= queue < topic.queues else None
