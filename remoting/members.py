"""Members of consumer groups: that they are there, that they leave, and who else is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from orbitmq.errors import OrbitError
from orbitmq.remoting import heartbeat
from orbitmq.remoting.consumers import Consumers
from orbitmq.remoting.filter_text import refusal
from orbitmq.remoting.host import Host
from orbitmq.remoting.request import BAD_FILTER, SYSTEM_ERROR, Answer, Answers, Client, Request

CHANGED = 40  # NOTIFY_CONSUMER_IDS_CHANGED
SILENT_S = 120.0  # RocketMQ's; clients send a heartbeat every 30 s
LOOK_S = 10.0  # how often silent members are looked for


class Members:
    def __init__(self, host: Host, clock: Callable[[], float] = time.monotonic) -> None:
        self._host = host
        self._clock = clock
        self._next_s = clock() + LOOK_S
        self.consumers = Consumers(SILENT_S)
        self.answers: Answers = {34: self._heartbeat, 35: self._unregister, 38: self._list, 46: self._check}

    def gone(self, client: Client) -> None:
        """The client's connection has ended."""
        self._tell(self.consumers.gone(client))

    def look(self) -> None:
        """Sees to it that silent members leave, though nobody asks."""
        now_s = self._clock()
        if now_s >= self._next_s:
            self._next_s = now_s + LOOK_S
            self._tell(self.consumers.expire(now_s))

    def _heartbeat(self, request: Request) -> Answer:
        """Who is refused its topic of retries is a member all the same, as are the others: the topic is tried for again with
        each heartbeat, and the answer says what was refused."""
        told = heartbeat.read(request.body)
        if told.excess is not None:
            return Answer(SYSTEM_ERROR, told.excess)
        if told.client_id:
            self._host.name(request.client, told.client_id)
        for each in told.consumers:
            for subscription in each.subscriptions:
                self._host.filters.subscribe(each.group, subscription)
        now_s = self._clock()
        changed = self.consumers.hear(request.client, told, now_s) | self.consumers.expire(now_s)
        self._tell(changed)  # before the answer, as RocketMQ does
        refused = None
        for each in told.consumers:
            try:
                self._prepare(each.group)
            except OrbitError as error:
                refused = refused or str(error)
        return Answer() if refused is None else Answer(SYSTEM_ERROR, refused)

    def _unregister(self, request: Request) -> Answer:
        group = request.fields.get("consumerGroup", "")
        if self.consumers.leave(group, request.client):
            self._tell({group})
        return Answer(fields={})

    def _list(self, request: Request) -> Answer:
        group = request.fields["consumerGroup"]
        self._tell(self.consumers.expire(self._clock()))
        ids = self.consumers.ids(group)
        if not ids:
            return Answer(SYSTEM_ERROR, f"no consumer for this group, {group}")
        return Answer(body=json.dumps({"consumerIdList": ids}, separators=(",", ":")).encode())

    def _prepare(self, group: str) -> None:
        """A client looks for the group's topic of retries when it begins, and then not again for 30 s."""
        if self._host.topics.find(f"%RETRY%{group}") is None:
            self._host.ask("prepare_retries", group=group)

    def _check(self, request: Request) -> Answer:
        """Java's clients ask before they subscribe with SQL92."""
        subscription = heartbeat.read_check(request.body)
        why = refusal(subscription.expression) if subscription.kind == "SQL92" else None
        return Answer() if why is None else Answer(BAD_FILTER, why)

    def _tell(self, groups: set[str]) -> None:
        for group in groups:
            members = self.consumers.clients(group)
            for client in members:
                self._host.tell(client, CHANGED, {"consumerGroup": group}, b"")
            if not members:
                self._host.filters.unsubscribe(group)
