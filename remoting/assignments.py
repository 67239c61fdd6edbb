"""Which queues a member of a group gets, for consumers that have the broker share them (QUERY_ASSIGNMENT, 400), and by which
request they get messages (SET_MESSAGE_REQUEST_MODE, 401). By pop, each member asks for all queues at once."""

from __future__ import annotations

import json
from typing import Any

from orbitmq.remoting.consumers import Consumers
from orbitmq.remoting.host import Host
from orbitmq.remoting.json_body import read_json
from orbitmq.remoting.request import NO_GROUP, NO_PERMISSION, TOPIC_NOT_EXIST, Answer, Answers, Request
from orbitmq.remoting.send_backs import RETRY
from orbitmq.store import request_modes
from orbitmq.store.config import load_groups
from orbitmq.store.request_modes import POP, PULL, RequestMode

QUERY, SET_MODE = 400, 401
ALL_QUEUES = -1
BROADCASTING = "BROADCASTING"
BY_CIRCLE = "AVG_BY_CIRCLE"
STRATEGIES = ("AVG", BY_CIRCLE)


class Assignments:
    """The modes are read from the store each time: clients ask every 20 s."""

    def __init__(self, host: Host, consumers: Consumers) -> None:
        self._host = host
        self._layout = host.settings.layout
        self._consumers = consumers
        self.answers: Answers = {QUERY: self._query, SET_MODE: self._set}

    def _query(self, request: Request) -> Answer:
        """No queues: the client is to let go of what it has. Null: it is to keep it, because nothing is known now."""
        told = _read(request)
        topic, group, client = (str(told.get(name) or "") for name in ("topic", "consumerGroup", "clientId"))
        mode = self._mode(topic, group)
        if topic.startswith(RETRY) and self._pops(group):
            queues: list[int] | None = []  # they come with what is popped
        elif told.get("messageModel") == BROADCASTING:
            queues = self._every(topic)
        elif mode == POP and self._every(topic) is not None and self._consumers.ids(group):
            queues = [ALL_QUEUES]
        else:
            queues = self._share(topic, group, client, str(told.get("strategyName")))
        assigned = None if queues is None else [self._assigned(topic, queue, mode) for queue in queues]
        body = json.dumps({"messageQueueAssignments": assigned}, separators=(",", ":"))
        return Answer(body=body.encode())

    def _mode(self, topic: str, group: str) -> str:
        return request_modes.load(self._layout).get(topic, {}).get(group, RequestMode()).mode

    def _every(self, topic: str) -> list[int] | None:
        """None: there is no such topic."""
        known = self._host.topics.find(topic)
        return None if known is None or known.deleted else list(range(known.queues))

    def _share(self, topic: str, group: str, client: str, strategy: str) -> list[int] | None:
        every, members = self._every(topic), sorted(self._consumers.ids(group))
        if every is None or not members or strategy not in STRATEGIES:
            return None
        if client not in members:
            return []
        at = members.index(client)
        return every[at :: len(members)] if strategy == BY_CIRCLE else _average(every, at, len(members))

    def _pops(self, group: str) -> bool:
        """Whether the group gets messages of some topic by pop."""
        return any(groups.get(group, RequestMode()).mode == POP for groups in request_modes.load(self._layout).values())

    def _knows(self, group: str) -> bool:
        """It was made by an administrator, or has begun."""
        made, _ = load_groups(self._layout)
        return group in made or group in {each["name"] for each in self._host.ask("groups")[0]}

    def _assigned(self, topic: str, queue: int, mode: str) -> dict[str, object]:
        return {"messageQueue": {"brokerName": self._host.broker, "queueId": queue, "topic": topic}, "mode": mode}

    def _set(self, request: Request) -> Answer:
        told = _read(request)
        topic, group, mode = str(told["topic"]), str(told["consumerGroup"]), str(told.get("mode", PULL))
        if mode not in (POP, PULL):
            raise ValueError(f"mode {mode!r:.20} is neither POP nor PULL")
        share = told.get("popShareQueueNum", 0)
        if not isinstance(share, int):
            raise ValueError(f"popShareQueueNum {share!r:.20} is no number")
        if topic.startswith(RETRY):
            return Answer(NO_PERMISSION, "retry topic is not allowed to set mode")
        known = self._host.topics.find(topic)
        if known is None or known.deleted:
            return Answer(TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        if not self._knows(group):
            return Answer(NO_GROUP, "subscription group does not exist")
        modes = request_modes.load(self._layout)
        modes.setdefault(topic, {})[group] = RequestMode(mode, share)
        request_modes.store(self._layout, modes)
        return Answer()


def groups_of(body: bytes) -> list[str]:
    """Whose queues are asked for. What cannot be read is about nobody's."""
    try:
        told = read_json(body)
    except ValueError:
        return []
    return [str(told.get("consumerGroup") or "")] if isinstance(told, dict) else []


def _read(request: Request) -> dict[str, Any]:
    told = read_json(request.body)
    if not isinstance(told, dict):
        raise ValueError("it names no topic and group")
    return told


def _average(queues: list[int], at: int, members: int) -> list[int]:
    """As RocketMQ's AVG: one run of neighbours each, the first ones get one more."""
    share, odd = divmod(len(queues), members)
    begin = at * share + min(at, odd)
    return queues[begin : begin + share + (at < odd)]
